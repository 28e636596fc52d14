"""A PostgreSQL server for a test, in a directory of its own, ended by its process's id."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.interop import peers


def _program(name: str) -> str:
    places = [shutil.which(name), *map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))]
    found = next((place for place in places if place), None)
    return found or peers.peer_missing(f"{name} is missing: install postgresql")


def _owner() -> dict[str, Any]:
    """The server refuses to run as root: then it runs as somebody who may do nothing else."""
    if os.geteuid() != 0:
        return {}
    users = {found.pw_name: found for found in pwd.getpwall()}
    found = users.get("postgres") or users.get("nobody")
    if found is None:
        peers.peer_missing("PostgreSQL does not run as root, and there is no user postgres or nobody")
    return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The connection text of a fresh server."""
    owner = _owner()
    with tempfile.TemporaryDirectory(prefix="ottla-postgres-", ignore_cleanup_errors=True) as directory:
        data = Path(directory)
        if owner:
            os.chown(data, owner["user"], owner["group"])
        command = [
            _program("initdb"),
            "-D",
            directory,
            "-U",
            "ottla",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
        ]
        made = subprocess.run(command, capture_output=True, text=True, check=False, cwd=data, **owner)
        assert made.returncode == 0, f"initdb failed:\n{made.stdout}{made.stderr}"
        port = peers.free_port()
        command = [_program("postgres"), "-D", directory, "-h", "127.0.0.1", "-p", str(port), "-k", directory]
        with open(data / "server.log", "wb") as log:
            server = peers.start_process(command, stdout=log, stderr=subprocess.STDOUT, cwd=data, **owner)
        try:
            text = f"host=127.0.0.1 port={port} user=ottla dbname=postgres"
            peers.wait_until(lambda: _answers(text, server, data / "server.log"), 60, "PostgreSQL to answer")
            yield text
        finally:
            peers.end_process(server)


def _answers(text: str, server: subprocess.Popen[bytes], log: Path) -> bool:
    import psycopg

    assert server.poll() is None, f"PostgreSQL has ended:\n{log.read_text(errors='replace')}"
    try:
        psycopg.connect(text, connect_timeout=5).close()
    except psycopg.OperationalError:
        return False
    return True
