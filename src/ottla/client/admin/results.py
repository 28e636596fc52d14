"""What a call for many items gives back: a mapping of item to result or error.

Rule: an error of one item never hides the results of the others, and is never lost: who does not look at
each item calls `all()`, which raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from ottla.wire.errors import KafkaError, for_code

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


def failure(code: int, message: str | None = None) -> KafkaError:
    """The exception of an error code in an answer."""
    return for_code(code)(message)


def check(code: int, message: str | None = None) -> None:
    """Raise what an error code stands for, if it stands for one."""
    if code:
        raise failure(code, message)


class Results(Mapping[K, V_co | Exception], Generic[K, V_co]):
    """Item -> its result, or the exception that it met."""

    __slots__ = ("_outcomes",)

    def __init__(self, outcomes: Mapping[K, V_co | Exception]) -> None:
        self._outcomes = dict(outcomes)

    def __getitem__(self, item: K) -> V_co | Exception:
        return self._outcomes[item]

    def __iter__(self) -> Iterator[K]:
        return iter(self._outcomes)

    def __len__(self) -> int:
        return len(self._outcomes)

    def __repr__(self) -> str:
        return f"Results({self._outcomes!r})"

    def result(self, item: K) -> V_co:
        """The result of one item; its error is raised."""
        outcome = self._outcomes[item]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def all(self) -> dict[K, V_co]:
        """The results of all items; the first error is raised, with a note that says whose it is."""
        for item, outcome in self._outcomes.items():
            if isinstance(outcome, Exception):
                outcome.add_note(f"Raised for {item!s}; {len(self.failed)} of {len(self)} items failed.")
                raise outcome
        return self.succeeded

    @property
    def succeeded(self) -> dict[K, V_co]:
        """The items that went well."""
        return {
            item: outcome for item, outcome in self._outcomes.items() if not isinstance(outcome, Exception)
        }

    @property
    def failed(self) -> dict[K, Exception]:
        """The items that did not, and why."""
        return {item: outcome for item, outcome in self._outcomes.items() if isinstance(outcome, Exception)}


class Listed(Sequence[V_co], Generic[V_co]):
    """What all brokers together listed.

    Looking at it raises the error of a broker that did not answer: a list with a hole looks like a whole one.
    `found` is what came all the same, `errors` who failed.
    """

    __slots__ = ("errors", "found")

    def __init__(self, found: Sequence[V_co], errors: Mapping[int, Exception]) -> None:
        self.found: tuple[V_co, ...] = tuple(found)
        self.errors: dict[int, Exception] = dict(errors)

    def all(self) -> tuple[V_co, ...]:
        """Everything, or the first error."""
        for broker, error in self.errors.items():
            error.add_note(f"Raised for broker {broker}.")
            raise error
        return self.found

    @overload
    def __getitem__(self, index: int) -> V_co: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[V_co]: ...

    def __getitem__(self, index: int | slice) -> Any:
        return self.all()[index]

    def __len__(self) -> int:
        return len(self.all())

    def __repr__(self) -> str:
        return f"Listed({self.found!r}, errors={self.errors!r})"
