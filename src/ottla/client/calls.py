"""Makes a call that is written once a method of two classes, one blocking and one asyncio.

Both classes have a core as their member `_core`. A call is a coroutine function of the core, and a `Call` in
the list of calls that both classes share. Everything that waits in it goes through the core's `LoopAccess`.
On the loop of the engine (`OnLoop`) that is a normal `await`. In another thread (`FromThread`) it blocks
within the `await`, so the coroutine never suspends, and `complete` runs it in the user's thread in one step:
exceptions, including Ctrl-C, are raised in it as in a plain function.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import getattr_static, isawaitable
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, TypeVarTuple, overload

from ottla.client.errors import TimedOut
from ottla.client.net.background import Background

P = ParamSpec("P")
R = TypeVar("R")
_Ts = TypeVarTuple("_Ts")


class LoopAccess(Protocol):
    """How a call reaches the engine's event loop, and waits for it."""

    def soon(self, function: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        """Schedule a function on the loop, without waiting for it."""

    async def call(self, function: Callable[[*_Ts], R], *arguments: *_Ts) -> R:
        """Call a function on the loop, after everything passed to `soon` before."""
        raise NotImplementedError

    async def run(
        self, work: Coroutine[Any, Any, R], seconds: float | None = None, failure: str | None = None
    ) -> R:
        """Run a coroutine on the loop for at most `seconds`; `failure` starts TimedOut's message."""
        raise NotImplementedError

    async def let_others_run(self) -> None:
        """Yield to the other tasks of the loop, if the call is a task itself."""

    async def result_of(self, returned: object) -> Any:
        """Return the result of a user's function, which may be a coroutine function with asyncio."""


class OnLoop:
    """For calls of a task that runs on the engine's loop."""

    def soon(self, function: Callable[[*_Ts], object], *arguments: *_Ts) -> None:
        function(*arguments)

    async def call(self, function: Callable[[*_Ts], R], *arguments: *_Ts) -> R:
        return function(*arguments)

    async def run(
        self, work: Coroutine[Any, Any, R], seconds: float | None = None, failure: str | None = None
    ) -> R:
        if seconds is None:
            return await work
        try:
            async with asyncio.timeout(seconds):
                return await work
        except TimeoutError as error:
            raise TimedOut(f"{failure} within {seconds:g} s.") from error

    async def let_others_run(self) -> None:
        await asyncio.sleep(0)

    async def result_of(self, returned: object) -> Any:
        return await returned if isawaitable(returned) else returned


class FromThread:
    """For calls of a user's thread; the engine's loop runs in the background."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self.soon = background.soon

    async def call(self, function: Callable[[*_Ts], R], *arguments: *_Ts) -> R:
        async def call() -> R:
            return function(*arguments)

        return self._background.run(call())

    async def run(
        self, work: Coroutine[Any, Any, R], seconds: float | None = None, failure: str | None = None
    ) -> R:
        return self._background.run(work, seconds, failure)

    async def let_others_run(self) -> None:
        return

    async def result_of(self, returned: object) -> Any:
        return returned


def complete(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that blocks instead of suspending, and return its result."""
    try:
        work.send(None)
    except StopIteration as end:
        result: R = end.value
        return result
    work.close()
    raise RuntimeError(f"{work} suspended, but a blocking call cannot wait for it.")


class BlockingCalls:
    """A class whose shared calls block."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _bind_calls(cls, _blocking)


class AwaitedCalls:
    """A class whose shared calls are coroutine functions."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _bind_calls(cls, _awaited)


class Call(Generic[P, R]):
    """A call in the list that two classes share. `_bind_calls` replaces it by a method."""

    __slots__ = ("function",)

    def __init__(self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self.function = function

    @overload
    def __get__(self, user: BlockingCalls, owner: type | None = None) -> Callable[P, R]: ...

    @overload
    def __get__(
        self, user: AwaitedCalls, owner: type | None = None
    ) -> Callable[P, Coroutine[Any, Any, R]]: ...

    @overload
    def __get__(self, user: None, owner: type[BlockingCalls]) -> Callable[Concatenate[Any, P], R]: ...

    @overload
    def __get__(
        self, user: None, owner: type[AwaitedCalls]
    ) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]: ...

    def __get__(self, user: Any, owner: Any = None) -> Any:
        return self


def _bind_calls(cls: type, method_of: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Give a class a method for each `Call` that it inherits."""
    for name in dir(cls):
        call = getattr_static(cls, name)
        if isinstance(call, Call):
            method = method_of(call.function)
            method.__qualname__ = f"{cls.__qualname__}.{name}"
            method.__module__ = cls.__module__
            setattr(cls, name, method)


def _blocking(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return complete(function(self._core, *arguments, **keywords))

    return method


def _awaited(function: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    async def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return await function(self._core, *arguments, **keywords)

    return method
