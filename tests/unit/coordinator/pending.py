"""Pending responses for tests of decisions."""

from __future__ import annotations

from typing import Any

from ottla.waiting.pending_response import PendingResponse


def recorded(responses: list[Any] | None = None) -> PendingResponse:
    """A request whose response, or error, ends up in a list."""
    pending = PendingResponse(lambda error: error)
    if responses is not None:
        pending.on_completed = lambda: responses.append(pending.response)
    return pending
