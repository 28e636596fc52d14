"""What a scenario is: a mix of faults, the settings under which they hurt, and who works meanwhile.

A fault that aims takes the story, too: it looks for the leader, the coordinator or the file that it wants to
hit. What it has done it counts (`Nemesis.did`); a scenario names the effects without which it was none.
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

Aimed: TypeAlias = Callable[["Story", Nemesis], Coroutine[Any, Any, None]]


class Part:
    """Topics, clients and a judgement that come on top of what every story has. One for each run."""

    def topics(self, story: Story) -> list[NewTopic]:
        """Topics of its own, whose records the story's own checks know nothing of."""
        return []

    def story_topics(self, story: Story) -> list[NewTopic]:
        """Topics of its own whose records are written and judged as all others."""
        return []

    def roles(self, story: Story) -> Mapping[str, Life]:
        """Clients by role."""
        return {}

    async def judge(self, story: Story, client: SimulatedClient) -> None:
        """Look at the end, when all is well again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`number` is that of the list of faults in docs/reliability.md. `roles` None: all."""

    name: str
    number: int
    text: str
    faults: tuple[str, ...] = ()
    aimed: tuple[Aimed, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    nodes: tuple[int, ...] = (3, 3, 4, 5)
    combined: float = 0.8
    """How often nodes are both broker and controller."""
    dynamic: bool = False
    disks: int = 1
    """How many each node has, with a log directory on each."""
    controllers: int | None = None
    roles: tuple[str, ...] | None = None
    parts: tuple[Callable[[], Part], ...] = ()
    kills: float = 0.7
    """How often clients die, too."""
    pause_s: tuple[float, float] = (1.0, 10.0)
    lasts_s: tuple[float, float] = (0.5, 20.0)
    down_max: int | None = None
    effects: tuple[str, ...] = ()
    complains: bool = False
    """Whether nodes rightly log errors."""
    waived: frozenset[str] = frozenset()
    """Kinds of anomalies that are none here: what the settings do not promise."""
    keeps_leaders: bool = False
    """Whether nobody may be elected while its faults last."""
    rare: float = 0.5
    """How often the rare paths of `ottla.rare_paths` are taken, too."""

    def add_nodes(self, world: World, settings: Mapping[str, str]) -> None:
        """The cluster of a run of it."""
        chance = world.chance
        world.add_nodes(
            chance.choice(self.nodes),
            controllers=self.controllers,
            combined=chance.random() < self.combined,
            dynamic=self.dynamic,
            disks=self.disks,
            settings={**settings, **self.settings},
        )

    def takes_rare_paths(self, seed: int) -> bool:
        return stream(seed, "takes rare paths").random() < self.rare

    def nemesis(self, story: Story) -> Nemesis:
        """Who breaks things in a run of it."""
        aimed: list[str | Fault] = [partial(fault, story) for fault in self.aimed]
        return Nemesis(
            story.world,
            [*self.faults, *aimed],
            pause_s=self.pause_s,
            lasts_s=self.lasts_s,
            down_max=self.down_max,
        )
