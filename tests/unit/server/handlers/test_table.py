"""The table of handlers: complete, in step with the modules, and cheap to import."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

from ottla.server import handlers
from ottla.server.handlers import FAST, HANDLERS, LATER, REFUSING

_HELPERS = {
    "__init__",
    "auto_create",
    "classic_fast_path",
    "common",
    "fetch_fast_path",
    "log_levels",
    "offset_commit_fast_path",
    "offset_common",
    "produce_fast_path",
    "produce_transactional",
    "quorum_requests",
    "transaction_common",
    "unexpected_errors",
}


def test_every_module_of_an_api_is_in_the_table_under_its_key() -> None:
    directory = Path(handlers.__file__).parent
    modules = {path.stem for path in directory.glob("*.py")} - _HELPERS
    in_table = {importlib.import_module(f"ottla.server.handlers.{name}").API.key for name in modules}
    assert in_table == {api.key for api in HANDLERS}
    for key, name in LATER.items():
        api = importlib.import_module(f"ottla.server.handlers.{name}").API
        assert api.key == key
        assert (api.refuse is not None) == (key in REFUSING)
        assert (api.fast_path is not None) == (key in FAST)


def test_every_handler_declares_which_parts_of_a_node_it_needs() -> None:
    directory = Path(handlers.__file__).parent
    for name in sorted({path.stem for path in directory.glob("*.py")} - _HELPERS):
        api = importlib.import_module(f"ottla.server.handlers.{name}").API
        for handle in filter(None, (api.handle, api.handle_at_controller, api.answer_unsupported)):
            first = next(iter(inspect.signature(handle).parameters.values()))
            assert first.name in ("parts", "_parts"), name
            assert first.annotation not in ("Broker", "Any", inspect.Parameter.empty), name


def test_no_api_is_in_the_table_twice() -> None:
    keys = [api.key for api in HANDLERS]
    assert len(keys) == len(set(keys))


def test_what_is_not_needed_at_start_is_not_imported_with_the_table() -> None:
    script = "import sys, ottla.server.handlers; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "ottla.server.handlers.metadata" in loaded
    assert not {f"ottla.server.handlers.{name}" for name in LATER.values()} & set(loaded)
