"""The failure that a command reports to its user."""

from __future__ import annotations


class Failure(Exception):
    """The command ends with exit code 1 and this sentence."""
