"""Numbers of the protocol that have names."""

from __future__ import annotations

from enum import IntEnum
from typing import Self


class Code(IntEnum):
    """A code of the protocol. A code that this version does not know becomes UNKNOWN, which each kind has."""

    @classmethod
    def _missing_(cls, value: object) -> Self:
        return cls["UNKNOWN"]
