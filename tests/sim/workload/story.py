"""One run: a cluster, its clients, the faults, the repair, the final reads and the checks."""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from math import inf
from traceback import FrameSummary, extract_tb
from typing import Any

from ottla.client.admin.topics import NewTopic
from ottla.client.values import TopicPartition
from ottla.rare_paths import ON_PURPOSE
from ottla.testing.world import SimulatedClient, World
from ottla.testing.world.nemesis import FAULTS, Nemesis
from ottla.testing.world.process import ProcessDied
from ottla.testing.world.random import stream
from ottla.testing.world.rare_paths import RarePaths, rare_paths
from tests.sim.checker import Anomaly, Committed, History, Quiet, check
from tests.sim.checker.history import Partition
from tests.sim.workload.observer import Observer
from tests.sim.workload.probes import Probes, longest_step_s
from tests.sim.workload.readers import (
    isolation,
    read_all,
    read_freely,
    read_in_group,
    read_process_write,
)
from tests.sim.workload.recording import Recorder
from tests.sim.workload.scenario import Part, Scenario
from tests.sim.workload.tempo import Tempo
from tests.sim.workload.writers import REFUSED, write, write_in_transactions

HEALED_S_MAX = 60.0
"""After the repair all clients finish, all partitions have leaders and all replicas agree within this
time."""

CALM_S = 15.0
"""How long clients continue after the repair before they are asked to finish."""

GIVE_UP_S = 600.0
"""A run that has not recovered this long after the repair ends without final reads."""

_RETRY_S = 3.0
"""A follower whose fetch of a new partition arrives before its leader knows it retries after a second."""

_PLAIN, _LEDGER, _SOURCE, _MADE = "plain", "ledger", "source", "made"
_LOOSE = "loose"
"""Written with acks 0 and 1."""
_GROUPS = {"classic-group": "classic", "consumer-group": "consumer"}
_APPLICATION = "application"

