"""Makes one function a method of two classes: `AsyncAdmin` awaits it, `Admin` blocks.

An operation is a coroutine function whose first argument is the engine. The descriptor binds it to an admin:
the asyncio class returns the coroutine, the blocking one runs it and returns its result. The types follow.
Modules of operations are imported on the first use of one of their operations: a program that lists topics
does not load the ACL module.
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
    """A module that is imported on first use."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._name), name)


class Operation(Generic[P, R]):
    """A method of both classes. On the class itself it is the documented function."""

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
