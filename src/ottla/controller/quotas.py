"""Client quotas of users, client ids and addresses."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.controller.image import ClusterImage, QuotaEntity
from ottla.controller.result import RECORDS_PER_REQUEST_MAX, TOO_LARGE, Result, Steps, finished
from ottla.controller.state import ControllerState
from ottla.wire.errors import InvalidRequest, KafkaError, PolicyViolation, UnsupportedVersion
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from ottla.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from ottla.wire.messages.metadata_records import ClientQuotaRecord

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

_LONG_MAX = 2**63 - 1
_INT_MAX = 2**31 - 1
_WHOLE_NUMBERS = {
    "producer_byte_rate": (_LONG_MAX, "a LONG"),
    "consumer_byte_rate": (_LONG_MAX, "a LONG"),
    "connection_creation_rate": (_INT_MAX, "an INT"),
}
_USER_KEYS = frozenset(
    ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
)
_IP_KEYS = frozenset(("connection_creation_rate",))

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2

EntryData = AlterClientQuotasRequest.EntryData

_NO_QUOTAS: Mapping[str, float] = {}


class WantedQuotas(NamedTuple):
    """The content of a request, checked as far as possible without the cluster state."""

    errors: dict[QuotaEntity, KafkaError | None]
    """Each named entity, in order."""
    changes: list[tuple[QuotaEntity, list[tuple[str, float | None]]]]
    """By entity, the new quotas by key; None removes one. Each entity occurs once."""


def alter_client_quotas(
    state: ControllerState, request: AlterClientQuotasRequest
) -> Result[AlterClientQuotasResponse]:
    """Set and remove quotas in one step. A large request runs in steps."""
    wanted = finished(read_quotas(request))
    result = finished(change_quotas(state, wanted, validate_only=request.validate_only))
    return Result(finished(quotas_answered(wanted)), result.records)


def read_quotas(request: AlterClientQuotasRequest) -> Steps[WantedQuotas]:
    """Check each entry on its own, and that no entity occurs twice."""
    wanted = WantedQuotas({}, [])
    for entry in request.entries:
        yield
        entity: QuotaEntity = frozenset((part.entity_type, part.entity_name) for part in entry.entity)
        try:
            if entity in wanted.errors:
                raise InvalidRequest(f"Ignoring duplicate entity {_shown(entity)}")
            wanted.errors[entity] = None
            wanted.changes.append((entity, _checked(entity, entry)))
        except KafkaError as error:
            wanted.errors[entity] = error.with_traceback(None)  # which would make it garbage in a cycle
    return wanted


def change_quotas(
    state: ControllerState, wanted: WantedQuotas, *, validate_only: bool
) -> Steps[Result[None]]:
    """The records of the changes. Too many reject the request as a whole, as in Kafka."""
    quotas = state.image.client_quotas
    records: list[ClientQuotaRecord] = []
    for entity, ops in wanted.changes:
        current = quotas.get(entity, _NO_QUOTAS)
        for key, value in ops:
            if current.get(key) != value:
                records.append(_record(entity, key, value))
        yield
        if len(records) > RECORDS_PER_REQUEST_MAX:
            raise PolicyViolation(TOO_LARGE)
    return Result(None, () if validate_only else records)


def quotas_answered(wanted: WantedQuotas) -> Steps[AlterClientQuotasResponse]:
    response = AlterClientQuotasResponse()
    for entity, error in wanted.errors.items():
        answered = AlterClientQuotasResponse.EntryData(
            error_code=0 if error is None else error.code,
            error_message=None if error is None else error.message,
        )
        response.entries.append(answered)
        for kind, name in _ordered(entity):
            answered.entity.append(AlterClientQuotasResponse.EntityData(entity_type=kind, entity_name=name))
            yield
        yield
    return response


def _ordered(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    return sorted(entity, key=lambda part: part[0])


def _shown(entity: QuotaEntity) -> str:
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in _ordered(entity))
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _checked(entity: QuotaEntity, entry: EntryData) -> list[tuple[str, float | None]]:
    """The quotas that an entry sets, and None for those that it removes."""
    keys = _keys_of(entity, entry.entity)
    ops: dict[str, float | None] = {}
    for op in entry.ops:
        if op.key in ops:
            raise InvalidRequest(
                f"Duplicate quota key {op.key} not updating quota for this entity {_shown(entity)}"
            )
        if not op.remove:
            _check_value(keys, op.key, op.value)
        ops[op.key] = None if op.remove else op.value
    return list(ops.items())


def _record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    parts = [
        ClientQuotaRecord.EntityData(entity_type=kind, entity_name=name) for kind, name in _ordered(entity)
    ]
    if value is None:
        return ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True)
    return ClientQuotaRecord(entity=parts, key=key, value=value)


def _keys_of(entity: QuotaEntity, parts: Sequence[AlterClientQuotasRequest.EntityData]) -> frozenset[str]:
    """The quota keys of this kind of entity; an error for an invalid entity."""
    if not entity:
        raise InvalidRequest("Invalid empty client quota entity")
    kinds = [part.entity_type for part in parts]
    for part in parts:
        if part.entity_type not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {part.entity_type}")
        if kinds.count(part.entity_type) > 1:
            raise InvalidRequest(f"Invalid client quota entity, duplicate entity entry {part.entity_type}")
        if part.entity_name == "":
            raise InvalidRequest(f"Empty {part.entity_type} not supported")
    if IP not in kinds:
        return _USER_KEYS
    if len(kinds) > 1:
        raise InvalidRequest(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
        )
    address = parts[0].entity_name
    if address is not None and not _is_address(address):
        raise InvalidRequest(f"{address} is not a valid IP or resolvable host.")
    return _IP_KEYS


def _is_address(text: str) -> bool:
    """Whether it is an IP address: host names are not resolved here."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return text == "localhost"
    return True


