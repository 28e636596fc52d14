"""Questions about records: writing, reading and finding them."""

from __future__ import annotations

from typing import Any

import zstandard

from tests.interop.clients.same.batches import BASE_TIME_MS, Entry, batch, message_v1
from tests.interop.clients.same.registry import asks
from tests.interop.clients.same.session import Session

BY_ID = 13  # the first version of Produce and of Fetch that names topics by their ids


def topic_row(session: Session, version: int, name: str, **fields: Any) -> dict[str, Any]:
    """A topic in a request that names it or, in later versions, gives its id."""
    if version >= BY_ID:
        return {"topic_id": session.topic_id(name), **fields}
    return fields


def produce(
    session: Session,
    version: int,
    name: str,
    records: bytes,
    *,
    partition: int = 0,
    acks: int = -1,
    quietly: bool = False,
    identity: bytes | None = None,
) -> Any:
    if version >= BY_ID:
        topic: dict[str, Any] = {"topic_id": session.topic_id(name) if identity is None else identity}
    else:
        topic = {"name": name}
    topic["partition_data"] = [{"index": partition, "records": records}]
    ask = session.quietly if quietly else session.ask
    return ask("Produce", version, acks=acks, timeout_ms=20_000, topic_data=[topic])


def end_offset(session: Session, name: str, partition: int = 0) -> None:
    """Record how many records there are, so that a refused batch shows to have left nothing."""
    asked = [{"name": name, "partitions": [{"partition_index": partition, "timestamp": -1}]}]
    response = session.quietly("ListOffsets", 7, replica_id=-1, topics=asked)
    session.note("end offset", response.topics[0].partitions[0].offset)


def fill(session: Session, name: str, *batches: bytes, partition: int = 0) -> None:
    for content in batches:
        response = produce(session, 9, name, content, partition=partition, quietly=True)
        assert response.responses[0].partition_responses[0].error_code == 0, response


@asks("Produce")
def batches_that_are_right(session: Session, version: int) -> None:
    name = session.create("right", partitions=2)
    for acks in (-1, 1):
        produce(session, version, name, batch([Entry(), Entry(None, b"x"), Entry(b"t", None)]), acks=acks)
    produce(session, version, name, batch([Entry(headers=((b"h", b"1"), (b"", None)))]), partition=1)
    produce(session, version, name, batch([Entry(value=b"z" * 1000)] * 20, codec=1))
    produce(session, version, name, batch(base_offset=55, leader_epoch=3))
    end_offset(session, name)


@asks("Produce")
def a_write_without_acknowledgement(session: Session, version: int) -> None:
    name = session.create("silent")
    topic = {"topic_id": session.topic_id(name)} if version >= BY_ID else {"name": name}
    row: dict[str, Any] = {**topic, "partition_data": [{"index": 0, "records": batch()}]}
    session.tell("Produce", version, acks=0, timeout_ms=1000, topic_data=[row])
    produce(session, version, name, batch())
    row = {**topic, "partition_data": [{"index": 0, "records": batch(crc=1)}]}
    session.tell("Produce", version, acks=0, timeout_ms=1000, topic_data=[row])
    session.ask("Metadata", 9, topics=[])  # after an error without an answer the connection is closed
    end_offset(session, name)


@asks("Produce")
def batches_that_are_wrong(session: Session, version: int) -> None:
    name = session.create("wrong")
    good = batch()
    for content in (  # without null: Kafka never answers that
        b"",
        b"\0",
        b"\0" * 61,
        good[:-1],
        good[:40],
        good + b"\0\0\0",
        good + good,
        batch(crc=12345),
        batch(count=2),
        batch(count=0),
        batch(count=-1),
        batch(last_delta=1),
        batch(last_delta=-1),
        batch([Entry(), Entry()], count=1),
        batch([Entry(), Entry()], last_delta=0),
        batch([Entry(), Entry()], last_delta=5),
        batch([]),
        batch([], count=1),
        batch(magic=3),
        batch(magic=0),
        batch(payload=b"\xff" * 20),
        batch(payload=b"\x02\0"),
        batch(codec=5),
        batch(codec=7),
        batch(codec=1, payload=b"not gzip at all"),
        batch(codec=2, payload=b"not snappy at all"),
        batch(codec=3, payload=b"not lz4 at all"),
        batch(codec=4, payload=b"not zstd at all"),
        batch(attributes=0x20),
        batch(attributes=0x10),
        batch(attributes=0x08),
        batch(attributes=0x80),
        batch([Entry(attributes=1)]),
        batch([Entry(headers=((b"\xff\xfe", b"x"),))]),
        message_v1(b"k", b"v"),
        message_v1(b"k", b"v", magic=0),
        good + message_v1(b"k", b"v"),
    ):
        produce(session, version, name, content)
        end_offset(session, name)


