"""InitProducerId: fresh ids for idempotent producers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.server.handlers.support import RunningNode

from ottla.wire.errors import ErrorCode
from ottla.wire.messages.init_producer_id import InitProducerIdRequest


def ask(node: RunningNode, version: int | None = None, **fields: Any) -> tuple[int, int, int]:
    request = InitProducerIdRequest(**{"transactional_id": None, **fields})
    response = node.ask(request, version)
    return response.error_code, response.producer_id, response.producer_epoch


@pytest.mark.parametrize("version", range(6))
def test_every_producer_gets_an_id_of_its_own_with_epoch_0(node: RunningNode, version: int) -> None:
    answers = [ask(node, version) for _ in range(3)]
    assert {(code, epoch) for code, _, epoch in answers} == {(0, 0)}
    assert len({producer_id for _, producer_id, _ in answers}) == 3


def test_a_producer_that_names_its_old_id_gets_a_new_one(node: RunningNode) -> None:
    first = ask(node)[1]
    code, second, epoch = ask(node, producer_id=first, producer_epoch=3)
    assert (code, epoch) == (0, 0)
    assert second != first


@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 5}, {"transactional_id": ""}])
def test_half_an_identity_is_refused(node: RunningNode, fields: dict[str, Any]) -> None:
    assert ask(node, **fields) == (ErrorCode.INVALID_REQUEST, -1, -1)


def test_a_transactional_producer_is_sent_to_its_coordinator(node: RunningNode) -> None:
    assert ask(node, transactional_id="t") == (ErrorCode.NOT_COORDINATOR, -1, -1)
