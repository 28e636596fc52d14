"""Questions below the level of messages: frames, headers, versions that do not exist, garbage."""

from __future__ import annotations

import struct

from ottla.wire import apis
from tests.interop.clients.same.registry import asks
from tests.interop.clients.same.session import Session

# What this question is about is any request; it hangs on ApiVersions, which every broker has.
ANY = "ApiVersions"
SERVED = (
    *("Produce", "Fetch", "ListOffsets", "Metadata", "CreateTopics", "DeleteTopics", "DeleteRecords"),
    *("InitProducerId", "OffsetForLeaderEpoch", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs"),
    *("AlterReplicaLogDirs", "DescribeLogDirs", "CreatePartitions", "DescribeCluster", "DescribeProducers"),
    *("DescribeTopicPartitions", "ListConfigResources", "UpdateFeatures", "DescribeQuorum"),
    *("UnregisterBroker", "SaslHandshake", "SaslAuthenticate", "ApiVersions"),
)


def sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def header(key: int, version: int, client_id: bytes | None = b"same") -> bytes:
    start = struct.pack(">hhi", key, version, 7)
    if client_id is None:
        return start + struct.pack(">h", -1)
    return start + struct.pack(">h", len(client_id)) + client_id


@asks(ANY, only_latest=True)
def bytes_that_are_no_request(session: Session, _: int) -> None:
    for what, sent in (
        ("an empty frame", sized(b"")),
        ("a frame of one byte", sized(b"\0")),
        ("half a header", sized(b"\0\x12\0")),
        ("a header without client id", sized(struct.pack(">hhi", 18, 0, 7))),
        ("a client id that is too long", sized(struct.pack(">hhih", 18, 0, 7, 100) + b"abc")),
        ("a negative size", struct.pack(">i", -1) + b"x" * 10),
        ("the smallest size", struct.pack(">i", -(2**31))),
        ("a size above the limit", struct.pack(">i", 104_857_601) + b"x" * 100),
        ("the largest size", struct.pack(">i", 2**31 - 1)),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        ("a TLS hello", bytes.fromhex("16030100c8010000c40303") + b"\x5a" * 200),
        ("zeros", b"\0" * 64),
    ):
        session.ask_bytes(what, sent)


@asks(ANY, only_latest=True)
def apis_that_do_not_exist(session: Session, _: int) -> None:
    for key in (-1, 4, 5, 6, 7, 999, 32767):
        session.ask_bytes(f"api key {key}", sized(header(key, 0)))
        session.ask_bytes(f"api key {key}, flexible", sized(header(key, 0) + b"\0"))


@asks(ANY, only_latest=True)
def versions_that_do_not_exist(session: Session, _: int) -> None:
    for name in SERVED:
        entry = apis.API_BY_NAME[name]
        for version in (-1, entry.versions.start - 1, entry.versions.stop, 999):
            if version not in entry.versions:
                session.ask_bytes(f"{name} v{version}", sized(header(entry.key, version) + b"\0" * 32))


@asks(ANY, only_latest=True)
def requests_without_a_body(session: Session, _: int) -> None:
    for name in SERVED:
        if name == "ApiVersions":
            continue
        entry = apis.API_BY_NAME[name]
        for version in entry.stable_versions:
            flexible = apis.request_header_version(entry.key, version) >= 2
            content = header(entry.key, version) + (b"\0" if flexible else b"")
            if name in ("DescribeCluster", "ListConfigResources", "Metadata", "DescribeLogDirs"):
                content += b"\xff" * 3  # an empty body may mean something there
            session.ask_bytes(f"{name} v{version} without its body", sized(content))


@asks(ANY, only_latest=True)
def headers_that_are_unusual(session: Session, _: int) -> None:
    metadata = apis.API_BY_NAME["UnregisterBroker"].key
    body = struct.pack(">i", 99) + b"\0"
    for what, content in (
        ("no client id", header(metadata, 0, None) + b"\0" + body),
        ("an empty client id", header(metadata, 0, b"") + b"\0" + body),
        ("a client id that is not UTF-8", header(metadata, 0, b"\xff\xfe") + b"\0" + body),
        ("a long client id", header(metadata, 0, b"x" * 30_000) + b"\0" + body),
        ("an unknown tag in the header", header(metadata, 0) + b"\x01\x63\x02ab" + body),
        ("an unknown tag in the body", header(metadata, 0) + b"\0" + body[:-1] + b"\x01\x63\x02ab"),
        ("a tag that runs over the end", header(metadata, 0) + b"\0" + body[:-1] + b"\x01\x63\x7fab"),
        ("bytes behind the body", header(metadata, 0) + b"\0" + body + b"\0\0\0"),
    ):
        session.ask_bytes(what, sized(content))
