"""What happened in a run, as its clients and its observers saw it: the checker's only input.

Values are unique: one value is sent once in a run, so a value found anywhere leads back to its send.
Each operation ends in one of three ways: OK (it happened), FAILED (it surely did not) or UNKNOWN (the
answer was lost, or the client died first: it may have happened, and may still). Whoever records a history
says FAILED only where nothing can have reached a log. Times are seconds on the one clock of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from typing import TypeAlias

Partition: TypeAlias = tuple[str, int]
Place: TypeAlias = tuple[int, str]  # an offset and the value that stands there
SourcePlace: TypeAlias = tuple[str, int, int]  # topic, partition, offset


class Outcome(Enum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record given to a producer. The order of `sends` in a history is the order of the calls."""

    process: str  # one life of one producer: a restarted one has a new name
    partition: Partition
    value: str
    outcome: Outcome
    began: float
    offset: int | None = None  # where the acknowledgement said it stands
    transaction: str | None = None
    source: SourcePlace | None = None  # the record that this one was made of, in a read-process-write run
    idempotent: bool = True
    acks: int = -1  # what the producer waits for: -1 all in-sync replicas, 1 the leader, 0 nobody
    ended: float = inf  # when it was acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transaction: OK is committed, FAILED is aborted, UNKNOWN may be either, but never half."""

    name: str
    process: str
    outcome: Outcome
    end_began: float  # when its end was asked for; infinity if it never was


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One poll's records of one partition: everything visible from `position` up to `next_position`."""

    process: str  # one life of one consumer
    partition: Partition
    committed: bool  # isolation level read_committed
    position: int
    next_position: int
    records: tuple[Place, ...]
    ended: float
    jumped: bool = False  # the position was set anew before it: an assignment, a seek, a reset


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalLog:
    """A partition read from its beginning when all was healed, with both isolation levels."""

    partition: Partition
    start: int
    end: int
    records: tuple[Place, ...]
    committed: tuple[Place, ...]
    compacted: bool = False  # records below `end` may be gone without having been lost
    expires: bool = False  # records before `start` may be: the topic keeps them for a while only
    has_one_replica: bool = False  # acks=1 is as good as all


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """A node held itself for the leader of a partition in an epoch."""

    node: int
    partition: Partition
    epoch: int
    at: float
    is_preferred: bool = False  # the first of its replicas, which is elected where it does not lead


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """A leader's high watermark and last stable offset, as read off it at a time."""

    node: int
    partition: Partition
    epoch: int
    high: int
    stable: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """A leader's high watermark lay above the end of a replica that the controllers count as in sync."""

    node: int
    partition: Partition
    epoch: int
    high: int
    replica: int
    replica_end: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLog:
    """What a replica holds at the end: (first offset, last offset, checksum) of each batch."""

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
    """A member was told what it owns in a generation (or member epoch) of its group."""

    group: str
    member: str
    generation: int
    partitions: tuple[Partition, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """The coordinator told a group's generation to somebody."""

    group: str
    generation: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A position committed to a group, by a member that only ever moves forward from what is committed."""

    group: str
    partition: Partition
    offset: int
    outcome: Outcome
    ended: float
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A group's committed position, as somebody asked for it. None: there is none."""

    group: str
    partition: Partition
    offset: int | None
    began: float
    ended: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedSend:
    """A value given to a key of a table; None deletes the key."""

    process: str
    partition: Partition
    key: str
    value: str | None
    outcome: Outcome
    offset: int | None = None
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLog:
    """A partition of a compacted topic in the end: (offset, key, value), with both isolation levels."""

    partition: Partition
    records: tuple[tuple[int, str, str | None], ...]
    committed: tuple[tuple[int, str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Somebody waited for something whose condition was met at `began`, and had it at `ended`.

    It takes `steps` steps of a cluster in which nothing is broken, and `patience_s` where a setting says so.
    """

    kind: str
    process: str
    began: float
    ended: float
    steps: int
    patience_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiet:
    """A stretch of time in which nothing was broken. A step (a request, its replication and its answer) takes
    at most `step_s` by the delays of the network and the disks; infinity where something is slow."""

    began: float
    ended: float
    step_s: float


@dataclass(slots=True)
class History:
    """Everything that was recorded in a run."""

    sends: list[Send] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    final: list[FinalLog] = field(default_factory=list)
    leads: list[Leads] = field(default_factory=list)
    led: list[Leads] = field(default_factory=list)  # the same, when it was seen last
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
    """A promise that the run broke: which kind, and what was seen."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def partition_text(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"
