"""One implementation, two classes: the same operations, typed and documented, imported when needed."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest
from tests.unit.client.admin.support import run

from ottla.client import admin
from ottla.client.admin import Admin, AsyncAdmin, Operations, values
from ottla.client.admin.operation import Operation
from ottla.client.errors import Closed, ConfigError, TimedOut

OPERATIONS = sorted(name for name, value in vars(Operations).items() if isinstance(value, Operation))


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_found_documented_and_takes_a_timeout(name: str) -> None:
    function = getattr(Admin, name)

    assert inspect.iscoroutinefunction(function)
    assert function.__name__ == name
    assert function.__doc__
    assert inspect.signature(function).parameters["timeout_ms"].default is None


def test_every_coroutine_that_takes_an_engine_is_an_operation() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("ottla.client.admin.")]
    public = {
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.iscoroutinefunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
        and not module.__name__.endswith((".lookups", ".engine"))
    }

    assert public == set(OPERATIONS)


def test_every_public_value_is_imported_from_the_package() -> None:
    for name in values.__all__:
        assert getattr(admin, name) is getattr(values, name)
    with pytest.raises(AttributeError):
        _ = admin.nothing_of_this_name


def test_the_package_alone_imports_no_messages() -> None:
    code = (
        "import sys, ottla.client.admin; "
        "print([name for name in sys.modules if name.startswith(('ottla.wire', 'asyncio', 'dataclasses'))])"
    )
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert seen.stdout.strip() == "[]"


def test_settings_are_checked_when_the_admin_is_made() -> None:
    with pytest.raises(ConfigError, match=r"request\.timeout\.ms"):
        Admin("localhost:9092", request_timeout_msec=5)
    assert Admin({"bootstrap.servers": "localhost:9092", "retries": 3}).settings.retries == 3


def test_both_say_that_nobody_listens_and_refuse_work_when_closed() -> None:
    async def awaited() -> None:
        async with AsyncAdmin("127.0.0.1:1") as admin:
            with pytest.raises(TimedOut, match=r"127\.0\.0\.1:1 refused"):
                await admin.list_topics(timeout_ms=1500)
        with pytest.raises(Closed):
            await admin.list_topics()

    run(awaited())
    with Admin("127.0.0.1:1") as blocking, pytest.raises(TimedOut):
        blocking.list_topics(timeout_ms=50)
    with pytest.raises(Closed):
        blocking.list_topics()
    blocking.close()
