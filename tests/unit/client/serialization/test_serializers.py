"""Keys and values as bytes, and back."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import ConfigError, SerializationError
from ottla.client.serialization.avro import Avro
from ottla.client.serialization.serializers import Json, Model, Text, deserializer_of, serializer_of

JAVA = "org.apache.kafka.common.serialization."


def to_bytes(setting: Any, value: Any) -> bytes | None:
    serialize = serializer_of(setting)
    assert serialize is not None
    return serialize("t", value)


def from_bytes(setting: Any, data: bytes) -> Any:
    deserialize = deserializer_of(setting)
    return data if deserialize is None else deserialize("t", data, ())


@pytest.mark.parametrize(
    ("name", "java", "value", "data"),
    [
        ("string", "String", "ä", b"\xc3\xa4"),
        ("bytes", "ByteArray", b"\0x", b"\0x"),
        ("short", "Short", -2, b"\xff\xfe"),
        ("int", "Integer", 258, b"\0\0\1\2"),
        ("long", "Long", -1, b"\xff" * 8),
        ("float", "Float", 0.5, b"\x3f\0\0\0"),
        ("double", "Double", -2.0, b"\xc0" + bytes(7)),
        ("boolean", "Boolean", True, b"\1"),
        (
            "uuid",
            "UUID",
            uuid.UUID("123e4567-e89b-12d3-a456-426614174000"),
            b"123e4567-e89b-12d3-a456-426614174000",
        ),
    ],
)
def test_values_have_the_bytes_of_kafkas_serializers(name: str, java: str, value: Any, data: bytes) -> None:
    for setting in (name, f"{JAVA}{java}Serializer"):
        assert to_bytes(setting, value) == data
    for setting in (name, f"{JAVA}{java}Deserializer"):
        assert from_bytes(setting, data) == value


def test_python_types_name_serializers_too() -> None:
    assert to_bytes(str, "a") == b"a"
    assert to_bytes(int, 1) == bytes(7) + b"\1"
    assert from_bytes(float, to_bytes(float, 1) or b"") == 1.0
    assert from_bytes(dict, b'{"a":[1,null]}') == {"a": [1, None]}
    assert deserializer_of(bytes) is None
    assert serializer_of(None) is None


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("string", b"x"),
        ("string", "\ud800"),
        ("bytes", "x"),
        ("int", 2**31),
        ("int", 1.5),
        ("int", True),
        ("float", 1e300),
        ("boolean", 1),
        ("uuid", "x"),
        ("json", {1, 2}),
        ("json", float("nan")),
        ("void", 1),
    ],
)
def test_a_value_that_does_not_fit_is_refused_with_the_topic(setting: str, value: object) -> None:
    with pytest.raises(SerializationError, match=r"\bt\b"):
        to_bytes(setting, value)


@pytest.mark.parametrize(
    ("setting", "data"),
    [("string", b"\xff"), ("int", b"\0"), ("boolean", b"\2"), ("uuid", b"x"), ("json", b"{"), ("void", b"")],
)
def test_bytes_that_make_no_sense_are_refused_with_the_topic(setting: str, data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"\bt\b"):
        from_bytes(setting, data)


def test_callables_and_objects_do_as_well() -> None:
    assert to_bytes(lambda value: value * 2, b"a") == b"aa"
    assert from_bytes(lambda data: data[::-1], b"ab") == b"ba"
    assert to_bytes(Text("utf-16-be"), "a") == b"\0a"
    assert from_bytes(Json, b"1") == 1
    for wrong in ("strin", "com.example.Own", 5):
        with pytest.raises(ConfigError):
            serializer_of(wrong)
        with pytest.raises(ConfigError):
            deserializer_of(wrong)
    with pytest.raises(ConfigError, match="Did you mean string"):
        serializer_of("strin")


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass(frozen=True)
class Inner:
    at: datetime
    price: Decimal
    data: bytes = b""


@dataclasses.dataclass(frozen=True)
class Order:
    number: int
    inner: Inner
    colour: Colour = Colour.RED
    note: str | None = None
    tags: frozenset[str] = frozenset()
    sizes: tuple[int, ...] = ()
    pair: tuple[int, str] = (0, "")
    more: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    kind: Literal["a", "b"] = "a"
    either: int | str = 0


INNER = Inner(datetime(2026, 1, 2, tzinfo=UTC), Decimal("1.10"), b"\0\xff")


@given(
    st.builds(
        Order,
        number=st.integers(),
        inner=st.just(INNER),
        note=st.none() | st.text(),
        tags=st.frozensets(st.text()),
        sizes=st.lists(st.integers()).map(tuple),
        pair=st.tuples(st.integers(), st.text()),
        more=st.dictionaries(st.text(), st.lists(st.floats(allow_nan=False, allow_infinity=False))),
        kind=st.sampled_from(["a", "b"]),
        either=st.integers() | st.text(),
    )
)
def test_dataclasses_come_back_as_they_were(order: Order) -> None:
    assert from_bytes(Order, to_bytes(Order, order) or b"") == order


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"number": "1"}, "number must be a int"),
        ({"number": True}, "number"),
        ({"inner": {"at": "x", "price": "1"}}, "inner.at"),
        ({"inner": {"at": "2026-01-02", "price": "x"}}, "inner.price"),
        ({"inner": {}}, "inner"),
        ({"colour": "blue"}, "colour"),
        ({"sizes": [1, "2"]}, r"sizes\[1\]"),
        ({"pair": [1]}, "pair"),
        ({"more": {"a": [None]}}, "more"),
        ({"kind": "c"}, "kind"),
        ({"either": []}, "either"),
    ],
)
def test_a_field_that_does_not_fit_is_named(change: dict[str, Any], told: str) -> None:
    plain = json.loads(to_bytes(Order, Order(1, INNER)) or b"") | change
    with pytest.raises(SerializationError, match=told):
        from_bytes(Order, json.dumps(plain).encode())


def test_unknown_fields_are_left_out_and_missing_ones_take_their_defaults() -> None:
    plain = {"number": 1, "inner": {"at": "2026-01-02T00:00:00+00:00", "price": "1.10"}, "new": 1}
    assert from_bytes(Order, json.dumps(plain).encode()) == Order(1, dataclasses.replace(INNER, data=b""))


class PydanticOrder(pydantic.BaseModel):
    number: int


class MsgspecOrder(msgspec.Struct):
    number: int


@pytest.mark.parametrize("kind", [PydanticOrder, MsgspecOrder])
def test_models_of_other_packages_are_used_by_their_own_rules(kind: Any) -> None:
    assert to_bytes(kind, kind(number=5)) == b'{"number":5}'
    assert from_bytes(kind, b'{"number":6}') == kind(number=6)
    for data in (b'{"number":"x"}', b"{"):
        with pytest.raises(SerializationError, match=kind.__name__):
            from_bytes(kind, data)
    with pytest.raises(SerializationError, match=kind.__name__):
        to_bytes(kind, INNER)
    with pytest.raises(ConfigError):
        Model(int)


OLD = {"type": "record", "name": "Order", "fields": [{"name": "number", "type": "int"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "note", "type": "string", "default": "-"}],
}


def test_avro_without_a_frame_is_the_value_alone() -> None:
    avro = Avro(json.dumps(OLD))
    assert to_bytes(avro, {"number": 3}) == b"\6"
    assert from_bytes(avro, b"\6") == {"number": 3}
    assert to_bytes(Avro("string"), "a") == b"\2a"


def test_avro_in_a_frame_is_read_by_the_schema_it_was_written_with() -> None:
    written = to_bytes(Avro(OLD, schema_id=7), {"number": 3})
    assert written == b"\0\0\0\0\7\6"
    for schemas in ({7: OLD}, {7: json.dumps(OLD)}.__getitem__):
        assert from_bytes(Avro(NEW, schema_id=8, schemas=schemas), written) == {"number": 3, "note": "-"}


def test_avro_refuses_what_does_not_fit() -> None:
    with pytest.raises(SerializationError):
        to_bytes(Avro(OLD), {"number": "x"})
    for data in (b"", b"\0\0\0\0\7", b"\1\0\0\0\7\6", b"\0\0\0\0\7\6\6", b"\0\0\0\0\x09\6"):
        with pytest.raises(SerializationError, match=r"\bt\b"):
            from_bytes(Avro(OLD, schema_id=7), data)
    with pytest.raises(ConfigError):
        Avro({"type": "nothing"})