Life = Callable[[SimulatedClient], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run. `unhandled`: exceptions that nobody caught, and errors that nodes logged."""

    seed: int
    history: History
    anomalies: list[Anomaly]
    unhandled: list[str]
    timeline: str
    trace_hash: str
    effects: Counter[str]

    @property
    def is_right(self) -> bool:
        return not self.anomalies and not self.unhandled

    def report(self, timeline_lines: int = 200) -> str:
        """The reasons why it failed, after the end of its timeline."""
        lines = self.timeline.splitlines()[-timeline_lines:] if timeline_lines else []
        wrong = [str(one) for one in self.anomalies] + [f"unhandled: {one}" for one in self.unhandled]
        shown = wrong[:50] + ([f"and {len(wrong) - 50} more"] if len(wrong) > 50 else [])
        return "\n".join([*lines, f"seed {self.seed}: {len(wrong)} anomalies", *shown])


@dataclass
class Story:
    """The clients of one run. `kills` says whether clients die, too."""

    world: World
    recorder: Recorder
    observer: Observer
    faults: Sequence[str]
    kills: bool
    calm_s: float = CALM_S
    give_up_s: float = GIVE_UP_S
    partitions: list[Partition] = field(default_factory=list)
    late: list[Anomaly] = field(default_factory=list)
    is_ending: bool = False
    scenario: Scenario | None = None
    parts: list[Part] = field(default_factory=list)
    effects: Counter[str] = field(default_factory=Counter)
    rare: RarePaths | None = None
    _tempo: Tempo | None = None
    _began: float = 0.0

    async def rest(self) -> None:
        """Wait until the next burst of work; return at once within one."""
        if self._tempo is not None and (quiet_s := self._tempo.quiet_s(self.world.now - self._began)):
            await asyncio.sleep(quiet_s)

    async def run(self, seconds: float) -> None:
        world = self.world
        await world.start()
        maker = world.client("maker")
        self.partitions = await maker.spawn(self._create(maker))
        self._tempo, self._began = Tempo(stream(world.seed, "tempo"), seconds, self.calm_s), world.now
        watching = asyncio.ensure_future(self.observer.watch())
        roles = {
            role: asyncio.ensure_future(self._keep_alive(role, life)) for role, life in self._roles().items()
        }
        nemesis = Nemesis(world, self.faults) if self.scenario is None else self.scenario.nemesis(self)
        nemesis.effects = self.effects
        await nemesis.run(seconds)
        if self.rare is not None:
            self.rare.is_on = False
        healed = world.now
        tending = asyncio.ensure_future(self._keep_running(nemesis))
        await asyncio.sleep(self.calm_s)
        if self.is_faultless:
            self._was_quiet(self._began + _RETRY_S)
            self._was_quiet(self._began, step_s=inf)
        elif self.scenario is not None and self.scenario.keeps_leaders:
            self._was_quiet(self._began, step_s=inf)
        self.is_ending = True
        await self._finish(roles, healed)
        history = self.recorder.history
        await self._probe()
        judge = world.client("judge")
        history.final += await judge.spawn(read_all(judge, self.partitions))
        await judge.spawn(self._ask_committed(judge))
        for part in self.parts:
            await judge.spawn(part.judge(self, judge))
        watching.cancel()
        tending.cancel()
        self.observer.inspect({topic for topic, _ in self.partitions})

    @property
    def is_faultless(self) -> bool:
        return self.scenario is None and not self.faults and not self.kills

    async def _probe(self) -> None:
        """Without faults: time the waits of clients."""
        prober = self.world.client("prober")
        probes = Probes(self.recorder, self._of(_PLAIN, _LEDGER))
        await prober.spawn(probes.prepare(prober))
        await asyncio.sleep(_RETRY_S)
        self.observer.observe()  # leaders elected so far do not count
        began = self.world.now
        await prober.spawn(probes.run(prober))
        self._was_quiet(began)

    def _was_quiet(self, began: float, step_s: float | None = None) -> None:
        """Record that there was no fault from then until now."""
        self.observer.observe()
        longest_s = longest_step_s(self.world) if step_s is None else step_s
        quiet = Quiet(began=began, ended=self.world.now, step_s=longest_s)
        self.recorder.history.quiet.append(quiet)

    async def _create(self, client: SimulatedClient) -> list[Partition]:
        brokers = sum(node.is_broker for node in self.world.nodes.values())
        count = self.world.rng.choice((1, 2, 3))
        topics = [
            NewTopic(name, count, min(brokers, 3), configs={"min.insync.replicas": "2"})
            for name in (_PLAIN, _LEDGER, _SOURCE, _MADE)
        ]
        topics.append(NewTopic(_LOOSE, 1, min(brokers, 3), configs={"min.insync.replicas": "2"}))
        topics += [topic for part in self.parts for topic in part.story_topics(self)]
        others = [topic for part in self.parts for topic in part.topics(self)]
        async with client.admin() as admin:
            await admin.create_topics(topics + others)
        return [(topic.name, index) for topic in topics for index in range(topic.partitions or count)]

    def _of(self, *topics: str) -> list[Partition]:
        return [partition for partition in self.partitions if partition[0] in topics]

    def _roles(self) -> dict[str, Life]:
        protocol = self.world.rng.choice(("classic", "consumer"))
        writing = partial(write, self, self.recorder)
        transacting = partial(write_in_transactions, self, self.recorder)
        applying = partial(read_process_write, self, self.recorder)
        joining = partial(read_in_group, self, self.recorder)
        reading = partial(read_freely, self, self.recorder)
        roles: dict[str, Life] = {
            "writer": partial(writing, partitions=self._of(_PLAIN), rate=10.0),
            "feeder": partial(writing, partitions=self._of(_SOURCE), rate=5.0),
            "committed-reader": partial(reading, partitions=self.partitions, committed=True),
            "reader": partial(reading, partitions=self.partitions, committed=False),
        }
        for acks in (0, 1):
            loosely = partial(writing, partitions=self._of(_LOOSE), rate=2.0, acks=acks)
            roles[f"loose-{acks}"] = loosely
        for number in (1, 2):
            name = f"ledger-{number}"
            roles[name] = partial(transacting, partitions=self._of(_LEDGER, _PLAIN), name=name)
            name = f"application-{number}"
            roles[name] = partial(
                applying,
                source=_SOURCE,
                targets=self._of(_MADE),
                group=_APPLICATION,
                protocol=protocol,
                name=name,
            )
            for group, kind in _GROUPS.items():
                roles[f"{group}-{number}"] = partial(
                    joining, topics=[_PLAIN, _LEDGER], group=group, protocol=kind
                )
        if self.scenario is not None and self.scenario.roles is not None:
            roles = {role: life for role, life in roles.items() if role in self.scenario.roles}
        for part in self.parts:
            roles |= part.roles(self)
        return roles

    async def _keep_alive(self, role: str, life: Life) -> None:
        """Run one instance of a client after the other, until the story ends."""
        rng = stream(self.world.seed, role)
        number = 0
        while not self.is_ending or number == 0:
            number += 1
            client = self.world.client(f"{role}.{number}")
            living = client.spawn(life(client))
            if self.kills and not self.is_ending:
                await asyncio.wait([living], timeout=5.0 + rng.expovariate(1 / 30))
                if not living.done() and not self.is_ending:
                    client.kill()
            try:
                await living
            except ProcessDied:
                continue
            except REFUSED as error:
                self.recorder.record_error(client.host, error)
                await asyncio.sleep(0.5)
                client.kill()  # and whatever it left running

    async def _keep_running(self, nemesis: Nemesis) -> None:
        """Restart nodes that stop by themselves, like a service manager: a node may stop after its failed
        disk was repaired."""
        while True:
            for node in self.world.nodes.values():
                if not node.is_running:
                    await nemesis.start_until_serving(node)
            await asyncio.sleep(1.0)

    async def _finish(self, roles: Mapping[str, asyncio.Future[None]], healed: float) -> None:
        """Wait until everything has recovered; exceeding the limit is an anomaly."""
        world, observer = self.world, self.observer
        topics = {topic for topic, _ in self.partitions}

        def missing() -> str | None:
            busy = [role for role, tended in roles.items() if not tended.done()]
            if busy:
                return f"{', '.join(busy)} did not finish"
            return observer.first_unfinished(topics)

        is_late = False
        while (what := missing()) is not None:
            since = world.now - healed
            if since > HEALED_S_MAX and not is_late:
                is_late = True
                self.late.append(Anomaly("not alive", f"{since:.0f} s after the healing {what}"))
                world.note("story", f"not alive: {what}")
            if since > self.give_up_s:
                raise AssertionError(f"{since:.0f} s after the healing {what}")
            await asyncio.sleep(0.5)
        await asyncio.gather(*roles.values())

    async def _ask_committed(self, client: SimulatedClient) -> None:
        for group in (*_GROUPS, _APPLICATION):
            if not any(one.group == group for one in self.recorder.history.assigned):
                continue  # no member of this group was part of the story
            began = self.world.now
            topics = (_SOURCE,) if group == _APPLICATION else (_PLAIN, _LEDGER)
            named = [TopicPartition(*one) for one in self._of(*topics)]
            settings = {**isolation(committed=True), "group_id": group, "enable_auto_commit": False}
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
                        ended=self.world.now,
                    )
                )


def _where(error: Exception) -> list[FrameSummary]:
    return extract_tb(error.__traceback__)[-6:]


def run_in(
    world: World,
    *,
    seconds: float = 60.0,
    faults: Sequence[str] | None = None,
    scenario: Scenario | None = None,
    calm_s: float = CALM_S,
    give_up_s: float = GIVE_UP_S,
) -> Outcome:
    """Run the story of a world without nodes, and check it. One seed in eight has no faults.

    A scenario (`tests.sim.scenarios`) has its own faults, settings and clients.
    """
    rng = world.rng
    chosen = rng.sample(list(FAULTS), rng.randint(1, len(FAULTS))) if world.seed % 8 else []
    chosen = chosen if faults is None else list(faults)
    if scenario is not None:
        chosen = list(scenario.faults)
    # Hosts lose power one after the other, and with it unflushed records: as in Kafka, a record survives that
    # on all its replicas only if it is flushed before the acknowledgment.
    loses_power = not {"power", "crash within change", "failing disk"}.isdisjoint(chosen)
    flushed = {"log.flush.interval.messages": "1"} if loses_power else {}
    if scenario is None:
        world.add_nodes(rng.choice((3, 3, 4, 5)), combined=rng.random() < 0.8, settings=flushed)
        kills = bool(chosen) and rng.random() < 0.7
    else:
        scenario.add_nodes(world, flushed)
        kills = rng.random() < scenario.kills
    recorder = Recorder(world)
    story = Story(world, recorder, Observer(world, recorder), chosen, kills, calm_s, give_up_s)
    if scenario is not None:
        story.scenario, story.parts = scenario, [make() for make in scenario.parts]
        world.note("story", scenario.name)
    world.note("story", f"{len(world.nodes)} nodes, {', '.join(chosen) or 'no faults'}")
    ended: list[Anomaly] = []
    try:
        with ExitStack() as stack:
            if scenario is not None and scenario.takes_rare_paths(world.seed):
                story.rare = stack.enter_context(rare_paths(world.seed))
            world.run(story.run(seconds), limit_s=seconds + calm_s + 2 * give_up_s)
    except Exception as error:  # noqa: BLE001 - a client's error, or a timeout, ends the run
        frames = [
            f"{frame.name} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})" for frame in _where(error)
        ]
        ended.append(Anomaly("not alive", f"{error!r} in {' < '.join(reversed(frames))}"))
    anomalies = [*story.late, *ended, *check(recorder.history)]
    if story.rare is not None:
        story.effects.update(story.rare.taken)
    history = recorder.history
    sent = [send.offset for send in history.sends] + [send.offset for send in history.keyed]
    if not ended and not any(offset is not None for offset in sent):
        anomalies.append(Anomaly("not alive", "nothing was written at all"))
    unhandled = [str(one) for one in world.unhandled]
    if scenario is not None:
        anomalies = [anomaly for anomaly in anomalies if anomaly.kind not in scenario.waived]
    logs_errors = scenario is not None and scenario.logs_errors
    if not logs_errors and not any("disk" in fault for fault in chosen):  # which nodes log, correctly
        unhandled += [str(one) for one in world.logged if ON_PURPOSE not in one.text]
    return Outcome(
        world.seed,
        recorder.history,
        anomalies,
        unhandled,
        world.history(),
        world.trace_hash,
        story.effects,
    )


def run_story(
    seed: int,
    *,
    seconds: float = 60.0,
    faults: Sequence[str] | None = None,
    scenario: Scenario | None = None,
    calm_s: float = CALM_S,
    give_up_s: float = GIVE_UP_S,
) -> Outcome:
    """Run a seed in its own world, with `seconds` virtual seconds of faults (None: the seed's faults)."""
    with warnings.catch_warnings():
        # Killed clients are closed with the world, and their coroutines are not awaited then.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        with World(seed) as world:
            return run_in(
                world,
                seconds=seconds,
                faults=faults,
                scenario=scenario,
                calm_s=calm_s,
                give_up_s=give_up_s,
            )
