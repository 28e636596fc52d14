"""Connects tools to a cluster: `--bootstrap-server` or `--bootstrap-controller`, and `--command-config`."""

from __future__ import annotations

from ottla.client.admin import Admin
from ottla.client.config import AdminSettings
from ottla.operations.failure import Failure
from ottla.operations.text_files import read_text


def open_admin(
    *, servers: str | None = None, controllers: str | None = None, config: str | None = None
) -> Admin:
    """An admin client of the cluster; the given addresses override those in the file."""
    if servers is not None and controllers is not None:
        raise Failure("Specify either --bootstrap-server or --bootstrap-controller, not both.")
    overrides: dict[str, object] = {}
    if servers is not None:
        overrides["bootstrap.servers"] = servers
    if controllers is not None:
        overrides["bootstrap.controllers"] = controllers
    text = "" if config is None else read_text(config)
    return Admin(AdminSettings.from_properties(text, overrides, origin=config or "the command line"))
