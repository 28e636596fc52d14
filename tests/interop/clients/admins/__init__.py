"""The admin clients of the libraries, with a common interface."""

from __future__ import annotations

from tests.interop.clients.admins.aio import AioAdmin
from tests.interop.clients.admins.confluent import ConfluentAdmin
from tests.interop.clients.admins.java import JavaAdmin
from tests.interop.clients.admins.python import PythonAdmin
from tests.interop.clients.admins.shape import Admin, Config, Outcome

ADMINS: tuple[type[Admin], ...] = (ConfluentAdmin, JavaAdmin, PythonAdmin, AioAdmin)

__all__ = ["ADMINS", "Admin", "AioAdmin", "Config", "ConfluentAdmin", "JavaAdmin", "Outcome", "PythonAdmin"]
