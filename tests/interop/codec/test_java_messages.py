"""Our codecs against Kafka's generated Java classes: every message, every version, both directions.

Equal means equal bytes and equal values: both sides print all fields of what they read. `OTTLA_CODEC_CASES`
sets the number of random instances for each version of each message and each direction.
"""

from __future__ import annotations

import json
import os
import zlib

import pytest

from ottla.wire import codec
from ottla.wire.errors import UnencodableMessage, UnsupportedVersion
from ottla.wire.json_form import to_json
from ottla.wire.message import Message
from tests.interop.codec.java_messages import Answer, Commands, JavaClass, dump, java_classes
from tests.unit.wire.instances import CLASS_VERSIONS, CLASSES, Instances

CASES = int(os.environ.get("OTTLA_CODEC_CASES", "20"))


@pytest.fixture(scope="module")
def java() -> dict[str, JavaClass]:
    return java_classes()


def test_both_sides_have_the_same_messages_and_versions(java: dict[str, JavaClass]) -> None:
    ours = {name: cls.VERSIONS for name, cls in CLASSES.items()}
    theirs = {name: cls.versions for name, cls in java.items()}
    assert ours == theirs
    print(f"{len(ours)} messages, {len(CLASS_VERSIONS)} versions of them")


def test_a_new_instance_has_the_same_values_on_both_sides(java: dict[str, JavaClass]) -> None:
    commands = Commands()
    for name in CLASSES:
        commands.default(java[name])
    for cls, answer in zip(CLASSES.values(), commands.run(), strict=True):
        assert answer.dump == dump(cls()), cls.NAME


def test_java_reads_our_bytes_as_our_values_and_writes_the_same_bytes(java: dict[str, JavaClass]) -> None:
    commands, sent = Commands(), []
    for cls, version in CLASS_VERSIONS:
        instances = Instances(("java", cls.NAME, version))
        for _ in range(CASES):
            message = instances.message(cls, version)
            encoded = codec.encode(message, version)
            commands.read(java[cls.NAME], version, encoded)
            sent.append((cls.NAME, version, message, encoded))
    for (name, version, message, encoded), answer in zip(sent, commands.run(), strict=True):
        assert answer.refusal is None, (name, version, answer.refusal, message)
        assert answer.written == encoded, (name, version, message)
        assert answer.dump == dump(message), (name, version)
    print(f"{len(sent)} instances of ours read and written by Java: bytes and values are equal")


def test_we_read_javas_bytes_as_javas_values_and_write_the_same_bytes(java: dict[str, JavaClass]) -> None:
    commands = Commands()
    for cls, version in CLASS_VERSIONS:
        seed = zlib.crc32(f"{cls.NAME} {version}".encode())
        commands.generate(java[cls.NAME], version, seed, CASES)
    answers = commands.run()
    for cls, version in CLASS_VERSIONS:
        for _ in range(CASES):
            answer = next(answers)
            message = codec.decode(cls, answer.written, version)
            assert dump(message) == answer.dump, (cls.NAME, version)
            assert codec.encode(message, version) == answer.written, (cls.NAME, version, message)
    assert next(answers, None) is None
    print(f"{commands.count} instances of Java's read and written by us: bytes and values are equal")


def test_both_sides_show_the_same_json(java: dict[str, JavaClass]) -> None:
    commands, sent = Commands(), []
    for cls, version in CLASS_VERSIONS:
        instances = Instances(("json", cls.NAME, version))
        for message in (cls(), *(instances.message(cls, version) for _ in range(max(1, CASES // 4)))):
            try:
                commands.json(java[cls.NAME], version, codec.encode(message, version))
            except (UnsupportedVersion, UnencodableMessage):
                continue  # a message as it is made need not be a legal one
            sent.append((cls.NAME, version, message))
    for (name, version, message), answer in zip(sent, commands.run(), strict=True):
        shown = json.loads(json.dumps(to_json(message, version)))
        assert shown == json.loads(answer.dump), (name, version)
        assert list(shown) == list(json.loads(answer.dump)), (name, version)
    print(f"{len(sent)} instances: the same JSON")


def test_both_sides_refuse_the_same_values_in_other_versions(java: dict[str, JavaClass]) -> None:
    commands, converted = Commands(), []
    for cls, version in CLASS_VERSIONS:
        for source in {cls.VERSIONS[0], cls.VERSIONS[-1]} - {version}:
            instances = Instances(("convert", cls.NAME, source, version))
            for _ in range(max(1, CASES // 4)):
                message = instances.message(cls, source)
                commands.convert(java[cls.NAME], source, codec.encode(message, source), version)
                converted.append((cls, source, version, message))
    refused = 0
    for (cls, source, version, message), answer in zip(converted, commands.run(), strict=True):
        refused += answer.refusal is not None
        assert _outcome(message, version) == _expected(answer), (
            cls.NAME,
            source,
            version,
            answer.refusal,
            message,
        )
    assert 0 < refused < len(converted)
    print(f"{len(converted)} instances written in another version: {refused} refused by both, the rest equal")


def _outcome(message: Message, version: int) -> bytes | None:
    try:
        return codec.encode(message, version)
    except (UnsupportedVersion, UnencodableMessage):
        return None


def _expected(answer: Answer) -> bytes | None:
    return None if answer.refusal is not None else answer.written
