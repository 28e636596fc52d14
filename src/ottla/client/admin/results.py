"""The result of a call for many items: a mapping of item to result or error.

Rule: an error of one item never hides the results of others, and is never lost: callers that do not check
each item call `all()`, which raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar, overload

from ottla.wire.errors import KafkaError, for_code

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


def failure(code: int, message: str | None = None) -> KafkaError:
    """The exception of an error code in a response."""
    return for_code(code)(message)


def check(code: int, message: str | None = None) -> None:
    """Raise the exception of an error code, unless it is 0."""
    if code:
        raise failure(code, message)


class Results(Mapping[K, V_co | Exception], Generic[K, V_co]):
    """Item -> its result or its exception."""

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
        """Return the result of one item, or raise its error."""
        outcome = self._outcomes[item]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def all(self) -> dict[K, V_co]:
        """Return the results of all items, or raise the first error, with a note that names its item."""
        for item, outcome in self._outcomes.items():
            if isinstance(outcome, Exception):
                outcome.add_note(f"Raised for {item!s}; {len(self.failed)} of {len(self)} items failed.")
                raise outcome
        return self.succeeded

    @property
    def succeeded(self) -> dict[K, V_co]:
        """The items that succeeded."""
        return {
            item: outcome for item, outcome in self._outcomes.items() if not isinstance(outcome, Exception)
        }

    @property
    def failed(self) -> dict[K, Exception]:
        """The items that failed, with their errors."""
        return {item: outcome for item, outcome in self._outcomes.items() if isinstance(outcome, Exception)}


class Listed(Sequence[V_co], Generic[V_co]):
    """The merged listing of all brokers.

    Reading it raises the error of a broker that did not answer, since an incomplete list looks like a
    complete one. `found` contains what did arrive, `errors` the brokers that failed.
    """

    __slots__ = ("errors", "found")

    def __init__(self, found: Sequence[V_co], errors: Mapping[int, Exception]) -> None:
        self.found: tuple[V_co, ...] = tuple(found)
        self.errors: dict[int, Exception] = dict(errors)

    def all(self) -> tuple[V_co, ...]:
        """Return everything, or raise the first error."""
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
