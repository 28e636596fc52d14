"""`kafka-replica-verification.sh`: reads the same partitions from all their replicas and compares them.

Every round fetches the next records from each replica and compares them batch by batch up to the high
watermark: different offsets end the tool, different checksums are reported. It runs until interrupted, and
periodically reports the partition with the largest lag.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.operations.java_order import int_hash, map_order, partition_hash
from ottla.operations.partition_files import name_of
from ottla.tools.arguments import OptionParser, Options
from ottla.tools.entry_point import run
from ottla.tools.patterns import IncludeList
from ottla.wire.errors import KafkaError, for_code

if TYPE_CHECKING:
    from ottla.client.admin import AsyncAdmin
    from ottla.client.admin.topics import TopicDescription
    from ottla.records.batch import BatchHeader
    from ottla.wire.messages.fetch import FetchResponse

_DEBUGGING_REPLICA = -2  # Kafka's id for debugging, which may read from followers
_BY_REPLICA_ID_VERSION_MAX = 14
_DEPRECATED = "WARN This tool is deprecated and may be removed in a future major release."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; return the exit code."""
    return run(_parser(), _work, arguments)


def _parser() -> OptionParser:
    parser = OptionParser(
        "kafka-replica-verification", "Validate that all replicas for a set of topics have the same data."
    )
    parser.value(
        "broker-list", "bootstrap-server", shown_as="host:port,...", text="REQUIRED: brokers to connect to."
    )
    parser.value(
        "fetch-size",
        shown_as="bytes",
        convert=int,
        default=1024 * 1024,
        text="Fetch size per partition in bytes.",
    )
    parser.value(
        "max-wait-ms",
        shown_as="ms",
        convert=int,
        default=1000,
        text="Maximum time a broker waits for records, in ms.",
    )
    parser.value(
        "topics-include", shown_as="pattern", default=".*", text="Topics to verify, by regular expression."
    )
    parser.value(
        "time",
        shown_as="timestamp",
        convert=int,
        default=-1,
        text="Start: a timestamp in ms, -1 (latest) or -2 (earliest).",
    )
    parser.value("report-interval-ms", shown_as="ms", convert=int, default=30_000, text="Reporting interval.")
    return parser


@dataclass(frozen=True, slots=True)
class Read:
    """The data read from a replica."""

    records: bytes | memoryview
    high_watermark: int


NOTHING = Read(b"", -1)


class Mismatch(Exception):
    """Replicas have different offsets: nothing after them can be compared."""


class Verification:
    """Compares rounds of reads; pure except for the injected clock."""

    def __init__(self, offsets: Mapping[TopicPartition, int], now: Callable[[], datetime]) -> None:
        self.offsets = {place: offsets[place] for place in map_order(offsets, partition_hash)}
        """Partition -> the start of the next round."""
        self._now = now
        self._worst: tuple[int, TopicPartition | None, int] = (-1, None, -1)

    def take(self, reads: Mapping[TopicPartition, Mapping[int, Read]]) -> Iterator[str]:
        """Compare one round; return the lines to print. Raises Mismatch if it cannot continue."""
        self._worst = (-1, None, -1)
        for place, offset in list(self.offsets.items()):
            of_place = reads[place]
            for said in self._compare(place, of_place):
                yield self._stamped(said)
            offset = self.offsets[place]
            lag = max((read.high_watermark for read in of_place.values()), default=-1) - offset
            if lag > self._worst[0]:
                self._worst = (lag, place, offset)

    def report(self) -> str:
        lag, place, offset = self._worst
        name = "null" if place is None else name_of(place)
        return self._stamped(
            f"max lag is {lag} for partition {name} at offset {offset} among {len(self.offsets)} partitions"
        )

    def _compare(self, place: TopicPartition, reads: Mapping[int, Read]) -> Iterator[str]:
        """Compare batch by batch, as long as every replica has another one below its high watermark."""
        from ottla.records.batch import iterate_headers

        order = map_order(reads, int_hash)
        batches = {replica: iterate_headers(reads[replica].records) for replica in order}
        while True:
            row: dict[int, BatchHeader] = {}
            for replica in order:
                found = next(batches[replica], None)
                if found is not None and found[1].last_offset < reads[replica].high_watermark:
                    row[replica] = found[1]
            yield from self._compare_row(place, row)
            if not row or len(row) < len(order):
                return
            self.offsets[place] = next(iter(row.values())).last_offset + 1

    def _compare_row(self, place: TopicPartition, row: Mapping[int, BatchHeader]) -> Iterator[str]:
        name = name_of(place)
        items = iter(row.items())
        first, header = next(items, (-1, None))
        if header is None:
            return
        for replica, other in items:
            if other.last_offset != header.last_offset:
                raise Mismatch(
                    self._stamped(
                        f"partition {name}: replica {first}'s offset {header.last_offset} doesn't match"
                        f" replica {replica}'s offset {other.last_offset}"
                    )
                )
            if other.crc != header.crc:
                yield (
                    f"partition {name} has unmatched checksum at offset {other.last_offset};"
                    f" replica {first}'s checksum {header.crc}; replica {replica}'s checksum {other.crc}"
                )

    def _stamped(self, text: str) -> str:
        return f"{stamp(self._now())}: {text}"


def stamp(now: datetime) -> str:
    return f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d}"


def _now() -> datetime:
    return datetime.now().astimezone()


def _work(options: Options) -> int:
    print(_DEPRECATED, file=sys.stderr)
    options.check_required("broker-list")
    return asyncio.run(_verify(options))


