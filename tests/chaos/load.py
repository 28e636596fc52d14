"""The load of one round: our own and other clients, on the round's topics, recorded and checked.

Our own clients are those of `tests.sim.workload`, over real connections; they are killed from time to time.
After the repair all clients finish within a minute, and the checks cover the history, a final read from the
beginning (by our client and by confluent-kafka), and the files.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from ottla.records.batch import iterate_headers, whole_batches_end
from tests.chaos.chaos_cluster import ChaosCluster
from tests.chaos.clients import ClientThread, RealClient, Schedule, SharedRecorder
from tests.chaos.other_clients import (
    ConfluentMember,
    ConfluentTransactor,
    ConfluentWriter,
    Worker,
    aio_member,
    aio_write,
    read_committed,
)
from tests.interop import peers
from tests.interop.cluster.nodes import CONTROLLERS, SECONDS_MAX
from tests.interop.cluster.watching import Watch, wait_until_equal
from tests.sim.checker import (
    Anomaly,
    Committed,
    FinalLog,
    History,
    Leads,
    MetadataLog,
    Outcome,
    Watermark,
    check,
)
from tests.sim.checker.history import Partition
from tests.sim.workload.readers import (
    isolation,
    read_all,
    read_freely,
    read_in_group,
    read_process_write,
)
from tests.sim.workload.writers import REFUSED, write, write_in_transactions

PARTITIONS = 2
GROUPS = ("own-classic", "own-consumer", "confluent-classic", "confluent-consumer", "aio")
HEALED_S_MAX = 60.0
"""After the repair all clients finish and all replicas agree within this time."""

Role = Callable[[RealClient], Coroutine[Any, Any, None]]


class RestartedClient(threading.Thread):
    """Runs one instance of an event-loop client after the other until the round ends; most instances are
    killed.

    A transactional one may stall for a while instead: when it continues it is a zombie, since its successor
    has its transactional id by then.
    """

    def __init__(
        self, load: Load, role: str, work: Role, *, mean_life_s: float, has_id: bool = False
    ) -> None:
        super().__init__(name=role, daemon=True)
        self._load, self._role, self._work, self._mean_life_s = load, role, work, mean_life_s
        self._has_id = has_id
        self._zombies: list[ClientThread] = []
        self.error: BaseException | None = None
        self.kills = 0

    @property
    def zombies(self) -> int:
        return len(self._zombies)

    def run(self) -> None:
        try:
            self._keep_running()
        except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
            self.error = error

    def _keep_running(self) -> None:
        load, schedule = self._load, self._load.schedule
        rng = random.Random(f"{load.seed}/{self._role}")
        number = 0
        while not schedule.is_ending or number == 0:
            number += 1
            client = RealClient(f"{self._role}.{number}", load.bootstrap, load.seed)
            life = ClientThread(client.host, partial(self._work, client))
            if not schedule.is_ending and self._mean_life_s:
                life.join(5.0 + rng.expovariate(1 / self._mean_life_s))
                if life.is_alive() and not schedule.is_ending:
                    self._end(life, rng)
                    continue
            self._join(life)
            time.sleep(0.5)  # a restart delay, like a service manager's
        for zombie in self._zombies:
            self._join(zombie)

    def _end(self, life: ClientThread, rng: random.Random) -> None:
        if self._has_id and rng.random() < 0.5:
            self._load.recorder.world.note(life.name, "stands still while its successor starts")
            life.stall(rng.uniform(2.0, 12.0))
            self._zombies.append(life)
        else:
            self._load.recorder.world.note(life.name, "is killed")
            life.kill()
            self.kills += 1

    def _join(self, life: ClientThread) -> None:
        life.join()
        if isinstance(life.error, REFUSED):
            self._load.recorder.record_error(life.name, life.error)
        elif life.error is not None:
            raise life.error


class Load:
    """The clients of a round. `share` scales their write rate: 1.0 is about 200 records per second."""

    def __init__(
        self,
        cluster: ChaosCluster,
        seed: str,
        *,
        name: str,
        share: float = 1.0,
        kills: bool = True,
        configs: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster, self.seed, self.bootstrap = cluster, seed, cluster.bootstrap
        self._share, self._kills = share, kills
        self._configs = {"min.insync.replicas": "2", "segment.ms": "20000", **(configs or {})}
        self.schedule = Schedule()
        self.recorder = SharedRecorder(cluster.timeline)
        self._name = name
        self.topics = {f"{kind}-{name}": PARTITIONS for kind in ("plain", "ledger", "source", "made")}
        self.partitions = [(topic, index) for topic in self.topics for index in range(PARTITIONS)]
        self.watch = Watch(cluster, self.topics)
        self.workers: list[RestartedClient | Worker] = []
        self.late: list[Anomaly] = []
        self.healed_s = 0.0  # time from the repair until all clients finished

    def _of(self, *kinds: str) -> list[Partition]:
        return [one for one in self.partitions if one[0] in self._topics(*kinds)]

    def _topics(self, *kinds: str) -> list[str]:
        return [f"{kind}-{self._name}" for kind in kinds]

    def _group(self, kind: str) -> str:
        return f"{kind}-{self._name}"

    # Running

    @property
    def groups(self) -> list[str]:
        return [self._group(kind) for kind in (*GROUPS, "application")]

    @property
    def transactional_ids(self) -> list[str]:
        own = [f"{self._group(kind)}-{number}" for kind in ("ledger", "application") for number in (1, 2)]
        return [*own, f"confluent-{self._name}"]

    def begin(self) -> None:
        asyncio.run(self._create())
        self.cluster.wait_until_in_sync(self.topics)
        self.watch.start()
        self.workers = [*self._own_clients(), *self._confluent_clients(), *self._aio_clients()]
        for worker in self.workers:
            worker.start()

    async def _create(self) -> None:
        new = [NewTopic(topic, count, 3, configs=self._configs) for topic, count in self.topics.items()]
        async with RealClient("maker", self.bootstrap, self.seed).admin() as admin:
            (await admin.create_topics(new)).all()

    def _own_clients(self) -> list[RestartedClient | Worker]:
        schedule, recorder, share = self.schedule, self.recorder, self._share
        rng = random.Random(self.seed)
        protocol = rng.choice(("classic", "consumer"))
        plain, source = self._of("plain"), self._of("source")
        roles: dict[str, Role] = {
            "writer": lambda one: write(schedule, recorder, one.simulated, plain, rate=50.0 * share),
            "feeder": lambda one: write(schedule, recorder, one.simulated, source, rate=20.0 * share),
            "committed-reader": lambda one: read_freely(
                schedule, recorder, one.simulated, self.partitions, committed=True
            ),
            "reader": lambda one: read_freely(
                schedule, recorder, one.simulated, self.partitions, committed=False
            ),
        }
        for number in (1, 2):
            name = f"{self._group('ledger')}-{number}"
            roles[f"ledger-{number}"] = partial(self._transact, name=name)
            roles[f"application-{number}"] = partial(
                self._apply, name=f"{self._group('application')}-{number}", protocol=protocol
            )
        for kind in ("classic", "consumer"):
            roles[f"{kind}-member"] = partial(self._join, protocol=kind)
        mean = 30.0 if self._kills else 0.0
        return [
            RestartedClient(
                self, role, work, mean_life_s=mean, has_id=role.startswith(("ledger", "application"))
            )
            for role, work in roles.items()
        ]

    def _transact(self, client: RealClient, name: str) -> Coroutine[Any, Any, None]:
        targets = self._of("ledger", "plain")
        return write_in_transactions(self.schedule, self.recorder, client.simulated, targets, name)

    def _apply(self, client: RealClient, name: str, protocol: str) -> Coroutine[Any, Any, None]:
        return read_process_write(
            self.schedule,
            self.recorder,
            client.simulated,
            self._topics("source")[0],
            self._of("made"),
            self._group("application"),
            protocol,
            name,
        )

    def _join(self, client: RealClient, protocol: str) -> Coroutine[Any, Any, None]:
        topics = self._topics("plain", "ledger")
        group = self._group(f"own-{protocol}")
        return read_in_group(self.schedule, self.recorder, client.simulated, topics, group, protocol)

    def _confluent_clients(self) -> list[RestartedClient | Worker]:
        common = (self.schedule, self.recorder, self.bootstrap)
        topics = self._topics("plain", "ledger")
        found: list[RestartedClient | Worker] = [
            ConfluentWriter(
                "confluent-writer",
                *common,
                partitions=self._of("plain"),
                rate=80.0 * self._share,
                seed=self.seed,
            ),
            ConfluentTransactor(
                f"confluent-{self._name}", *common, partitions=self._of("ledger", "plain"), seed=self.seed
            ),
        ]
        for protocol, count in (("classic", 1), ("consumer", 2)):
            for number in range(count):
                found.append(
                    ConfluentMember(
                        f"confluent-{protocol}-{number}",
                        *common,
                        topics=topics,
                        group=self._group(f"confluent-{protocol}"),
                        protocol=protocol,
                    )
                )
        return found

    def _aio_clients(self) -> list[RestartedClient | Worker]:
        schedule, recorder, bootstrap = self.schedule, self.recorder, self.bootstrap
        plain, topics = self._of("plain"), self._topics("plain", "ledger")
        rate, group = 20.0 * self._share, self._group("aio")
        return [
            RestartedClient(
                self,
                "aio-writer",
                lambda one: aio_write(schedule, recorder, bootstrap, one.host, plain, rate),
                mean_life_s=0.0,
            ),
            RestartedClient(
                self,
                "aio-member",
                lambda one: aio_member(schedule, recorder, bootstrap, one.host, topics, group),
                mean_life_s=0.0,
            ),
        ]

    # Progress so far

    def figures(self) -> Counter[str]:
        history = self.recorder.history
        sends, transactions = list(history.sends), list(history.transactions)
        return Counter(
            {
                "records": sum(send.outcome is Outcome.OK for send in sends),
                "transactions": sum(one.outcome is Outcome.OK for one in transactions),
                "aborted": sum(one.outcome is Outcome.FAILED for one in transactions),
                "unknown": sum(send.outcome is Outcome.UNKNOWN for send in sends),
                "records read": sum(len(read.records) for read in list(history.reads)),
                "client kills": sum(one.kills for one in self.workers if isinstance(one, RestartedClient)),
                "zombies": sum(one.zombies for one in self.workers if isinstance(one, RestartedClient)),
            }
        )

    def wait_for_progress(self, records: int = 100, transactions: int = 4) -> None:
        before = self.figures()

        def has_progress() -> bool:
            now = self.figures()
            return (
                now["records"] >= before["records"] + records
                and now["transactions"] >= before["transactions"] + transactions
            )

        peers.wait_until(
            has_progress, SECONDS_MAX, lambda: f"the load to get on: {before} -> {self.figures()}", 0.2
        )

    # The end

    def finish(self) -> list[Anomaly]:
        """Call it after the repair: returns the anomalies, or an empty list."""
        healed = time.monotonic()
        self.schedule.is_ending = True
        try:
            self._wait_for_clients(healed)
            self.cluster.wait_until_in_sync(self.topics)
            self._look_at_time(healed, "all was whole")
            asyncio.run(self._read())
            wait_until_equal(self.cluster, self.topics)
        except AssertionError as error:
            self.late.append(Anomaly("not alive", str(error)))
        finally:
            with contextlib.suppress(RuntimeError):  # if it was never started
                self.watch.__exit__()
        self._observe()
        found = [*self.late, *self._views_differ(), *self._regressed_views(), *self._low_starts()]
        return [*found, *check(self.recorder.history)]

    def _look_at_time(self, healed: float, what: str) -> None:
        took = self.healed_s = time.monotonic() - healed
        self.cluster.note(f"{what} {took:.0f} s after the healing")
        if took > HEALED_S_MAX * peers.patience():
            self.late.append(Anomaly("not alive", f"{took:.0f} s passed from the healing until {what}"))

    def _wait_for_clients(self, healed: float) -> None:
        def busy() -> list[str]:
            return [worker.name for worker in self.workers if worker.is_alive()]

        peers.wait_until(lambda: not busy(), SECONDS_MAX, lambda: f"clients to finish: {busy()}", 0.1)
        self._look_at_time(healed, "all clients had finished")
        for worker in self.workers:
            if worker.error is not None:
                self.late.append(Anomaly("client gave up", f"{worker.name}: {worker.error!r}"))

    async def _read(self) -> None:
        judge = RealClient("judge", self.bootstrap, self.seed)
        history = self.recorder.history
        history.final += await asyncio.wait_for(read_all(judge.simulated, self.partitions), SECONDS_MAX)
        for kind in (*GROUPS, "application"):
            topics = ("source",) if kind == "application" else ("plain", "ledger")
            await self._ask_committed(judge, self._group(kind), self._of(*topics))

    async def _ask_committed(self, client: RealClient, group: str, partitions: list[Partition]) -> None:
        began = self.cluster.timeline.now
        settings = {**isolation(committed=True), "group_id": group, "enable_auto_commit": False}
        named = [TopicPartition(*one) for one in partitions]
        async with client.consumer(**settings) as consumer:
            found = await consumer.committed(named)
        for one in named:
            place = found.get(one)
            self.recorder.history.committed.append(
                Committed(
                    group=group,
                    partition=(one.topic, one.partition),
                    offset=None if place is None else place.offset,
                    began=began,
                    ended=self.cluster.timeline.now,
                )
            )

    def _views_differ(self) -> list[Anomaly]:
        """confluent-kafka must read the same committed records as our client."""
        logs: list[FinalLog] = self.recorder.history.final
        if not logs:
            return []
        try:
            found = read_committed(self.bootstrap, logs)
        except AssertionError as error:
            return [Anomaly("not alive", f"the last read by confluent-kafka: {error}")]
        return [
            Anomaly("clients disagree", f"on {len(set(log.committed) ^ set(found[log.partition]))} records")
            for log in logs
            if list(log.committed) != found[log.partition]
        ]

    # The nodes' answers and files

    def _observe(self) -> None:
        history = self.recorder.history
        for (partition, epoch), nodes in self.watch.leaders.items():
            for node in nodes:
                history.leads.append(Leads(node=node, partition=partition, epoch=epoch, at=0.0))
                for number, end in enumerate(self.watch.ends[partition, epoch]):
                    history.watermarks.append(
                        Watermark(
                            node=node, partition=partition, epoch=epoch, high=end, stable=end, at=number
                        )
                    )
        for node_id in CONTROLLERS:
            directory = self.cluster.nodes[node_id].data / "__cluster_metadata-0"
            entries = metadata_entries(directory)
            history.metadata.append(
                MetadataLog(node=node_id, entries=entries, applied_to=entries[-1][0] if entries else -1)
            )

    def _regressed_views(self) -> list[Anomaly]:
        """A later leader must not show readers less than an earlier one did."""
        found = []
        highest: dict[Partition, int] = {}
        for (partition, epoch), ends in sorted(self.watch.ends.items()):
            if ends[0] < highest.get(partition, 0):
                found.append(
                    Anomaly("shown less", f"{partition} in epoch {epoch}: {ends[0]} < {highest[partition]}")
                )
            highest[partition] = max(highest.get(partition, 0), *ends)
        return found

    def _low_starts(self) -> list[Anomaly]:
        """A member must not start below the group's committed offset at the time of its assignment."""
        found = []
        for group, partition, offset, began in self.recorder.beginnings:
            floor = max(
                (
                    commit.offset
                    for commit in self.recorder.history.commits
                    if commit.outcome is Outcome.OK
                    and commit.transaction is None
                    and (commit.group, commit.partition) == (group, partition)
                    and commit.ended < began
                ),
                default=0,
            )
            if offset < floor:
                found.append(
                    Anomaly("began below", f"{group} had {floor} committed of {partition}, began at {offset}")
                )
        return found

    def forget(self) -> None:
        """Drop the history: the next round has its own topics and history.

        Killed clients are kept forever, and so is the recorder, but not its contents.
        """
        self.recorder.history = History()
        self.recorder.beginnings.clear()
        self._delete_topics()

    def _delete_topics(self) -> None:
        async def delete() -> None:
            async with RealClient("maker", self.bootstrap, self.seed).admin() as admin:
                (await admin.delete_topics(list(self.topics))).all()

        asyncio.run(delete())


@contextlib.contextmanager
def under_load(cluster: ChaosCluster, name: str, **options: Any) -> Iterator[Load]:
    """Run a load during the block, and check it at the end."""
    load = Load(cluster, name, name=name, share=0.4, kills=False, **options)
    load.begin()
    try:
        load.wait_for_progress(20, 1)
        yield load
        load.wait_for_progress(20, 1)
    except BaseException:
        print(cluster.timeline.text(120))
        raise
    finally:
        load.schedule.is_ending = True
    anomalies = load.finish()
    print(dict(load.figures()))
    assert not anomalies, "\n".join([cluster.timeline.text(120), *map(str, anomalies[:20])])


def metadata_entries(directory: Path) -> tuple[tuple[int, int, int], ...]:
    """(offset, epoch, checksum) of each batch of the metadata log in a directory."""
    entries = []
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        data = data[: whole_batches_end(memoryview(data))]
        for _, header in iterate_headers(data):
            entries.append((header.base_offset, header.partition_leader_epoch, header.crc))
    return tuple(entries)
