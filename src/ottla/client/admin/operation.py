"""How one implementation becomes two classes: `AsyncAdmin` awaits, `Admin` waits.

An operation is a coroutine function that takes the engine first. The descriptor binds it to an admin: the
asynchronous one gives the coroutine, the blocking one has it run and gives its result. The types follow.
Modules of operations are imported when one of theirs is first used: who lists topics does not pay for ACLs.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

if TYPE_CHECKING:
    from ottla.client.admin import Admin, AsyncAdmin
    from ottla.client.admin.engine import Engine

P = ParamSpec("P")
R = TypeVar("R")


class Later:
    """A module that is imported when something of it is asked for."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


class Operation(Generic[P, R]):
    """A method of both classes. Asked of a class, it is the function itself, with its documentation."""

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], Callable[Concatenate[Engine, P], Coroutine[Any, Any, R]]]) -> None:
        self._find = find

    @overload
    def __get__(self, admin: Admin, owner: type | None = None) -> Callable[P, R]: ...

    @overload
    def __get__(
        self, admin: AsyncAdmin, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    @overload
    def __get__(
        self, admin: None, owner: type | None = None
    ) -> Callable[Concatenate[Engine, P], Coroutine[Any, Any, R]]: ...

    def __get__(self, admin: Any, owner: type | None = None) -> Any:
        function = self._find()
        if admin is None:
            return function

        def bound(*arguments: P.args, **keywords: P.kwargs) -> Any:
            return admin._perform(lambda engine: function(engine, *arguments, **keywords))

        bound.__name__ = bound.__qualname__ = function.__name__
        bound.__doc__ = function.__doc__
        return bound
