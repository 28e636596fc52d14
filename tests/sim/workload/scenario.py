"""A scenario: a mix of faults, the settings under which they do harm, and additional clients.

A targeted fault also gets the story, to find the leader, the coordinator or the file that it wants to hit. It
counts its effects (`Nemesis.count`); a scenario lists the effects that it must have.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from ottla.testing.world.nemesis import Fault, Nemesis
from ottla.testing.world.random import stream

if TYPE_CHECKING:
    from ottla.client.admin.topics import NewTopic
    from ottla.testing.world import SimulatedClient, World
    from tests.sim.workload.story import Life, Story

TargetedStory: TypeAlias = Callable[["Story", Nemesis], Coroutine[Any, Any, None]]


class Part:
    """Topics, clients and checks in addition to those of every story. One instance per run."""

    def topics(self, story: Story) -> list[NewTopic]:
        """Its own topics, whose records the story's checks ignore."""
        return []

    def story_topics(self, story: Story) -> list[NewTopic]:
        """Its own topics whose records the story's checks include."""
        return []

    def roles(self, story: Story) -> Mapping[str, Life]:
        """Clients by role."""
        return {}

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        """Check the final state, after the repair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`number` refers to the list of faults in docs/reliability.md. `roles` None means all."""

    name: str
    number: int
    text: str
    faults: tuple[str, ...] = ()
    targeted_faults: tuple[TargetedStory, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[int, ...] = (3, 3, 4, 5)
    combined: float = 0.8
    """The probability that nodes are both broker and controller."""
    dynamic: bool = False
    disks: int = 1
    """The disks of each node, with a log directory on each."""
    controllers: int | None = None
    roles: tuple[str, ...] | None = None
    parts: tuple[Callable[[], Part], ...] = ()
    kills: float = 0.7
    """The probability that clients die, too."""
    pause_s: tuple[float, float] = (1.0, 10.0)
    lasts_s: tuple[float, float] = (0.5, 20.0)
    down_max: int | None = None
    effects: tuple[str, ...] = ()
    logs_errors: bool = False
    """Whether nodes log errors, correctly."""
    waived: frozenset[str] = frozenset()
    """Kinds of anomalies that the scenario's settings allow."""
    keeps_leaders: bool = False
    """Whether no leader may change during its faults."""
    rare: float = 0.5
    """The probability that the run also takes the rare paths of `ottla.rare_paths`."""

    def add_nodes(self, world: World, settings: Mapping[str, str]) -> None:
        """Add the nodes of a run."""
        rng = world.rng
        world.add_nodes(
            rng.choice(self.nodes),
            controllers=self.controllers,
            combined=rng.random() < self.combined,
            dynamic=self.dynamic,
            disks=self.disks,
            settings={**settings, **self.settings},
        )

    def takes_rare_paths(self, seed: int) -> bool:
        return stream(seed, "takes rare paths").random() < self.rare

    def nemesis(self, story: Story) -> Nemesis:
        """The nemesis of a run."""
        targeted_faults: list[str | Fault] = [partial(fault, story) for fault in self.targeted_faults]
        return Nemesis(
            story.world,
            [*self.faults, *targeted_faults],
            pause_s=self.pause_s,
            lasts_s=self.lasts_s,
            down_max=self.down_max,
        )