@asks("Produce")
def producer_fields_that_are_wrong(session: Session, version: int) -> None:
    name = session.create("fields")
    for content in (
        batch(producer_id=7, producer_epoch=-1, sequence=0),
        batch(producer_id=7, producer_epoch=0, sequence=-1),
        batch(producer_id=-1, producer_epoch=0, sequence=0),
        batch(producer_id=-2, producer_epoch=0, sequence=0),
        batch(attributes=0x10, producer_id=7, producer_epoch=0, sequence=0),
    ):
        produce(session, version, name, content)
        end_offset(session, name)


@asks("Produce")
def sequences_of_an_idempotent_producer(session: Session, version: int) -> None:
    name = session.create("sequences")
    producer_id = session.quietly("InitProducerId", 4, transactional_id=None).producer_id

    def write(sequence: int, count: int = 1, epoch: int = 0, base_time_ms: int = BASE_TIME_MS) -> None:
        content = batch(
            [Entry()] * count,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=sequence,
            base_time_ms=base_time_ms,
        )
        produce(session, version, name, content)

    write(0)
    write(0)  # a duplicate
    write(1, 3)
    write(1, 3)  # a duplicate
    write(1, 2)  # overlaps
    write(2, 2)  # overlaps
    write(9)  # a gap
    for sequence in range(4, 10):
        write(sequence)
    write(0)  # older than the five that are remembered
    write(5)  # the oldest of the five
    write(9)
    write(0, epoch=2)
    write(1, epoch=2)
    write(10, epoch=1)  # an epoch that was fenced
    write(5, epoch=3)  # a new epoch must start at 0
    write(0, epoch=3)
    end_offset(session, name)
    topics = [{"name": name, "partition_indexes": [0]}]
    session.ask("DescribeProducers", 0, topics=topics)


@asks("Produce")
def an_unknown_producer_starts_late(session: Session, version: int) -> None:
    name = session.create("late")
    produce(session, version, name, batch(producer_id=123_456, producer_epoch=4, sequence=17))
    produce(session, version, name, batch(producer_id=123_457, producer_epoch=0, sequence=2**31 - 1))
    produce(session, version, name, batch([Entry()] * 2, producer_id=123_457, producer_epoch=0, sequence=0))
    end_offset(session, name)


@asks("Produce")
def places_that_do_not_exist(session: Session, version: int) -> None:
    name = session.create("place", partitions=2)
    produce(session, version, name, batch(), partition=2)
    produce(session, version, name, batch(), partition=-1)
    for acks in (-1, 1):
        if version >= BY_ID:
            produce(session, version, name, batch(), identity=b"\x03" * 16, acks=acks)
            produce(session, version, name, batch(), identity=bytes(16), acks=acks)
        else:
            for unknown in (session.name("unknown"), "", "a b", "x" * 300):
                produce(session, version, unknown, batch(), acks=acks)


@asks("Produce")
def acknowledgements_that_do_not_exist(session: Session, version: int) -> None:
    name = session.create("acks")
    for acks in (2, -2, 100):
        produce(session, version, name, batch(), acks=acks)
    end_offset(session, name)


@asks("Produce")
def several_partitions_at_once(session: Session, version: int) -> None:
    names = [session.create("several", partitions=2), session.create("more")]
    rows = []
    for name in names:
        parts = [
            {"index": 0, "records": batch()},
            {"index": 1, "records": batch([Entry()] * 2)},
            {"index": 0, "records": batch(crc=9)},
        ]
        topic = {"topic_id": session.topic_id(name)} if version >= BY_ID else {"name": name}
        rows.append({**topic, "partition_data": parts[:2]})
    session.ask("Produce", version, acks=-1, timeout_ms=20_000, topic_data=rows)
    session.ask("Produce", version, acks=-1, timeout_ms=20_000, topic_data=[])
    for name in names:
        end_offset(session, name)


