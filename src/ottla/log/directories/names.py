"""The names of log directories: `topic-partition`, with a suffix if the log is deleted, stray or a copy.

`topic-partition.<unique>-delete` is to be removed, `...-stray` belongs to no topic of the cluster, and
`...-future` is a copy that is being moved from another log directory. The rule: a directory with any other
name is not a log, and is left untouched.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from ottla.log.checkpoints import Partition

METADATA_LOG = "__cluster_metadata-0"
NAME_LENGTH_MAX = 255
_PARTITION_MAX = 2**31 - 1
_NAME = re.compile(r"([^\s/]+)-([0-9]{1,10})")


class Kind(Enum):
    """What a directory is; the value is the suffix of its name."""

    CURRENT = ""
    DELETED = "-delete"
    FUTURE = "-future"
    STRAY = "-stray"


class NamedLog(NamedTuple):
    partition: Partition
    kind: Kind


def name_of(partition: Partition, kind: Kind = Kind.CURRENT, unique: str = "") -> str:
    """The directory name of a log; all but a current one contain `unique`, 32 hexadecimal digits.

    The topic in a -delete or -stray name is shortened to the limit of a file system.
    """
    topic, index = partition
    if kind is Kind.CURRENT:
        return f"{topic}-{index}"
    end = f"-{index}.{unique}{kind.value}"
    if kind is not Kind.FUTURE:
        topic = topic[: NAME_LENGTH_MAX - len(end)]
    return topic + end


def parse_name(name: str) -> NamedLog | None:
    """What a directory of this name is, or None if it is not the directory of a log."""
    kind = Kind.CURRENT
    for marked in (Kind.DELETED, Kind.FUTURE, Kind.STRAY):
        if name.endswith(marked.value):
            kind = marked
            name, dot, unique = name.removesuffix(marked.value).rpartition(".")
            if not dot or not unique:
                return None
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) > _PARTITION_MAX:
        return None
    return NamedLog((match[1], int(match[2])), kind)
