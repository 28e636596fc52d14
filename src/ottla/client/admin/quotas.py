"""Quotas of users, clients and IP addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from ottla.client.admin.engine import Engine, Role
from ottla.client.admin.results import Results, check, failure
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Sorted pairs of type and name, as `quota_entity(user="ann")` returns them; the name None is the default."""


def quota_entity(**names: str | None) -> QuotaEntity:
    """`quota_entity(user="ann", client_id="c")`; None is the default of that type."""
    return entity_of({name.replace("_", "-"): value for name, value in names.items()})


def entity_of(names: Mapping[str, str | None]) -> QuotaEntity:
    """The same, from a mapping of type to name."""
    return tuple(sorted(names.items()))


class Match(IntEnum):
    """How the name of an entity is compared."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """Matches one part of an entity. `name` is for EXACT only."""

    type: str
    match: Match = Match.ANY
    name: str | None = None


async def describe_client_quotas(
    engine: Engine,
    filters: Iterable[QuotaFilter] = (),
    *,
    strict: bool = False,
    timeout_ms: int | None = None,
) -> dict[QuotaEntity, dict[str, float]]:
    """Describe quotas: entity -> its quotas. `strict`: only entities without parts beyond the filter."""
    components = [
        DescribeClientQuotasRequest.ComponentData(
            entity_type=one.type, match_type=one.match, match=one.name if one.match is Match.EXACT else None
        )
        for one in filters
    ]
    return await engine.call(
        "describe_client_quotas",
        Role.BROKER,
        lambda timeout_ms: DescribeClientQuotasRequest(components=components, strict=strict),
        read_quotas,
        deadline=engine.deadline(timeout_ms),
    )


def read_quotas(answer: DescribeClientQuotasResponse) -> dict[QuotaEntity, dict[str, float]]:
    """Read the quotas in a response; pure."""
    check(answer.error_code, answer.error_message)
    return {
        entity_of({part.entity_type: part.entity_name for part in one.entity}): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries or ()
    }


async def alter_client_quotas(
    engine: Engine,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
    timeout_ms: int | None = None,
) -> Results[QuotaEntity, None]:
    """Set quotas; None removes a quota."""

    def build(entities: Collection[QuotaEntity], timeout_ms: int) -> AlterClientQuotasRequest:
        request = AlterClientQuotasRequest
        return request(
            entries=[
                request.EntryData(
                    entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[
                        request.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes[entity].items()
                    ],
                )
                for entity in entities
            ],
            validate_only=validate_only,
        )

    def read(
        entities: Collection[QuotaEntity], answer: AlterClientQuotasResponse
    ) -> dict[QuotaEntity, Exception | None]:
        return {
            entity_of({part.entity_type: part.entity_name for part in one.entity}): failure(
                one.error_code, one.error_message
            )
            if one.error_code
            else None
            for one in answer.entries
        }

    places = dict.fromkeys(changes, Role.BROKER)
    return await engine.items(
        "alter_client_quotas", places, build, read, deadline=engine.deadline(timeout_ms)
    )
