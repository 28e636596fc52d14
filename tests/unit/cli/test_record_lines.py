"""JSON lines, kcat's formats, positions and values: round trips."""

from __future__ import annotations

import io
import json
import math
import signal
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.errors import Problem
from ottla.cli.records.formats import BadFormat, formatter, unescape
from ottla.cli.records.json_lines import BadLine, Outgoing, from_line, to_line
from ottla.cli.records.positions import (
    At,
    InvalidPosition,
    Position,
    parse_partitions,
    parse_place,
    parse_time,
)
from ottla.cli.records.production import Common, Lines, parse_header, record_of, records_of, split
from ottla.cli.records.stop_signals import Stop
from ottla.cli.records.terminal import line_formatter, printable, time_text
from ottla.cli.records.values import TEXT, BadValue, avro_of, kind_of
from ottla.records.consumer_record import ConsumerRecord

Record = ConsumerRecord[bytes | None, bytes | None]

contents = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
headers = st.lists(st.tuples(st.text(max_size=10), contents), max_size=4).map(tuple)


def record(
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: Any = (),
    timestamp: int = 1_700_000_000_123,
    partition: int = 2,
) -> Record:
    return ConsumerRecord("orders", partition, 7, timestamp, "CreateTime", key, value, headers, None)


@given(contents, contents, headers, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_json_line_restores_the_record(
    key: bytes | None, value: bytes | None, headers: Any, timestamp: int, partition: int
) -> None:
    line = to_line(record(key, value, headers, timestamp, partition))

    assert b"\n" not in line
    assert from_line(line) == Outgoing(value, key, headers, partition, timestamp)


@given(st.sampled_from(["hex", "base64"]), st.binary(max_size=40))
def test_bytes_survive_every_text_format(name: str, data: bytes) -> None:
    kind = kind_of(name)

    assert kind.from_json(json.loads(json.dumps(kind.to_json(data)))) == data
    assert kind.from_text(kind.shown(data)) == data


@given(
    st.sampled_from([("short", 2), ("int", 4), ("long", 8), ("float", 4), ("double", 8)]).flatmap(
        lambda one: st.tuples(st.just(one[0]), st.binary(min_size=one[1], max_size=one[1]))
    )
)
def test_java_numbers_survive_a_round_trip(case: tuple[str, bytes]) -> None:
    name, data = case
    kind = kind_of(name)
    found = kind.to_json(data)
    again = kind.from_json(json.loads(json.dumps(found, allow_nan=False)))

    assert again == data or found == "NaN"
    assert kind.from_text(kind.shown(data)) == again


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_json_values_are_embedded_in_the_line(value: Any) -> None:
    kind = kind_of("json")
    data = json.dumps(value).encode()
    line = to_line(record(value=data), value=kind)

    assert json.loads(line)["value"] == value
    if value is not None:
        assert json.loads(from_line(line, value=kind).value or b"") == value


def test_optional_and_required_fields_of_json_lines() -> None:
    assert from_line('{"value": "v"}') == Outgoing(b"v")
    assert from_line('{"key": "k", "value": null}') == Outgoing(None, b"k")
    assert from_line('{"value": {"a": 1}}') == Outgoing(b'{"a":1}')
    assert from_line('{"value": "v", "headers": {"a": "b"}}').headers == (("a", b"b"),)
    assert from_line('{"payload": "v", "ts": 5, "headers": ["a", "b", "c", null]}') == Outgoing(
        b"v", headers=(("a", b"b"), ("c", None)), timestamp=5
    )


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"key": "k"}', "tombstone"),
        ('{"value": "v", "vlaue": 1}', "unknown field 'vlaue': perhaps value was meant"),
        ('{"value": "v", "value_base64": "dg=="}', "cannot both"),
        ('{"value_base64": "?"}', "not base64"),
        ('{"value_base64": 1}', "not a string"),
        ('{"value": "v", "partition": -1}', "non-negative integer"),
        ('{"value": "v", "timestamp": true}', "non-negative integer"),
        ('{"value": "v", "headers": "a"}', "list of pairs"),
        ('{"value": "v", "headers": [["a"]]}', "not a pair"),
        ('{"value": "v", "headers": [["a", [1]]]}', "value of a header"),
        (r'{"value": "\ud800"}', "surrogate"),
    ],
)
def test_an_invalid_line_reports_the_reason(line: str, cause: str) -> None:
    with pytest.raises(BadLine, match=cause):
        from_line(line)


