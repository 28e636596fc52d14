"""Mutated bytes of every message and version: they decode or raise MalformedMessage, in bounded memory.

`OTTLA_FUZZ_CASES` sets the number of mutations for each version of each message, `OTTLA_FUZZ_SEED` the seed.
The memory of a decode is bounded by a multiple of its input: an element needs a byte at least, and becomes
an object of a few hundred.
"""

from __future__ import annotations

import os
import random
import tracemalloc

from tests.unit.wire.instances import CLASS_VERSIONS, Instances

from ottla.wire import codec, frame
from ottla.wire.apis import API_BY_KEY
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Message

CASES = int(os.environ.get("OTTLA_FUZZ_CASES", "200"))
SEED = os.environ.get("OTTLA_FUZZ_SEED", "1")
MEMORY_PER_BYTE = 400
MEMORY_AT_LEAST = 64 * 1024

_NASTY = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff\x07",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
)


def mutated(encoded: bytes, draw: random.Random) -> bytes:
    """The same bytes with a few of them flipped, overwritten, deleted or repeated."""
    data = bytearray(encoded)
    for _ in range(draw.choice((1, 1, 2, 4))):
        at = draw.randrange(len(data) + 1)
        action = draw.randrange(6)
        if action == 0 and at < len(data):
            data[at] ^= 1 << draw.randrange(8)
        elif action == 1:
            piece = draw.choice(_NASTY)
            data[at : at + len(piece)] = piece
        elif action == 2:
            data[at:at] = draw.choice(_NASTY)
        elif action == 3:
            del data[at : at + draw.randrange(1, 9)]
        elif action == 4:
            del data[at:]
        else:
            data[at:at] = data[at : at + draw.randrange(1, 60)]
    return bytes(data)


def test_mutated_messages_raise_nothing_but_malformed_message() -> None:
    refused = accepted = 0
    for cls, version in CLASS_VERSIONS:
        draw = random.Random(f"{SEED} {cls.NAME} {version}")
        decode = codec.decoder(cls, version)
        encoded = codec.encode(Instances((SEED, cls.NAME, version)).message(cls, version), version)
        for _ in range(CASES):
            case = mutated(encoded, draw)
            if _decodes(decode, case, f"{cls.NAME} version {version}"):
                accepted += 1
            else:
                refused += 1
    assert refused > accepted / 10
    assert refused + accepted == CASES * len(CLASS_VERSIONS)
    print(f"{refused + accepted} mutated messages: {refused} refused, {accepted} decoded, no other error")


def _decodes(decode: codec.Decoder[Message], case: bytes, what: str) -> bool:
    try:
        message, end = decode(case, 0)
    except MalformedMessage:
        return False
    except BaseException as error:
        error.add_note(f"while decoding {case.hex()} as {what}")
        raise
    assert end <= len(case)
    assert message is not None
    return True


def test_mutated_request_frames_raise_nothing_but_malformed_message() -> None:
    count = 0
    for entry in API_BY_KEY.values():
        for version in entry.versions:
            draw = random.Random(f"{SEED} {entry.name} {version}")
            request = Instances((SEED, entry.name, version)).message(entry.request_class(), version)
            written = frame.request_frame(request, version, 1, "fuzz")[4:]
            for _ in range(CASES):
                # The header contains the version to decode, so a mutation there reaches other decoders, too.
                case = mutated(written, draw)
                count += 1
                try:
                    key, case_version, *_ = frame.read_request_header(case)
                    if case_version in API_BY_KEY[key].versions:
                        frame.read_request(case)
                except MalformedMessage:
                    continue
                except BaseException as error:
                    error.add_note(f"while reading the frame {case.hex()}")
                    raise
    print(f"{count} mutated request frames, no other error than MalformedMessage")


def test_the_memory_of_a_decode_is_bounded_by_its_input() -> None:
    tracemalloc.start()
    try:
        for cls, version in CLASS_VERSIONS:
            draw = random.Random(f"{SEED} {cls.NAME} {version} memory")
            decode = codec.decoder(cls, version)
            encoded = codec.encode(Instances((SEED, cls.NAME, version)).message(cls, version), version)
            for _ in range(min(CASES, 5)):
                case = mutated(encoded, draw)
                # Other threads are traced, too, but their allocations vary between runs.
                grown = min(_memory_of(decode, case, f"{cls.NAME} version {version}") for _ in range(3))
                assert grown < MEMORY_AT_LEAST + MEMORY_PER_BYTE * len(case), (cls.NAME, version, case.hex())
    finally:
        tracemalloc.stop()


def _memory_of(decode: codec.Decoder[Message], case: bytes, what: str) -> int:
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    _decodes(decode, case, what)
    return tracemalloc.get_traced_memory()[1] - before
