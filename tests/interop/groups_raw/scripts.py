"""The list of scripts. A script runs once for each version of each API that it is registered for.

In each run that one API is asked in that version and all others in their newest, so that a script of several
APIs covers every version of each of them without trying every combination.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.wire import apis
from tests.interop.groups_raw.conversation import Talk

Script = Callable[[Talk], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One run of a script."""

    script: Script
    api: str
    version: int

    @property
    def label(self) -> str:
        return f"{self.script.__name__}-{self.api}-v{self.version}"


CASES: list[Case] = []
OTHER_CASES: list[Case] = []  # for brokers with other settings


def script(
    *asked: str,
    first: int = 0,
    last: int = 99,
    newest_only: bool = False,
    cases: list[Case] = CASES,
) -> Callable[[Script], Script]:
    """Registers a script for the versions of these APIs from `first` to `last`, or for the newest alone."""

    def register(run: Script) -> Script:
        for api in asked:
            known = apis.API_BY_NAME[api].stable_versions
            versions = [version for version in known if first <= version <= last]
            cases.extend(Case(run, api, version) for version in (versions[-1:] if newest_only else versions))
        return run

    return register
