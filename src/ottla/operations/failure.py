"""The error that a command reports to its user."""

from __future__ import annotations


class Failure(Exception):
    """The command exits with code 1 and prints this message."""
