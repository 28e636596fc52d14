"""Matches regular expressions against topic names in linear time, without backtracking.

`syntax.py` parses the text. This module compiles the tree into a small program (an NFA), and simulates all
paths of a name at once: a state is the set of places that the paths have reached. States and transitions are
created when a name first needs them and cached (a lazy DFA), so that most characters of most names cost one
dictionary lookup.

Rule: everything is bounded, whatever a client sends: the program by `_SIZE_MAX` (repetitions count as often
as they repeat) and the cache by `_KEPT_MAX`. A transition costs at most one visit per instruction, and
`select` yields in the middle of a long one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Final

from ottla.coordinator.groups.regex.syntax import (
    WORD,
    Assertion,
    Choice,
    InvalidExpression,
    Node,
    Repeat,
    Sequence,
    parse,
)

__all__ = ["InvalidExpression", "Pattern", "compile"]

_SIZE_MAX: Final = 40_000
_KEPT_MAX: Final = 200_000  # places in states, and steps between them
_STEP: Final = 1000  # places visited between two yields

_NOWHERE: Final[frozenset[int]] = frozenset()
_END: Final = -1  # the place of a way that has matched

# What may stand before or after a place, as far as assertions ask.
_OTHER: Final = 0
_WORD: Final = 1
_NEWLINE: Final = 2
_TEXT_START: Final = 3
_TEXT_END: Final = 4


def compile(text: str) -> Pattern:
    """Compile; raises InvalidExpression if Kafka rejects the text, or if the program would be too large."""
    return Pattern(text, _Program(parse(text)))


_Task = Callable[[list[int]], None]
"""A pending task while a program is built."""


class _Program:
    """Instructions by number. Exactly one of the three lists has an entry for each.

    `sets`: continue at `nexts` with one character of this set; `assertions`: continue at `nexts` if it holds
    here; `splits`: continue at each of these.
    """

    def __init__(self, tree: Node) -> None:
        self.sets: list[int | None] = []
        self.assertions: list[Assertion | None] = []
        self.splits: list[tuple[int, ...]] = []
        self.nexts: list[int] = []
        self.start = self._build(tree)
        self.has_assertions = any(assertion is not None for assertion in self.assertions)

    def _emit(
        self,
        following: int = _END,
        characters: int | None = None,
        assertion: Assertion | None = None,
        split: tuple[int, ...] = (),
    ) -> int:
        self.sets.append(characters)
        self.assertions.append(assertion)
        self.splits.append(split)
        self.nexts.append(following)
        return len(self.sets) - 1

    def _build(self, tree: Node) -> int:
        """Build from the end to the beginning: the top of `places` is where the next part continues.

        A list of tasks instead of recursion, since groups may be nested deeply.
        """
        places = [_END]
        todo: list[Node | _Task] = [tree]
        work_left = 4 * _SIZE_MAX
        while todo:
            item = todo.pop()
            work_left -= 1
            if work_left < 0 or len(self.sets) > _SIZE_MAX:
                raise InvalidExpression("it is too large after its repetitions are expanded")
            if isinstance(item, int):
                places[-1] = self._emit(places[-1], item)
            elif isinstance(item, Assertion):
                places[-1] = self._emit(places[-1], assertion=item)
            elif isinstance(item, Sequence):
                todo += item.parts
            elif isinstance(item, Choice):
                following = places.pop()
                todo.append(partial(self._join, len(item.parts)))
                for part in item.parts:
                    todo += (part, partial(_push, following))
            elif isinstance(item, Repeat):
                work_left -= item.least + (item.most or 0)
                self._repeat(item, places, todo)
            else:
                item(places)
        return places.pop()

    def _repeat(self, item: Repeat, places: list[int], todo: list[Node | _Task]) -> None:
        """`x{2,4}` is xx(x(x)?)?, and `x{2,}` is xxx*. The required copies are built last."""
        todo += [item.part] * item.least
        following = places[-1]
        if item.most is None:
            places[-1] = loop = self._emit()
            todo += (partial(self._loop, loop, following), item.part)
        else:
            todo += [partial(self._option, following), item.part] * (item.most - item.least)

    def _join(self, count: int, places: list[int]) -> None:
        """Join the last built alternatives."""
        choices = tuple(places[-count:])
        del places[-count:]
        places.append(self._emit(split=choices))

    def _option(self, following: int, places: list[int]) -> None:
        """Make the last built part optional."""
        places[-1] = self._emit(split=(places[-1], following))

    def _loop(self, loop: int, following: int, places: list[int]) -> None:
        """Let the last built part continue at `loop`, which repeats or leaves it."""
        self.splits[loop] = (places[-1], following)
        places[-1] = loop


def _push(place: int, places: list[int]) -> None:
    places.append(place)


_Ways = dict[int, list[int]]
"""Set of characters -> where to continue with one of them."""


class _State:
    """The places that the paths of a name have reached after a character, before assertions."""

    __slots__ = ("before", "is_match", "places", "steps", "ways")

    def __init__(self, places: frozenset[int], before: int) -> None:
        self.places = places
        self.before = before  # what kind of character came before
        self.steps: dict[str, _State] = {}
        self.ways: dict[int, _Ways] = {}  # by the kind of the next character
        self.is_match: bool | None = None  # if the name ends here; None: not looked at yet


class Pattern:
    """A compiled expression."""

    __slots__ = ("_kept", "_program", "_start", "_states", "_work", "text")

    def __init__(self, text: str, program: _Program) -> None:
        self.text = text
        self._program = program
        self._work = 0
        self._forget()

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

    def matches(self, name: str) -> bool:
        """Whether all of this topic name matches. A name that is not ASCII never does: no topic has one."""
        steps = self.select((name,))
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def select(self, names: Iterable[str]) -> Generator[None, None, list[str]]:
        """The matching names, in order; yields after about a millisecond of work."""
        selected = []
        for name in names:
            state = self._start
            for character in name:
                following = state.steps.get(character)
                if following is None:
                    following = yield from self._step(state, character)
                    if self._work >= _STEP:
                        self._work = 0
                        yield
                state = following
                if not state.places:
                    break
            if state.is_match is None:
                yield from self._resolve(state, _TEXT_END)
            if state.is_match:
                selected.append(name)
            self._work += 1 + len(name) // 4
            if self._work >= _STEP:
                self._work = 0
                yield
        return selected

    def _forget(self) -> None:
        self._states: dict[tuple[frozenset[int], int], _State] = {}
        self._kept = 0
        self._start = self._state(frozenset((self._program.start,)), _TEXT_START)

    def _state(self, places: frozenset[int], before: int) -> _State:
        key = (places, before if self._program.has_assertions else _OTHER)
        state = self._states.get(key)
        if state is None:
            if self._kept > _KEPT_MAX:
                self._forget()
            state = self._states[key] = _State(*key)
            self._kept += 1 + len(places)
        return state

    def _step(self, state: _State, character: str) -> Generator[None, None, _State]:
        """The transition of a state with one more character."""
        rune = ord(character)
        kind = _kind(rune)
        ways = state.ways.get(kind)
        if ways is None:
            ways = yield from self._resolve(state, kind)
        places = _NOWHERE.union(*(nexts for characters, nexts in ways.items() if characters >> rune & 1))
        self._work += len(ways) + len(places) // 4
        self._kept += 1
        following = state.steps[character] = self._state(places, kind)
        return following

    def _resolve(self, state: _State, kind: int) -> Generator[None, None, _Ways]:
        """The transitions of a state if a character of this kind follows; at the end, whether it matches."""
        program = self._program
        ways: _Ways = {}
        is_match = False
        todo = list(state.places)
        seen = set(todo)
        visited = 0
        while todo:
            place = todo.pop()
            visited += 1
            if visited >= _STEP:
                visited = 0
                yield
            if place == _END:
                is_match = True
                continue
            characters = program.sets[place]
            assertion = program.assertions[place]
            if characters is not None:
                ways.setdefault(characters, []).append(program.nexts[place])
            elif assertion is None:
                fresh = [target for target in program.splits[place] if target not in seen]
                todo += fresh
                seen.update(fresh)
            elif _holds(assertion, state.before, kind) and program.nexts[place] not in seen:
                todo.append(program.nexts[place])
                seen.add(program.nexts[place])
        self._work += visited
        if kind == _TEXT_END:
            state.is_match = is_match
        else:
            state.ways[kind] = ways
            self._kept += len(seen)
        return ways


def _kind(rune: int) -> int:
    if rune >= 128:
        return _OTHER
    return _WORD if WORD >> rune & 1 else _NEWLINE if rune == 10 else _OTHER


def _holds(assertion: Assertion, before: int, after: int) -> bool:
    match assertion:
        case Assertion.TEXT_START:
            return before == _TEXT_START
        case Assertion.TEXT_END:
            return after == _TEXT_END
        case Assertion.LINE_START:
            return before in (_TEXT_START, _NEWLINE)
        case Assertion.LINE_END:
            return after in (_TEXT_END, _NEWLINE)
        case Assertion.WORD_EDGE:
            return (before == _WORD) != (after == _WORD)
        case Assertion.NO_WORD_EDGE:
            return (before == _WORD) == (after == _WORD)
