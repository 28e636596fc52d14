"""What the two group protocols have in common for the engine that drives them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ottla.client.values import TopicPartition
from ottla.wire.message import Message

if TYPE_CHECKING:
    from ottla.client.core.metadata import ClusterView


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """What a member sends to its coordinator about itself."""

    group_id: str
    instance_id: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    rack: str | None = None
    server_assignor: str | None = None


class Change(Enum):
    """What happened to partitions in a rebalance."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Send:
    """A request to the coordinator; its answer goes to `answered`; `unanswered` is called if none came."""

    kind: str
    request: Message
    timeout_ms: int
    generation: int  # the member's when it was made: an answer of another time is not taken


@dataclass(frozen=True, slots=True)
class Notify:
    """The user must be notified of a change before the member goes on: `notified` is called after that."""

    change: Change
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Metadata that the member needs: `metadata_arrived` brings it. None: names of topics known by id."""

    topics: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Fail:
    """An error that the user must see: the next poll raises it. The member may go on all the same."""

    error: Exception


Effect: TypeAlias = Send | Notify | RefreshMetadata | Fail


class Membership(Protocol):
    """One member. Times are milliseconds of a clock that never goes back."""

    member_id: str
    generation: int  # the member epoch in the consumer protocol; -1 or 0 outside the group
    owned: frozenset[TopicPartition]

    @property
    def is_stable(self) -> bool:
        """Whether the group has nothing more to ask of this member for now."""

    @property
    def is_outside(self) -> bool:
        """Whether the group goes on without this member: what it owns others may have already."""

    @property
    def is_over(self) -> bool:
        """Whether it has left, or failed: it does nothing more."""

    @property
    def identity(self) -> tuple[int, str]:
        """(generation, member id) for the user's transactions.

        They are the last ones under which the user owned its partitions, also after the group went on
        without this member: the coordinator fences them then (KIP-447), where it would take (-1, "") for a
        consumer without a group. (-1, "") before the first assignment.
        """

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None: ...

    def effects(self, now_ms: int) -> list[Effect]:
        """What to do now. Each effect is given out once."""

    def wake_at_ms(self) -> int | None:
        """When `effects` has something new at the latest, if nothing else happens."""

    def answered(self, sent: Send, answer: Any, now_ms: int) -> None: ...

    def unanswered(self, sent: Send, now_ms: int) -> None:
        """The connection was lost, the time was over, or another node is the coordinator."""

    def notifying(self, notice: Notify) -> None:
        """The user is notified now."""

    def notified(self, notice: Notify) -> None:
        """The user was notified."""

    def withdraw(self, notice: Notify) -> None:
        """The notice is withdrawn before the user was notified, since all that is owned is lost by now."""

    def metadata_arrived(self, view: ClusterView, now_ms: int) -> None: ...

    def view_changed(self, view: ClusterView) -> None: ...

    def expire(self, now_ms: int) -> None:
        """The user has not polled for too long: leave, and come back when it does."""

    def polled(self) -> None: ...

    def rejoin(self, reason: str) -> None:
        """Ask the group for another rebalance, where the protocol has that."""

    def leave(self, *, remain: bool | None = None) -> tuple[Notify | None, Send | None]:
        """The last notice to the user, and the request to send after it. The machine does nothing more."""