@asks("Produce")
def rules_of_a_topic(session: Session, version: int) -> None:
    small = session.create("small", max_message_bytes=500)
    produce(session, version, small, batch([Entry(value=b"x" * 600)]))
    produce(session, version, small, batch([Entry(value=b"x" * 420)]))
    end_offset(session, small)
    compacted = session.create("compacted", cleanup_policy="compact")
    produce(session, version, compacted, batch([Entry(), Entry(None, b"v")]))
    produce(session, version, compacted, batch([Entry(), Entry(b"", None)]))
    end_offset(session, compacted)
    strict = session.create(
        "strict", message_timestamp_before_max_ms=7_200_000, message_timestamp_after_max_ms=3_600_000
    )
    hour_ms = 3_600_000
    for delta_ms in (0, -3 * hour_ms, 4 * hour_ms):
        produce(
            session,
            version,
            strict,
            batch([Entry(), Entry(delta_ms=5)], base_time_ms=BASE_TIME_MS + delta_ms),
        )
    end_offset(session, strict)
    stamped = session.create("stamped", message_timestamp_type="LogAppendTime")
    produce(session, version, stamped, batch([Entry(), Entry()]))
    produce(session, version, stamped, batch(base_time_ms=-1, max_time_ms=-1))
    produce(session, version, stamped, batch([Entry()], codec=1))
    end_offset(session, stamped)


@asks("Produce")
def a_codec_that_the_version_does_not_know(session: Session, version: int) -> None:
    name = session.create("zstd")
    payload = zstandard.compress(batch([Entry()] * 3)[61:])
    produce(session, version, name, batch([Entry()] * 3, codec=4, payload=payload))
    end_offset(session, name)


# --- Fetch ------------------------------------------------------------------------------------------------


def fetch(
    session: Session,
    version: int,
    name: str,
    offset: int = 0,
    *,
    partition: int = 0,
    identity: bytes | None = None,
    quietly: bool = False,
    partition_fields: dict[str, Any] | None = None,
    **fields: Any,
) -> Any:
    if version >= BY_ID:
        topic: dict[str, Any] = {"topic_id": session.topic_id(name) if identity is None else identity}
    else:
        topic = {"topic": name}
    topic["partitions"] = [
        {
            "partition": partition,
            "fetch_offset": offset,
            "partition_max_bytes": 1_048_576,
            **(partition_fields or {}),
        }
    ]
    request = {"max_wait_ms": 50, "min_bytes": 1, "replica_id": -1, "topics": [topic], **fields}
    ask = session.quietly if quietly else session.ask
    return ask("Fetch", version, **request)


def three_batches() -> list[bytes]:
    return [
        batch([Entry(value=b"%d" % index) for index in range(3)]),
        batch([Entry(value=b"c" * 100, delta_ms=7)] * 4, codec=1),
        batch([Entry(b"last", None)], base_time_ms=BASE_TIME_MS + 50),
    ]


@asks("Fetch")
def records_from_any_offset(session: Session, version: int) -> None:
    name = session.create("read")
    fill(session, name, *three_batches())
    for offset in (0, 1, 3, 6, 7, 8):
        fetch(session, version, name, offset)
    for offset in (9, 100, -1, -2):
        fetch(session, version, name, offset)


@asks("Fetch")
def an_empty_partition(session: Session, version: int) -> None:
    name = session.create("empty")
    fetch(session, version, name)
    fetch(session, version, name, min_bytes=0)
    fetch(session, version, name, max_wait_ms=0)
    fetch(session, version, name, isolation_level=1)


@asks("Fetch")
def limits_of_a_fetch(session: Session, version: int) -> None:
    name = session.create("limits")
    fill(session, name, *three_batches())
    for limit in (0, 1, 70, 100, 200, 10_000):
        fetch(session, version, name, partition_fields={"partition_max_bytes": limit})
    for limit in (0, 1, 100, 200):
        fetch(session, version, name, max_bytes=limit)
    fetch(session, version, name, 8, min_bytes=1_000_000)


@asks("Fetch")
def limits_over_several_partitions(session: Session, version: int) -> None:
    name = session.create("shared", partitions=3)
    for partition in range(3):
        fill(session, name, *three_batches(), partition=partition)
    topic = {"topic_id": session.topic_id(name)} if version >= BY_ID else {"topic": name}
    for limit in (1, 150, 320, 1000):
        parts = [
            {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 200} for partition in (2, 0, 1)
        ]
        session.ask(
            "Fetch",
            version,
            replica_id=-1,
            max_wait_ms=50,
            min_bytes=1,
            max_bytes=limit,
            topics=[{**topic, "partitions": parts}],
        )


