"""A write that waits until its partitions are verified."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.server.coordinators.transaction_verification import Guards, Refusals, answer_when_verified
from ottla.waiting.pending_response import PendingResponse


class _Verification:
    def __init__(self) -> None:
        self.verified = PendingResponse()

    def check(self, _writing: object) -> PendingResponse:
        return self.verified


def _answer(verification: _Verification, write: Any) -> PendingResponse:
    answer: Any = answer_when_verified(cast(Any, verification), cast(Any, None), write)
    assert isinstance(answer, PendingResponse)
    return answer


def test_a_verified_write_is_answered() -> None:
    verification = _Verification()
    answer = _answer(verification, lambda refusals, guards: (refusals, guards))
    verification.verified.complete(({}, {}))
    assert answer.response == ({}, {})


def test_a_verified_write_that_fails_unexpectedly_leaves_nobody_waiting() -> None:
    def write(_refusals: Refusals, _guards: Guards) -> str:
        raise ValueError("as asked for")

    verification = _Verification()
    answer = _answer(verification, write)
    with pytest.raises(ValueError, match="as asked for"):
        verification.verified.complete(({}, {}))
    assert answer.is_completed
    assert answer.response is None
