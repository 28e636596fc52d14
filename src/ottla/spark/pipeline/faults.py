"""Faults of a pipeline file: where, what, and what to do. All of them are told at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing that is wrong, at its place."""

    mark: Mark
    message: str

    def at(self, file: str) -> str:
        return f"{file}:{self.mark.line}:{self.mark.column}: {self.message}"


class PipelineError(ValueError):
    """A pipeline cannot be run as it stands; one line for each fault."""

    def __init__(self, faults: Iterable[Fault], file: str) -> None:
        self.faults = sorted(set(faults))
        self.file = file
        super().__init__("\n".join(fault.at(file) for fault in self.faults))