@asks("Fetch")
def the_order_of_partitions(session: Session, version: int) -> None:
    names = [session.create(name, partitions=2) for name in ("first", "second")]
    for name in names:
        fill(session, name, *three_batches())

    def topic(name: str, partition: int) -> dict[str, Any]:
        rows = [{"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1000}]
        named = {"topic_id": session.topic_id(name)} if version >= BY_ID else {"topic": name}
        return {**named, "partitions": rows}

    first, second = names
    for asked in (
        [topic(second, 0), topic(first, 0), topic(second, 1)],
        [topic(first, 1), topic(first, 0), topic(second, 0), topic(first, 1)],
        [topic(first, 7), topic(second, 0), topic(first, 0)],
    ):
        session.ask("Fetch", version, replica_id=-1, max_wait_ms=50, min_bytes=1, topics=asked)


@asks("Fetch")
def fetches_of_what_is_not_there(session: Session, version: int) -> None:
    name = session.create("there")
    fetch(session, version, name, partition=1)
    fetch(session, version, name, partition=-1)
    if version >= BY_ID:
        fetch(session, version, name, identity=b"\x04" * 16)
        fetch(session, version, name, identity=bytes(16))
    else:
        for unknown in (session.name("unknown"), "", "a b"):
            fetch(session, version, unknown)


@asks("Fetch")
def after_records_were_deleted(session: Session, version: int) -> None:
    name = session.create("deleted")
    fill(session, name, *three_batches())
    parts = [{"partition_index": 0, "offset": 5}]
    session.quietly("DeleteRecords", 2, topics=[{"name": name, "partitions": parts}], timeout_ms=20_000)
    for offset in (0, 4, 5, 8):
        fetch(session, version, name, offset)


@asks("Fetch", first=9)
def leader_epochs_of_a_fetch(session: Session, version: int) -> None:
    name = session.create("epochs")
    fill(session, name, *three_batches())
    for epoch in (-1, 0, 1, 5):
        fetch(session, version, name, partition_fields={"current_leader_epoch": epoch})


@asks("Fetch", first=12)
def the_epoch_that_was_fetched_last(session: Session, version: int) -> None:
    name = session.create("diverged")
    fill(session, name, *three_batches())
    for epoch, offset in ((0, 0), (0, 8), (1, 3), (5, 8), (0, 20)):
        fetch(session, version, name, offset, partition_fields={"last_fetched_epoch": epoch})


@asks("Fetch")
def isolation_of_a_fetch(session: Session, version: int) -> None:
    name = session.create("isolated")
    fill(session, name, *three_batches())
    for isolation in (0, 1):
        fetch(session, version, name, isolation_level=isolation)


@asks("Fetch", first=7)
def a_fetch_session(session: Session, version: int) -> None:
    name = session.create("session", partitions=2)
    topic = {"topic_id": session.topic_id(name)} if version >= BY_ID else {"topic": name}

    def ask(session_id: int, epoch: int, *parts: tuple[int, int], forget: list[int] | None = None) -> Any:
        rows = [
            {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1_048_576}
            for partition, offset in parts
        ]
        forgotten = [{**topic, "partitions": forget}] if forget else []
        return session.ask(
            "Fetch",
            version,
            replica_id=-1,
            max_wait_ms=50,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=[{**topic, "partitions": rows}] if rows else [],
            forgotten_topics_data=forgotten,
        )

    fill(session, name, batch())
    session_id = ask(0, 0, (0, 0), (1, 0)).session_id
    ask(session_id, 1)
    ask(session_id, 2, (0, 1))
    ask(session_id, 3)
    fill(session, name, batch([Entry(value=b"new")]), partition=1)
    ask(session_id, 4)
    ask(session_id, 5, (1, 1), forget=[0])
    fill(session, name, batch([Entry(value=b"unseen")]))
    ask(session_id, 6)
    ask(session_id, 9)  # not the next epoch
    ask(session_id, 7, (1, 99))  # out of range within a session
    ask(session_id, -1, (0, 0))  # closes the session
    ask(session_id, 1)
    ask(987_654, 1)
    ask(987_654, 0, (0, 0))
    ask(0, -1, (0, 0))
    ask(0, 5, (0, 0))


# --- finding offsets --------------------------------------------------------------------------------------


@asks("ListOffsets")
def offsets_at_the_ends_and_by_time(session: Session, version: int) -> None:
    name = session.create("offsets", partitions=2)
    fill(session, name, *three_batches())
    for partition in (0, 1):
        for timestamp in (-1, -2, 0, BASE_TIME_MS, BASE_TIME_MS + 7, BASE_TIME_MS + 8, BASE_TIME_MS + 51):
            row = {"partition_index": partition, "timestamp": timestamp}
            session.ask("ListOffsets", version, replica_id=-1, topics=[{"name": name, "partitions": [row]}])


@asks("ListOffsets")
def special_timestamps(session: Session, version: int) -> None:
    name = session.create("special", partitions=2)
    fill(session, name, *three_batches())
    for partition in (0, 1):
        for timestamp in (-3, -4, -5, -6, -7, -100):
            row = {"partition_index": partition, "timestamp": timestamp}
            session.ask("ListOffsets", version, replica_id=-1, topics=[{"name": name, "partitions": [row]}])


@asks("ListOffsets")
def offsets_of_what_is_not_there(session: Session, version: int) -> None:
    name = session.create("listed")
    row = {"partition_index": 0, "timestamp": -1}
    for topic, partition in ((name, 1), (name, -1), (session.name("unknown"), 0), ("", 0), ("a b", 0)):
        asked = [{"name": topic, "partitions": [{**row, "partition_index": partition}]}]
        session.ask("ListOffsets", version, replica_id=-1, topics=asked)
    session.ask("ListOffsets", version, replica_id=-1, topics=[{"name": name, "partitions": [row, row]}])
    session.ask("ListOffsets", version, replica_id=-1, topics=[])
    session.ask("ListOffsets", version, replica_id=-1, topics=[{"name": name, "partitions": []}])


@asks("ListOffsets", first=2)
def offsets_for_other_readers(session: Session, version: int) -> None:
    name = session.create("readers")
    fill(session, name, *three_batches())
    row = {"partition_index": 0, "timestamp": -1}
    for replica_id in (-1, -2, 1, 5):
        for isolation in (0, 1):
            session.ask(
                "ListOffsets",
                version,
                replica_id=replica_id,
                isolation_level=isolation,
                topics=[{"name": name, "partitions": [row]}],
            )
    for epoch in (-1, 0, 1):
        asked = [{"name": name, "partitions": [{**row, "current_leader_epoch": epoch}]}]
        session.ask("ListOffsets", version, replica_id=-1, topics=asked)


@asks("OffsetForLeaderEpoch")
def the_end_of_an_epoch(session: Session, version: int) -> None:
    name = session.create("epoch-ends", partitions=2)
    fill(session, name, *three_batches())

    def ask(topic: str, partition: int, epoch: int, current: int = -1) -> None:
        row = {"partition": partition, "leader_epoch": epoch, "current_leader_epoch": current}
        session.ask(
            "OffsetForLeaderEpoch", version, replica_id=-1, topics=[{"topic": topic, "partitions": [row]}]
        )

    for epoch in (0, 1, 7, -1):
        ask(name, 0, epoch)
        ask(name, 1, epoch)
    for current in (0, 1):
        ask(name, 0, 0, current)
    ask(name, 9, 0)
    ask(session.name("unknown"), 0, 0)


@asks("DeleteRecords")
def records_from_the_front(session: Session, version: int) -> None:
    name = session.create("front", partitions=2)
    fill(session, name, *three_batches())

    def ask(topic: str, partition: int, offset: int) -> None:
        asked = [{"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}]
        session.ask("DeleteRecords", version, topics=asked, timeout_ms=20_000)

    for offset in (0, 4, 2, 9, -2, 8, -1):
        ask(name, 0, offset)
    ask(name, 1, -1)
    ask(name, 7, 0)
    ask(session.name("unknown"), 0, 0)
    ask("a b", 0, 0)
    session.ask("DeleteRecords", version, topics=[], timeout_ms=20_000)
    compacted = session.create("compact-only", cleanup_policy="compact")
    fill(session, compacted, batch())
    ask(compacted, 0, 1)
    both = session.create("compact-delete", cleanup_policy="compact,delete")
    fill(session, both, batch())
    ask(both, 0, 1)
    row = {"partition_index": 0, "timestamp": -2}
    session.ask("ListOffsets", 7, replica_id=-1, topics=[{"name": name, "partitions": [row]}])
