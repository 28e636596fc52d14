"""Faults of a pipeline file: where, what, and how to fix it. They are reported all together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file; line and column count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One error and its place in the file."""

    mark: Mark
    message: str

    def at(self, file: str) -> str:
        return f"{file}:{self.mark.line}:{self.mark.column}: {self.message}"


class PipelineError(ValueError):
    """A pipeline is invalid; the message has one line per fault."""

    def __init__(self, faults: Iterable[Fault], file: str) -> None:
        self.faults = sorted(set(faults))
        self.file = file
        super().__init__("\n".join(fault.at(file) for fault in self.faults))
