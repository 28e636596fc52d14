"""meta.properties, the clean-shutdown marker and partition.metadata."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.host import HostDisk, HostRandom
from ottla.log.directories.properties import (
    META_PROPERTIES,
    DirectoryError,
    MetaProperties,
    format_clean_shutdown,
    format_meta,
    format_partition_metadata,
    new_directory_id,
    parse_clean_shutdown,
    parse_meta,
    parse_partition_metadata,
    read_meta,
    verify_meta,
    write_meta,
)
from ottla.wire import uuid

ONE = bytes(range(16))
OTHER = bytes(range(1, 17))
KAFKAS = """#
#Sat Nov 15 11:48:00 UTC 2025
cluster.id=5L6g3nShT-eMCtK--X86sw
version=1
directory.id=Wd3TgQ8RSpO1Y0oDcwPPGA
node.id=1
"""


def meta(
    cluster_id: str | None = "c", node_id: int | None = 1, directory_id: bytes | None = None
) -> MetaProperties:
    return MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)


def test_a_file_of_kafka_is_understood_and_written_alike() -> None:
    read = parse_meta(KAFKAS, "x")
    assert read == MetaProperties(
        cluster_id="5L6g3nShT-eMCtK--X86sw", node_id=1, directory_id=uuid.from_text("Wd3TgQ8RSpO1Y0oDcwPPGA")
    )
    assert format_meta(read, 1763207280_000) == KAFKAS


def test_version_0_names_the_node_broker_id_and_may_lack_ids() -> None:
    assert parse_meta("broker.id=7\n", "x") == MetaProperties(cluster_id=None, node_id=7, version=0)
    assert parse_meta("version=0\n", "x") == MetaProperties(cluster_id=None, node_id=None, version=0)
    assert "broker.id=7" in format_meta(MetaProperties(cluster_id="c", node_id=7, version=0), 0)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("version=2\ncluster.id=c\nnode.id=1\n", "version 2"),
        ("version=1\nnode.id=1\n", "cluster.id"),
        ("version=1\ncluster.id=c\n", "node.id"),
        ("version=1\ncluster.id=c\nnode.id=one\n", "node.id=one"),
        ("version=1\ncluster.id=c\nnode.id=-1\n", "node.id=-1"),
        ("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=short\n", "directory.id"),
        ("version=1\ncluster.id=\\u12\nnode.id=1\n", "line 2"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(text: str, cause: str) -> None:
    with pytest.raises(DirectoryError, match=r"/data/meta\.properties") as caught:
        parse_meta(text, "/data/meta.properties")
    assert cause in str(caught.value)


def test_a_missing_file_means_not_formatted(tmp_path: Path) -> None:
    disk = HostDisk()
    assert read_meta(disk, str(tmp_path)) is None
    write_meta(disk, str(tmp_path), meta(directory_id=ONE), 0)
    assert read_meta(disk, str(tmp_path)) == meta(directory_id=ONE)
    (tmp_path / META_PROPERTIES).write_bytes(b"")
    with pytest.raises(DirectoryError, match="contains no version: restore the file"):
        read_meta(disk, str(tmp_path))


def test_a_file_truncated_at_any_byte_is_refused() -> None:
    text = format_meta(meta(directory_id=ONE), 0)
    for end in range(len(text) - 1):
        with pytest.raises(DirectoryError, match=r"/data/meta\.properties"):
            parse_meta(text[:end], "/data/meta.properties")


def test_directories_of_one_node_with_ids_of_their_own_pass() -> None:
    metas = {"/a": meta(directory_id=ONE), "/b": meta(directory_id=OTHER), "/c": meta(None, None)}
    verify_meta(metas)
    verify_meta(metas, cluster_id="c", node_id=1)


@pytest.mark.parametrize(
    ("metas", "cause"),
    [
        ({"/a": meta("d")}, "Expected c, but read d"),
        ({"/a": meta(), "/b": meta("d")}, "/b/meta.properties"),
        ({"/a": meta(node_id=2)}, "Stored node id 2"),
        ({"/a": meta(directory_id=ONE), "/b": meta(directory_id=ONE)}, "It was the ID of /a, but also of /b"),
        ({"/a": meta(directory_id=uuid.DIRECTORY_LOST)}, "reserved"),
    ],
)
def test_a_directory_of_another_cluster_or_node_or_a_copy_is_refused(
    metas: dict[str, MetaProperties], cause: str
) -> None:
    with pytest.raises(DirectoryError) as caught:
        verify_meta(metas, cluster_id="c", node_id=1)
    assert cause in str(caught.value)


def test_a_fresh_directory_id_is_not_taken() -> None:
    taken = [new_directory_id(HostRandom()) for _ in range(20)]
    fresh = new_directory_id(HostRandom(), taken)
    assert fresh not in taken
    assert not uuid.is_reserved(fresh)


def test_the_clean_shutdown_marker_carries_the_broker_epoch() -> None:
    assert format_clean_shutdown(12) == b'{"version":0,"brokerEpoch":12}'
    assert parse_clean_shutdown(format_clean_shutdown(12)) == 12


@given(
    st.binary() | st.sampled_from([b"", b"[]", b'{"brokerEpoch":null}', b'{"brokerEpoch":true}', b"[" * 9999])
)
def test_a_marker_without_an_epoch_gives_none(data: bytes) -> None:
    assert parse_clean_shutdown(data) == -1


def test_partition_metadata_carries_the_topic_id() -> None:
    assert format_partition_metadata(ONE) == f"version: 0\ntopic_id: {uuid.to_text(ONE)}"
    assert parse_partition_metadata(format_partition_metadata(ONE), "x") == ONE


@pytest.mark.parametrize(
    "text",
    [
        "",
        "version: 0\n",
        "version: x\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n",
        "topic_id: AAECAwQFBgcICQoLDA0ODw\n",
        "version: 0\ntopic_id: AAECAwQ\n",
        "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
    ],
)
def test_damaged_partition_metadata_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(DirectoryError, match=r"/data/a-0/partition\.metadata is damaged"):
        parse_partition_metadata(text, "/data/a-0/partition.metadata")
