"""The metadata of the cluster and its controllers, as the rest of a node sees them: an interface.

`Quorum` where a controller runs on this node, `RemoteQuorum` on a broker that follows one elsewhere.
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
    """Where a controller runs that is not alone."""

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
        """Take part; back once `image` holds all that is committed (a controller alone need not wait)."""

    @abstractmethod
    async def leave(self) -> None:
        """Hand over, before the node stops serving, what others can only take while it still answers."""

    @abstractmethod
    async def stop(self) -> None: ...

    @abstractmethod
    async def submit(self, decision: Decision[_T], *, timeout_ms: int | None = None) -> _T:
        """Have this node's controller decide; a KafkaError says why it does not.

        A decision whose turn does not come within `timeout_ms` is not made.
        """

    @abstractmethod
    async def ask(self, request: Message, *, timeout_ms: int | None = None) -> Any:
        """Ask the active controller, wherever it is, in the name of this node. Errors are KafkaErrors."""

    @abstractmethod
    async def forward(self, frame: bytes, principal: str, client_host: str) -> bytes:
        """Have a controller elsewhere answer a client's request; the frame of its response, without its size.

        ControllerIsHere: it turns out to be on this node.
        """

    @abstractmethod
    def learn_address(self, node_id: int, host: str, port: int) -> None:
        """Another controller says where the leader is."""

    @abstractmethod
    def describe_quorum(self, request: DescribeQuorumRequest) -> DescribeQuorumResponse: ...

    @abstractmethod
    async def snapshot_now(self) -> None:
        """Write a snapshot of the committed state, whatever the limits say."""