def test_a_format_prints_what_kcat_prints() -> None:
    show = formatter(r"%t|%p|%o|%T|%k|%K|%s|%S|%h|%%\t\x41\n")

    assert show(record(headers=(("a", b"b"), ("c", None)))) == (
        b"orders|2|7|1700000000123|k|1|v|1|a=b,c=NULL|%\tA\n"
    )
    assert formatter("%k,%K,%s,%S,%R", null=b"NULL")(record(None, b"")) == b"NULL,-1,NULL,0,\0\0\0\0"
    assert formatter("%R")(record(value=None)) == b"\xff\xff\xff\xff"


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_a_format_leaves_bytes_as_they_are(key: bytes, value: bytes) -> None:
    assert formatter("%k%s")(record(key, value)) == key + value


@given(st.text(alphabet=st.characters(exclude_characters="%\\", codec="utf-8")))
def test_literal_text_in_a_format_is_kept(text: str) -> None:
    assert formatter(text)(record()) == text.encode()
    assert unescape(text) == text.encode()


@pytest.mark.parametrize("text", ["%", "%y", "a%"])
def test_an_invalid_format_is_refused(text: str) -> None:
    with pytest.raises(BadFormat):
        formatter(text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("beginning", Position(At.BEGINNING)),
        ("earliest", Position(At.BEGINNING)),
        ("END", Position(At.END)),
        ("stored", Position(At.STORED)),
        ("123", Position(At.OFFSET, 123)),
        ("-100", Position(At.BEFORE_END, 100)),
        ("@1700000000000", Position(At.TIME, 1_700_000_000_000)),
        ("s@1700000000000", Position(At.TIME, 1_700_000_000_000)),
        ("e@1700000000000", Position(At.STOP_TIME, 1_700_000_000_000)),
        ("@2026-01-01T00:00", Position(At.TIME, 1_767_225_600_000)),
        ("@2026-01-01", Position(At.TIME, 1_767_225_600_000)),
        ("@2026-01-01T02:00+02:00", Position(At.TIME, 1_767_225_600_000)),
        ("@-15m", Position(At.TIME, 10**12 - 900_000)),
    ],
)
def test_positions_are_parsed(text: str, place: Position) -> None:
    assert parse_place(text, 10**12) == place


@pytest.mark.parametrize("text", ["", "-", "x", "1.5", "@", "@yesterday", "@-5", str(2**63)])
def test_an_invalid_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidPosition):
        parse_place(text, 0)


def test_now_is_a_valid_time() -> None:
    assert parse_time("now", 5) == 5


def test_partitions_are_numbers_lists_and_ranges() -> None:
    assert parse_partitions(["0", "2,3", "5-7", "2"]) == [0, 2, 3, 5, 6, 7]
    for text in ("a", "-1", "3-", "7-5", "1,,2"):
        with pytest.raises(InvalidPosition):
            parse_partitions([text])


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda one: b"ab" not in one), max_size=8))
def test_text_is_split_at_delimiters(pieces: list[bytes]) -> None:
    whole = [piece for piece in pieces if not piece.endswith(b"a")]
    joined = b"".join(piece + b"ab" for piece in whole)

    with Stop() as stop:
        assert list(split(io.BytesIO(joined), b"ab", stop)) == whole
        assert list(split(io.BytesIO(b"x\n\ny"), b"\n", stop)) == [b"x", b"", b"y"]


def test_an_endless_piece_is_refused() -> None:
    for delimiter in (b"\n", b";"):
        with Stop() as stop, pytest.raises(Problem, match="delimiter"):
            list(split(io.BytesIO(b"x" * 100), delimiter, stop, bytes_max=50))


@given(st.lists(st.binary(min_size=1, max_size=4), max_size=12), st.sampled_from([b"\n", b"ab", b"aab"]))
def test_pieces_do_not_depend_on_read_boundaries(chunks: list[bytes], delimiter: bytes) -> None:
    whole = b"".join(chunks)
    expected = whole.split(delimiter)
    with Stop() as stop:
        found = list(split(Chunks(chunks), delimiter, stop))
    assert found == (expected if expected[-1] else expected[:-1])


def test_a_signal_ends_reading_after_complete_lines() -> None:
    with Stop() as stop:
        lines = split(Chunks([b"a\nb\nto", b"rn\nc\n"]), b"\n", stop)
        assert next(lines) == b"a"
        signal.raise_signal(signal.SIGINT)
        assert list(lines) == [b"b"]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert stop.signal == signal.SIGINT


