"""The list of questions. A question runs once for each version of its API that a broker offers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ottla.wire import apis
from tests.interop.clients.same.session import Question


@dataclass(frozen=True, slots=True)
class Case:
    api: str
    question: Question
    version: int

    @property
    def label(self) -> str:
        return f"{self.api}-{self.question.__name__}-v{self.version}"


CASES: list[Case] = []


def asks(api: str, *, first: int | None = None, only_latest: bool = False) -> Callable[[Question], Question]:
    """Registers a question about `api`, for the versions from `first` on or for the latest alone."""
    versions: Iterable[int] = apis.API_BY_NAME[api].stable_versions
    if first is not None:
        versions = [version for version in versions if version >= first]
    if only_latest:
        versions = [max(versions)]

    def register(question: Question) -> Question:
        CASES.extend(Case(api, question, version) for version in versions)
        return question

    return register
