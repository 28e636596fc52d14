"""What the handlers see of a node: its parts, by name. Wiring is in node.py; rules are in the parts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.server.partitions import Partitions

if TYPE_CHECKING:
    from ottla.config import BrokerConfig
    from ottla.controller.image import ClusterImage
    from ottla.log.directories import LogDirectories
    from ottla.ports import Clock, Disk, Random
    from ottla.server.committed import CommittedMetadata
    from ottla.server.dispatch import Dispatcher
    from ottla.server.fetch_sessions import FetchSessions
    from ottla.server.producer_ids import ProducerIds


@dataclass(slots=True, kw_only=True)
class Broker:
    """One node's parts.

    `image` is the committed state of the cluster: it only changes by replay of committed records.
    `quorum` takes decisions to the metadata log. `config` is replaced when dynamic settings change.
    """

    node_id: int
    cluster_id: str
    config: BrokerConfig
    clock: Clock
    random: Random
    disk: Disk
    image: ClusterImage
    quorum: CommittedMetadata
    directories: LogDirectories
    fetch_sessions: FetchSessions
    producer_ids: ProducerIds
    partitions: Partitions = field(default_factory=Partitions)
    api_keys: list[int] = field(
        default_factory=list
    )  # of the listener kind "broker"; set once the table is made
    dispatchers: dict[str, Dispatcher] = field(default_factory=dict)  # by listener, for embedded requests
