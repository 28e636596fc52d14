"""The hash of the topics that a group is subscribed to, by which a coordinator notices their changes.

It is in the group's record, and a Kafka broker that loads the group compares it with its own, so the hashed
bytes and the hash function (XXH3, 64 bits, no seed) are Kafka's.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from operator import mul
from typing import Final

from ottla.controller.image import ClusterImage
from ottla.controller.registrations import Topic

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_MASK: Final = (1 << 64) - 1
_PRIME32_1, _PRIME32_2, _PRIME32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_PRIME64_1, _PRIME64_2, _PRIME64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_PRIME64_4, _PRIME64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_AVALANCHE, _SHORT = 0x165667919E3779F9, 0x9FB21C651E98DF25

_STRIPE_BYTES = 64
_BLOCK_BYTES = 1024  # 16 stripes: then the secret is used up, and the lanes are scrambled
_LANES = range(8)


_SECRETS: Final = [int.from_bytes(_SECRET[position : position + 8], "little") for position in range(185)]
_BLOCK_KEYS = int.from_bytes(b"".join(_SECRET[8 * i : 8 * i + 64] for i in range(16)), "little")
_SCRAMBLE_KEYS = [_SECRETS[128 + 8 * lane] for lane in _LANES]
_LAST_KEYS = int.from_bytes(_SECRET[121:185], "little")


def xxh3(data: bytes) -> int:
    """XXH3 with 64 bits and without a seed, as an unsigned number."""
    size = len(data)
    if size > 240:
        return _hash_long(data)
    if size > 128:
        return _hash_up_to_240(data)
    if size > 16:
        return _hash_up_to_128(data)
    if size > 8:
        low = _word(data, 0) ^ _SECRETS[24] ^ _SECRETS[32]
        high = _word(data, size - 8) ^ _SECRETS[40] ^ _SECRETS[48]
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche(size + swapped + high + _fold(low, high))
    if size > 3:
        first, last = int.from_bytes(data[:4], "little"), int.from_bytes(data[-4:], "little")
        hashed = (last + (first << 32)) ^ _SECRETS[8] ^ _SECRETS[16]
        hashed ^= _rotate(hashed, 49) ^ _rotate(hashed, 24)
        hashed = hashed * _SHORT & _MASK
        hashed ^= (hashed >> 35) + size
        hashed = hashed * _SHORT & _MASK
        return hashed ^ hashed >> 28
    if size > 0:
        flip = int.from_bytes(_SECRET[:4], "little") ^ int.from_bytes(_SECRET[4:8], "little")
        return _avalanche_64((data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8) ^ flip)
    return _avalanche_64(_SECRETS[56] ^ _SECRETS[64])


def _word(data: bytes, position: int) -> int:
    return int.from_bytes(data[position : position + 8], "little")


def _rotate(number: int, count: int) -> int:
    return (number << count | number >> 64 - count) & _MASK


def _fold(left: int, right: int) -> int:
    product = left * right
    return product & _MASK ^ product >> 64


def _avalanche(hashed: int) -> int:
    hashed &= _MASK
    hashed ^= hashed >> 37
    hashed = hashed * _AVALANCHE & _MASK
    return hashed ^ hashed >> 32


def _avalanche_64(hashed: int) -> int:
    hashed ^= hashed >> 33
    hashed = hashed * _PRIME64_2 & _MASK
    hashed ^= hashed >> 29
    hashed = hashed * _PRIME64_3 & _MASK
    return hashed ^ hashed >> 32


def _mix(data: bytes, position: int, key: int) -> int:
    return _fold(_word(data, position) ^ _SECRETS[key], _word(data, position + 8) ^ _SECRETS[key + 8])


def _hash_up_to_128(data: bytes) -> int:
    size = len(data)
    hashed = size * _PRIME64_1
    for i in reversed(range((size - 1) // 32 + 1)):
        hashed += _mix(data, 16 * i, 32 * i) + _mix(data, size - 16 * (i + 1), 32 * i + 16)
    return _avalanche(hashed)


def _hash_up_to_240(data: bytes) -> int:
    size = len(data)
    hashed = _avalanche(size * _PRIME64_1 + sum(_mix(data, 16 * i, 16 * i) for i in range(8)))
    hashed += sum(_mix(data, 16 * i, 16 * (i - 8) + 3) for i in range(8, size // 16))
    return _avalanche(hashed + _mix(data, size - 16, 136 - 17))


def _hash_long(data: bytes) -> int:
    size = len(data)
    lanes = [
        *(_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3),
        *(_PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1),
    ]
    whole = (size - 1) // _BLOCK_BYTES * _BLOCK_BYTES
    for position in range(0, whole, _BLOCK_BYTES):
        _accumulate(lanes, data[position : position + _BLOCK_BYTES], _BLOCK_KEYS)
        for lane in _LANES:
            value = lanes[lane] & _MASK
            lanes[lane] = (value ^ value >> 47 ^ _SCRAMBLE_KEYS[lane]) * _PRIME32_1 & _MASK
    rest = (size - 1 - whole) // _STRIPE_BYTES * _STRIPE_BYTES
    if rest:
        _accumulate(lanes, data[whole : whole + rest], _BLOCK_KEYS & (1 << 8 * rest) - 1)
    _accumulate(lanes, data[-_STRIPE_BYTES:], _LAST_KEYS)
    hashed = size * _PRIME64_1
    for i in range(4):
        low, high = lanes[2 * i] & _MASK, lanes[2 * i + 1] & _MASK
        hashed += _fold(low ^ _SECRETS[11 + 16 * i], high ^ _SECRETS[19 + 16 * i])
    return _avalanche(hashed)


def _accumulate(lanes: list[int], stripes: bytes, keys: int) -> None:
    """Add stripes to the lanes. Sums are cut to 64 bits by the caller: the words of a block go in at once."""
    count = len(stripes) // 4
    keyed = (int.from_bytes(stripes, "little") ^ keys).to_bytes(len(stripes), "little")
    halves = struct.unpack(f"<{count}I", keyed)
    products = list(map(mul, halves[0::2], halves[1::2]))
    words = struct.unpack(f"<{count // 2}Q", stripes)
    for lane in _LANES:
        lanes[lane] += sum(products[lane::8]) + sum(words[lane ^ 1 :: 8])


def _signed(hashed: int) -> int:
    return hashed - (1 << 64) if hashed >> 63 else hashed


def _text(text: str) -> bytes:
    """As the hash takes a string: its UTF-16 characters, then how many they are."""
    characters = text.encode("utf-16-le", "surrogatepass")
    return characters + (len(characters) // 2).to_bytes(4, "little")


def topic_hash(topic: Topic, image: ClusterImage) -> int:
    """Changes with the topic's id, name, number of partitions and the racks of their replicas."""
    count = len(topic.partitions)
    head = b"\0" + topic.id[7::-1] + topic.id[:7:-1] + _text(topic.name) + count.to_bytes(4, "little")
    racks = {node: broker.rack for node, broker in image.brokers.items() if broker.rack is not None}
    if not racks:
        return _signed(xxh3(head + struct.pack(f"<{count}i", *range(count))))
    parts = [head]
    known: dict[tuple[int, ...], bytes] = {(): b""}  # many partitions have the same replicas
    for index in range(count):
        partition = topic.partitions.get(index)
        replicas = partition.replicas if partition is not None else ()
        listed = known.get(replicas)
        if listed is None:
            listed = known[replicas] = _listed(racks[node] for node in replicas if node in racks)
        parts.append(index.to_bytes(4, "little"))
        parts.append(listed)
    return _signed(xxh3(b"".join(parts)))


def _listed(racks: Iterable[str]) -> bytes:
    # Java sorts strings by their UTF-16 units. The length stands before and after each.
    ordered = sorted(racks, key=lambda rack: rack.encode("utf-16-be", "surrogatepass"))
    return b"".join(text[-4:] + text for text in map(_text, ordered))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash over those of all subscribed topics that exist: topic name -> `topic_hash`."""
    if not hashes:
        return 0
    names = sorted(hashes)  # names of topics are ASCII: any order of characters is Java's
    return _signed(xxh3(struct.pack(f"<{len(names)}q", *(hashes[name] for name in names))))
