"""The interface of the cluster metadata and its controllers for the rest of a node.

`Quorum` if a controller runs on this node, `RemoteQuorum` on a broker without one.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import Any, TypeVar

from ottla.controller.image import ClusterImage
from ottla.controller.result import Decision
from ottla.raft.driver import Driver
from ottla.server.metadata.committed_metadata import Subscriber
from ottla.server.metadata.voter_changes import VoterChanges
from ottla.waiting.watch_list import WatchList
from ottla.wire.message import Message
from ottla.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

_T = TypeVar("_T")


class MetadataQuorum(ABC):
    """See the module."""

    cluster_id: str
    image: ClusterImage
    """The committed state, which changes in place."""
    driver: Driver[Message]
    failure: asyncio.Future[None]
    """Set when the metadata log failed: the node must stop."""
    progress: WatchList
    """Fetches of other replicas that wait for the log to grow."""
    voter_changes: VoterChanges | None
    """The voter changes, on a node with a controller and others."""

    @property
    @abstractmethod
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    @property
    @abstractmethod
    def leader_id(self) -> int:
        """The active controller, -1 if none is known."""

    @property
    @abstractmethod
    def is_remote(self) -> bool:
        """Whether the active controller is, or may be, on another node, so that requests are forwarded."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The epoch of the quorum."""

    @property
    @abstractmethod
    def kraft_version(self) -> int: ...

    @property
    @abstractmethod
    def finalized_features(self) -> dict[str, int]:
        """The levels that ApiVersions reports, kraft.version among them where it is not 0."""

    @abstractmethod
    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` after every later change of `image`."""

    @abstractmethod
    async def open(self) -> None:
        """Load the metadata log; from now on other replicas can be answered."""

    @abstractmethod
    async def join(self) -> None:
        """Take part in the quorum; return once `image` contains everything committed (a lone controller need
        not wait).
        """

    @abstractmethod
    async def leave(self) -> None:
        """Hand over the leadership before the node stops serving, while others can still ask this node."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def submit(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
        """Submit a decision to this node's controller; a KafkaError says why it is rejected.

        A decision whose turn does not come within `timeout_ms` is not made.
        """

    @abstractmethod
    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Send this node's request to the active controller, wherever it is. Errors are KafkaErrors."""

    @abstractmethod
    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        """Forward a client's request to the controller; return its response frame, without its size.

        ControllerIsHere: the active controller is on this node.
        """

    @abstractmethod
    def learn_address(self, node_id: int, host: str, port: int) -> None:
        """Store the leader's address from another controller's response."""

    @abstractmethod
    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse: ...

    @abstractmethod
    async def snapshot_now(self) -> None:
        """Write a snapshot of the committed state now, whatever the limits are."""
