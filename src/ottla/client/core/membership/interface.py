"""The interface of both group protocols for the engine that drives them."""

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
    """The change of partitions in a rebalance."""

    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Send:
    """A request to the coordinator; `answered` gets its response; `unanswered` is called without one."""

    kind: str
    request: Message
    timeout_ms: int
    generation: int  # the member's when it was made: an answer of another time is not taken


@dataclass(frozen=True, slots=True)
class Notify:
    """The user must be notified of a change before the member continues: `notified` is called after that."""

    change: Change
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class RefreshMetadata:
    """Metadata that the member needs; `metadata_arrived` delivers it. None: names of topics known by id."""

    topics: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Fail:
    """An error for the user: the next poll raises it. The member may continue."""

    error: Exception


Effect: TypeAlias = Send | Notify | RefreshMetadata | Fail


class Membership(Protocol):
    """One member. Times are milliseconds of a clock that never goes back."""

    member_id: str
    generation: int  # the member epoch in the consumer protocol; -1 or 0 outside the group
    owned: frozenset[TopicPartition]

    @property
    def is_stable(self) -> bool:
        """Whether the group needs nothing more from this member for now."""

    @property
    def is_outside(self) -> bool:
        """Whether the group continues without this member: others may already own its partitions."""

    @property
    def is_over(self) -> bool:
        """Whether it has left, or failed, for good."""

    @property
    def identity(self) -> tuple[int, str]:
        """(generation, member id) for the user's transactions.

        They are the last ones under which the user owned its partitions, even after the group continued
        without this member: the coordinator then fences them (KIP-447), whereas it would accept (-1, "") as a
        consumer without a group. (-1, "") before the first assignment.
        """

    def subscribe(self, topics: Collection[str], pattern: str | None = None) -> None: ...

    def effects(self, now_ms: int) -> list[Effect]:
        """The effects to carry out now. Each effect is returned once."""

    def wake_at_ms(self) -> int | None:
        """When to call `effects` again at the latest, if nothing else happens."""

    def answered(self, sent: Send, answer: Any, now_ms: int) -> None: ...

    def unanswered(self, sent: Send, now_ms: int) -> None:
        """The connection was lost, the request timed out, or another node is the coordinator."""

    def notifying(self, notice: Notify) -> None:
        """The user is being notified."""

    def notified(self, notice: Notify) -> None:
        """The user has been notified."""

    def withdraw(self, notice: Notify) -> None:
        """Withdraw the notice before the user sees it, since everything owned is lost by now."""

    def metadata_arrived(self, view: ClusterView, now_ms: int) -> None: ...

    def view_changed(self, view: ClusterView) -> None: ...

    def expire(self, now_ms: int) -> None:
        """The user has not polled for too long: leave, and rejoin when it does."""

    def polled(self) -> None: ...

    def rejoin(self, reason: str) -> None:
        """Ask the group for another rebalance, if the protocol supports that."""

    def leave(self, *, remain: bool | None = None) -> tuple[Notify | None, Send | None]:
        """Return the last notice for the user, and the request to send after it. The machine then stops."""