def _check_value(keys: frozenset[str], key: str, value: float) -> None:
    if key not in keys:
        raise InvalidRequest(f"Invalid configuration key {key}")
    if not value > 0.0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if key in _WHOLE_NUMBERS:
        largest, kind = _WHOLE_NUMBERS[key]
        if value > largest:
            raise InvalidRequest(f"Proposed value for {key} is too large for {kind}.")
        if abs(value % 1.0) > 1e-6:
            raise InvalidRequest(f"{key} cannot be a fractional value.")
        if value < 1.0:
            # It would be taken for 0: a rate of 0 for every address locks everybody out.
            raise InvalidRequest(f"Quota {key} must be at least 1.")


def describe_client_quotas(
    image: ClusterImage, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """The quotas of the entities that match a filter."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise InvalidRequest("Invalid empty entity type.")
        if kind in exact or kind in specified:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Unsupported entity type {kind}")
        if component.match_type == _EXACT:
            if component.match is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            exact[kind] = component.match
        elif component.match_type in (_DEFAULT, _SPECIFIED):
            name = "MATCH_TYPE_DEFAULT" if component.match_type == _DEFAULT else "MATCH_TYPE_SPECIFIED"
            if component.match is not None:
                raise InvalidRequest(f"Request specified {name}, but also specified a match string.")
            if component.match_type == _DEFAULT:
                exact[kind] = None
            else:
                specified.add(kind)
        else:
            raise InvalidRequest(f"Unknown match type {component.match_type}")
    wanted = {*exact, *specified}
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    entries = []
    for entity, quotas in image.client_quotas.items():
        names = dict(entity)
        if request.strict and len(names) != len(wanted):
            continue
        if not wanted <= names.keys() or any(names[kind] != name for kind, name in exact.items()):
            continue
        entries.append(
            DescribeClientQuotasResponse.EntryData(
                entity=[
                    DescribeClientQuotasResponse.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in _ordered(entity)
                ],
                values=[
                    DescribeClientQuotasResponse.ValueData(key=key, value=value)
                    for key, value in quotas.items()
                ],
            )
        )
    return DescribeClientQuotasResponse(error_message="", entries=entries)  # as Kafka: empty, not null
