"""The history of a run, as its clients and observers saw it: the checker's only input.

Values are unique: a value is sent once in a run, so each value leads back to its send. Each operation has one
of three outcomes: OK (it happened), FAILED (it certainly did not) or UNKNOWN (the response was lost, or the
client died first: it may have happened, or may still happen). The recorder uses FAILED only if nothing can
have reached a log. Times are seconds on the single clock of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[int, str]  # an offset and its value
SourcePlace: TypeAlias = tuple[str, int, int]  # topic, partition, offset


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record passed to a producer. `sends` of a history is in the order of the calls."""

    process: str  # one producer instance: a restarted one has a new name
    partition: Partition
    value: str
    outcome: Outcome
    began: float
    offset: int | None = None  # the acknowledged offset
    transaction: str | None = None
    source: SourcePlace | None = None  # the record it was derived from, in read-process-write
    idempotent: bool = True
    acks: int = -1  # -1 all in-sync replicas, 1 the leader, 0 none
    ended: float = inf  # time of the acknowledgment


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction: OK is committed, FAILED is aborted, UNKNOWN is either of them."""

    name: str
    process: str
    outcome: Outcome
    end_began: float  # time of the end request; infinity if there was none


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One poll's records of one partition: everything visible from `position` up to `next_position`."""

    process: str  # one consumer instance
    partition: Partition
    committed: bool  # isolation level read_committed
    position: int
    next_position: int
    records: tuple[Place, ...]
    ended: float
    jumped: bool = False  # after an assignment, a seek or a reset


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLog:
    """A partition read from its beginning after all faults were repaired, with both isolation levels."""

    partition: Partition
    start: int
    end: int
    records: tuple[Place, ...]
    committed: tuple[Place, ...]
    compacted: bool = False  # records below `end` may have been compacted
    expires: bool = False  # records before `start` may have been deleted
    has_one_replica: bool = False  # acks=1 is as strong as all


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """A node considered itself the leader of a partition in an epoch."""

    node: int
    partition: Partition
    epoch: int
    at: float
    is_preferred: bool = False  # the first replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A leader's high watermark and last stable offset at a point in time."""

    node: int
    partition: Partition
    epoch: int
    high: int
    stable: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """A leader's high watermark exceeded the log end of a replica in the controllers' ISR."""

    node: int
    partition: Partition
    epoch: int
    high: int
    replica: int
    replica_end: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """The final contents of a replica: (first offset, last offset, checksum) of each batch."""

    node: int
    partition: Partition
    high_watermark: int
    batches: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataLog:
    """A node's committed metadata: (offset, epoch, checksum) of each batch, and its image's checksum."""

    node: int
    entries: tuple[tuple[int, int, int], ...]
    applied_to: int
    image: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """A member received its assignment in a generation (or member epoch) of its group."""

    group: str
    member: str
    generation: int
    partitions: tuple[Partition, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The coordinator returned a group's generation."""

    group: str
    generation: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An offset committed to a group by a member that only moves forward from the committed one."""

    group: str
    partition: Partition
    offset: int
    outcome: Outcome
    ended: float
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A group's committed offset, as returned to a client. None if there was none."""

    group: str
    partition: Partition
    offset: int | None
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedSend:
    """A value written to a key of a table; None deletes the key."""

    process: str
    partition: Partition
    key: str
    value: str | None
    outcome: Outcome
    offset: int | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLog:
    """The final contents of a compacted partition: (offset, key, value), with both isolation levels."""

    partition: Partition
    records: tuple[tuple[int, str, str | None], ...]
    committed: tuple[tuple[int, str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A wait for something that was due at `began` and arrived at `ended`.

    It takes `steps` steps of a cluster without faults, and `patience_s` if a setting demands it.
    """

    kind: str
    process: str
    began: float
    ended: float
    steps: int
    patience_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A period without faults. A step (a request, its replication and its response) takes at most `step_s` by
    the delays of the network and the disks; infinity if something is slow."""

    began: float
    ended: float
    step_s: float


@dataclass(slots=True)
class History:
    """Everything recorded in a run."""

    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final: list[FinalLog] = field(default_factory=list)
    leads: list[Leads] = field(default_factory=list)
    led: list[Leads] = field(default_factory=list)  # the last time each was seen
    watermarks: list[Watermark] = field(default_factory=list)
    exposed: list[Exposed] = field(default_factory=list)
    replicas: list[ReplicaLog] = field(default_factory=list)
    metadata: list[MetadataLog] = field(default_factory=list)
    assigned: list[Assigned] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)
    committed: list[Committed] = field(default_factory=list)
    keyed: list[KeyedSend] = field(default_factory=list)
    tables: list[TableLog] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    quiet: list[Quiet] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A broken guarantee: its kind and the evidence."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def partition_text(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