class Chunks(io.BytesIO):
    """A stream whose bytes arrive in these chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        super().__init__()
        self._chunks = iter(chunks)

    def read(self, size: int | None = -1, /) -> bytes:
        return next(self._chunks, b"")


def test_lines_become_keys_and_values() -> None:
    lines = Lines(key=TEXT, value=TEXT, key_delimiter=b"=", empty_is_null=True)

    assert record_of(b"a=b=c", lines) == Outgoing(b"b=c", b"a")
    assert record_of(b"a=", lines) == Outgoing(None, b"a")
    assert record_of(b"plain", lines) == Outgoing(b"plain", None)
    assert [one.value for _, one in records_of([b"x", b"", b"y"], lines, "Line")] == [b"x", b"y"]
    with pytest.raises(Problem, match="Line 2 is invalid: 'zz' is not hexadecimal"):
        list(records_of([b"00", b"zz"], Lines(key=TEXT, value=kind_of("hex")), "Line"))


def test_common_fields_add_and_override() -> None:
    made = Common(key=b"k", headers=(("a", b"b"),), partition=1, timestamp=5).apply(
        Outgoing(b"v", None, (("x", None),), 9, 9)
    )

    assert made == Outgoing(b"v", b"k", (("x", None), ("a", b"b")), 1, 5)
    assert Common(any_partition=True).apply(Outgoing(b"v", b"own", (), 9)).partition is None
    assert Common(key=b"k").apply(Outgoing(b"v", b"own")).key == b"own"
    assert (parse_header("a=b=c"), parse_header("a")) == (("a", b"b=c"), ("a", None))


@given(st.binary(max_size=40))
def test_records_cannot_control_the_terminal(data: bytes) -> None:
    assert all(letter.isprintable() or letter > "\x9f" for letter in printable(data))
    shown = line_formatter(is_coloured=False, names_topic=True)(record(data, data, (("h\x1b", data),)))

    assert b"\x1b" not in shown
    assert shown.count(b"\n") == 1


def test_a_terminal_line_has_time_position_key_value_and_headers() -> None:
    show = line_formatter(is_coloured=False, names_topic=False)

    assert show(record(headers=(("a", b"b"), ("c", None)))) == (
        b"2023-11-14 22:13:20.123Z  2:7       k  v  {a=b, c=null}\n"
    )
    assert show(record(None, None)) == b"2023-11-14 22:13:20.123Z  2:7       null\n"
    assert line_formatter(is_coloured=True, names_topic=False)(record()).count(b"\x1b[0m") == 3
    assert (time_text(-1), time_text(10**18)) == ("-", str(10**18))


def test_avro_is_decoded_with_a_schema_file(tmp_path: Any) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(
        '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, '
        '{"name": "note", "type": ["null", "string"]}]}'
    )
    kind = kind_of("avro", avro_of(str(schema), None))
    data = kind.from_text(b'{"id": 7, "note": "x"}')

    assert json.loads(kind.shown(data)) == {"id": 7, "note": "x"}
    with pytest.raises(BadValue):
        kind.to_json(b"\xff" * 20)
    with pytest.raises(BadValue, match="--registry"):
        kind_of("avro")


def test_avro_is_decoded_with_a_registry() -> None:
    asked = []

    class Registry(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            body = json.dumps({"schema": '{"type": "map", "values": "bytes"}'}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            kind = kind_of("avro", avro_of(None, f"http://127.0.0.1:{server.server_port}/"))
            framed = b"\0" + (7).to_bytes(4, "big") + b"\x02\x02a\x02\xff\x00"
            found = [kind.to_json(framed) for _ in range(2)]
        finally:
            server.shutdown()
            thread.join()

    assert found == [{"a": "/w=="}] * 2
    assert asked == ["/schemas/ids/7"]
    with pytest.raises(BadValue, match="begin with http"):
        avro_of(None, "localhost:8081")


def test_non_finite_numbers_are_strings_in_json() -> None:
    kind = kind_of("double")

    assert kind.to_json(kind.from_json("-Infinity")) == "-Infinity"
    assert math.isnan(float(kind.to_json(kind.from_text(b"NaN"))))
    with pytest.raises(BadValue):
        kind_of("int").from_json(2**31)
    with pytest.raises(BadValue, match="Use one of"):
        kind_of("xml")