async def _verify(options: Options) -> int:
    from ottla.client.admin import AsyncAdmin

    include = IncludeList(options.value("topics-include"))
    async with AsyncAdmin(options.value("broker-list")) as admin:
        names = list(await admin.list_topics(include_internal=True))
        chosen = [name for name in names if include.allows(name)]
        topics = (await admin.describe_topics(chosen)).all()
        if not topics:
            raise Failure(
                "No topics found. [topics-include] if specified, is either filtering out all topics or there"
                " is no topic."
            )
        await _check_brokers(admin, topics)
        verification = Verification(await _first_offsets(admin, topics, options.value("time")), _now)
        rounds = _Rounds(admin, topics, options.value("fetch-size"), options.value("max-wait-ms"))
        print(f"{stamp(_now())}: verification process is started", flush=True)
        clock = asyncio.get_running_loop().time
        reported, interval = clock(), options.value("report-interval-ms") / 1000
        while True:
            reads = await rounds.read(verification.offsets)
            try:
                for line in verification.take(reads):
                    print(line, flush=True)
            except Mismatch as end:
                print(end, flush=True)
                return 1
            if clock() - reported > interval:
                print(verification.report(), flush=True)
                reported = clock()


async def _check_brokers(admin: AsyncAdmin, topics: Mapping[str, TopicDescription]) -> None:
    known = {node.id for node in (await admin.describe_cluster()).nodes}
    needed = {node.id for topic in topics.values() for one in topic.partitions for node in one.replicas}
    if missing := sorted(needed - known):
        listed = ", ".join(map(str, missing))
        raise Failure(f"Replicas are on brokers that are down. Start broker {listed} and try again.")


async def _first_offsets(
    admin: AsyncAdmin, topics: Mapping[str, TopicDescription], timestamp: int
) -> dict[TopicPartition, int]:
    places = [
        TopicPartition(name, one.partition) for name, topic in topics.items() for one in topic.partitions
    ]
    found = {
        place: listed.offset
        for place, listed in (await admin.list_offsets(dict.fromkeys(places, timestamp))).all().items()
    }
    later = [place for place, offset in found.items() if offset < 0]  # no record is that new: use the end
    ends = (await admin.list_offsets(dict.fromkeys(later, -1))).all() if later else {}
    return found | {place: listed.offset for place, listed in ends.items()}


class _Rounds:
    """Fetches the next data of all replicas concurrently."""

    def __init__(
        self, admin: AsyncAdmin, topics: Mapping[str, TopicDescription], fetch_bytes: int, wait_ms: int
    ) -> None:
        from ottla.wire import uuid

        self._admin = admin
        self._fetch_bytes = fetch_bytes
        self._wait_ms = wait_ms
        self._told: set[tuple[TopicPartition, int, str]] = set()
        self._ids = {
            name: uuid.from_text(topic.topic_id or uuid.to_text(uuid.ZERO)) for name, topic in topics.items()
        }
        self._names = {topic_id: name for name, topic_id in self._ids.items()}
        self._places: dict[int, list[TopicPartition]] = {}
        for name, topic in topics.items():
            for one in topic.partitions:
                for node in one.replicas:
                    self._places.setdefault(node.id, []).append(TopicPartition(name, one.partition))

    async def read(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, dict[int, Read]]:
        """Run one round. A replica without data, because its broker is down, blocks its partition."""
        reads: dict[TopicPartition, dict[int, Read]] = {place: {} for place in offsets}
        answers = await asyncio.gather(*(self._ask(broker, offsets) for broker in self._places))
        for broker, found in zip(self._places, answers, strict=True):
            for place in self._places[broker]:
                reads[place][broker] = found.get(place, NOTHING)
        return reads

    async def _ask(self, broker: int, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, Read]:
        from ottla.wire.messages.fetch import FetchRequest

        of_topic: dict[str, list[FetchRequest.FetchPartition]] = {}
        for place in self._places[broker]:
            of_topic.setdefault(place.topic, []).append(
                FetchRequest.FetchPartition(
                    partition=place.partition,
                    fetch_offset=offsets[place],
                    log_start_offset=0,
                    partition_max_bytes=self._fetch_bytes,
                )
            )
        request = FetchRequest(
            replica_id=_DEBUGGING_REPLICA,
            max_wait_ms=self._wait_ms,
            min_bytes=1,
            topics=[
                FetchRequest.FetchTopic(topic=topic, topic_id=self._ids[topic], partitions=partitions)
                for topic, partitions in of_topic.items()
            ],
        )
        timeout_ms = self._admin.settings.request_timeout_ms + self._wait_ms
        try:
            answer = await self._admin.engine.ask(
                broker, request, timeout_ms=timeout_ms, version_max=_BY_REPLICA_ID_VERSION_MAX
            )
        except (KafkaError, ClientError) as error:
            for place in self._places[broker]:
                self._tell(place, broker, error)
            await asyncio.sleep(self._wait_ms / 1000)
            return {}
        return self._reads(broker, answer)

    def _reads(self, broker: int, answer: FetchResponse) -> dict[TopicPartition, Read]:
        found = {}
        for topic in answer.responses:
            name = topic.topic or self._names.get(topic.topic_id, "")
            for one in topic.partitions:
                place = TopicPartition(name, one.partition_index)
                if one.error_code:
                    self._tell(place, broker, for_code(one.error_code)())
                found[place] = Read(one.records or b"", one.high_watermark)
        return found

    def _tell(self, place: TopicPartition, broker: int, error: Exception) -> None:
        """Log the reason why a replica cannot be read, once per reason."""
        reason = str(error)
        if (place, broker, reason) not in self._told:
            self._told.add((place, broker, reason))
            print(f"WARN {name_of(place)} cannot be read from broker {broker}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
