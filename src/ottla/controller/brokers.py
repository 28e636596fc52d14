"""Brokers: registration, heartbeats, fencing, controlled shutdown, unregistration; and controllers'
registrations.

A broker is fenced after its registration. A heartbeat unfences it once it has read the log up to that
registration; it then becomes the leader of partitions that have no other candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ottla.controller.elections import (
    leader_and_isr_changes,
    leads_something,
    partitions_in_directories,
    partitions_with_elr,
    partitions_with_isr,
    partitions_without_leader,
)
from ottla.controller.feature_levels import CONTROLLER_REGISTRATION_LEVEL
from ottla.controller.heartbeats import BrokerState
from ottla.controller.image import KRAFT_VERSION, METADATA_VERSION
from ottla.controller.records import CORDONED_DIRECTORIES_LEVEL, DIRECTORY_ASSIGNMENT_LEVEL
from ottla.controller.registrations import BrokerRegistration, ControllerRegistration
from ottla.controller.result import Result, Steps
from ottla.controller.state import ControllerState
from ottla.wire import uuid
from ottla.wire.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    InvalidRequest,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.wire.message import Message
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.wire.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

SECURITY_PROTOCOLS = range(4)  # PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL
FENCE = 1
UNFENCE = -1


REGISTERED_MAX = 1_000


def register_broker(
    state: ControllerState, request: BrokerRegistrationRequest, version: int, *, is_local: bool = False
) -> Steps[Result[BrokerRegistrationResponse]]:
    """Register a broker that starts, or update the registration of a running one.

    `is_local`: it is in the controller's own process, so an earlier run of it cannot be alive.
    """
    settings, image = state.settings, state.image
    if request.cluster_id != settings.cluster_id:
        raise InconsistentClusterId(
            f"Expected cluster ID {settings.cluster_id}, but got cluster ID {request.cluster_id}"
        )
    _check_lengths(request)
    existing = image.brokers.get(request.broker_id)
    is_same_incarnation = existing is not None and existing.incarnation_id == request.incarnation_id
    if existing is not None and not is_same_incarnation and not is_local:
        _check_no_session(state, existing)
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegistered("Controller does not support registering ZK brokers.")
    has_directories = image.metadata_version >= DIRECTORY_ASSIGNMENT_LEVEL
    if has_directories:
        _check_directories(image.brokers, request.broker_id, request.log_dirs)
    _check_features(state, request)
    _check_place(request)
    for listener in request.listeners:
        if listener.security_protocol not in SECURITY_PROTOCOLS:
            raise InvalidRegistration(
                f"Unknown security protocol {listener.security_protocol} in listener {listener.name}"
            )
    records: list[Message] = []
    epoch = state.next_offset
    if existing is not None and is_same_incarnation:
        epoch = existing.epoch
    else:
        known_epoch = -2 if existing is None else existing.epoch
        is_clean = version >= 3 and request.previous_broker_epoch == known_epoch
        records += yield from _shutdown_changes(state, request.broker_id, is_clean=is_clean)
    registration = RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=[
            RegisterBrokerRecord.BrokerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in request.listeners
        ],
        features=[
            RegisterBrokerRecord.BrokerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
        rack=request.rack,
        log_dirs=list(request.log_dirs) if has_directories else [],
    )
    if existing is not None and is_same_incarnation:
        registration.fenced = existing.fenced
        registration.in_controlled_shutdown = existing.in_controlled_shutdown
    records.append(registration)
    return Result(BrokerRegistrationResponse(broker_epoch=epoch), records, is_atomic=False)


def _check_place(request: BrokerRegistrationRequest) -> None:
    """Reject a broker without reachable endpoints: partitions placed on it would never be served."""
    broker_id = request.broker_id
    if broker_id < 0:
        raise InvalidRegistration(f"Invalid negative broker id {broker_id}.")
    if not request.listeners:
        raise InvalidRegistration(f"The registration of broker {broker_id} has no listeners.")
    if not all(listener.name for listener in request.listeners):
        raise InvalidRegistration(f"A listener of broker {broker_id} has no name.")
    for listener in request.listeners:
        if not listener.host or not listener.port:
            raise InvalidRegistration(
                f"Listener {listener.name} of broker {broker_id} needs a host and a port, "
                f"not {listener.host!r} and {listener.port}."
            )


def _check_no_session(state: ControllerState, existing: BrokerRegistration) -> None:
    """Reject a second broker with the id of a live one; a broker that shut down has no session."""
    if state.heartbeats.has_session(existing.id, existing.epoch, state.asked_ms):
        raise DuplicateBrokerRegistration(
            "Another broker is registered with that broker id. If the broker was recently restarted this "
            "should self-resolve once the heartbeat manager expires the broker's session."
        )


def _check_directories(
    brokers: Mapping[int, BrokerRegistration], broker_id: int, directories: Sequence[bytes]
) -> None:
    if not directories:
        raise InvalidRegistration("No directories specified in request")
    if any(uuid.is_reserved(directory) for directory in directories):
        raise InvalidRegistration("Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise InvalidRegistration("Duplicate directory ID in request")
    for other in brokers.values():
        if other.id == broker_id:
            continue
        for directory in directories:
            if directory in other.directories:
                text = f"Broker {other.id} is already registered with directory {uuid.to_text(directory)}"
                raise InvalidRegistration(text)


def _check_features(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    """Reject a broker that does not support the finalized level of a feature."""
    finalized = {**state.image.features, KRAFT_VERSION: state.kraft_version}
    supported = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if METADATA_VERSION not in supported:
        raise InvalidRegistration(f"Request features do not contain '{METADATA_VERSION}'")
    for name in {**supported, **finalized}:
        level = finalized.get(name, 0)
        lowest, highest = supported.get(name, (0, 0))
        if not lowest <= level <= highest:
            raise UnsupportedVersion(
                f"Unable to register because the broker does not support finalized version {level} of "
                f"{name}. The broker wants a version between {lowest} and {highest}, inclusive."
            )


def _shutdown_changes(state: ControllerState, broker_id: int, *, is_clean: bool) -> Steps[list[Message]]:
    """The partition changes due to the end of a broker's last run, when it registers again."""
    if is_clean or not state.image.is_elr_enabled:
        leaving = leader_and_isr_changes(state, partitions_with_isr(state, broker_id), leaving=broker_id)
        return (yield from leaving)
    in_sync = yield from leader_and_isr_changes(
        state, partitions_with_isr(state, broker_id), shut_down_uncleanly=broker_id
    )
    eligible = yield from leader_and_isr_changes(
        state, partitions_with_elr(state, broker_id), shut_down_uncleanly=broker_id
    )
    return in_sync + eligible


def broker_heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest
) -> Steps[Result[BrokerHeartbeatResponse]]:
    """Process a heartbeat: fence or unfence the broker, or let it shut down, as requested and possible."""
    broker_id, epoch = request.broker_id, request.broker_epoch
    registered_at = state.image.registration_offsets.get(broker_id)
    if registered_at is None:
        raise StaleBrokerEpoch(f"Receive a heartbeat from broker {broker_id} before registration")
    state.check_broker_epoch(broker_id, epoch)
    heartbeats = state.heartbeats
    heartbeats.contact(broker_id, epoch, state.now_ms)
    entry = heartbeats.brokers[broker_id]
    before = entry.state
    lost = _newly_lost(state, request)
    after = _next_state(state, request, before, registered_at)
    if lost and before is BrokerState.FENCED and after is BrokerState.UNFENCED:
        after = before  # it is unfenced once the loss is replayed, or it would lead what it has lost
    records: list[Message] = []
    if after is not before:
        records += yield from _transition(state, broker_id, epoch, after)
    if lost:
        is_out_already = after is not before  # every such change takes it out of sync everywhere
        records += yield from _lost_directories(state, broker_id, lost, is_out_already=is_out_already)
    records += _cordoned_directories(state, request)
    is_fenced = after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW)

    def change_state() -> None:
        heartbeats.touch(broker_id, is_fenced, request.current_metadata_offset)
        if after is BrokerState.SHUTDOWN_NOW:
            heartbeats.end_session(broker_id, epoch)  # its next run need not wait until this one would expire
        if after is BrokerState.CONTROLLED_SHUTDOWN and entry.shutdown_offset < 0:
            entry.shutdown_offset = state.next_offset + len(records) - 1

    response = BrokerHeartbeatResponse(
        is_caught_up=request.current_metadata_offset >= registered_at,
        is_fenced=is_fenced,
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    return Result(response, records, is_atomic=False, when_appended=change_state)


def _next_state(
    state: ControllerState, request: BrokerHeartbeatRequest, before: BrokerState, registered_at: int
) -> BrokerState:
    if before is BrokerState.FENCED:
        if request.want_shut_down:
            return BrokerState.SHUTDOWN_NOW
        if not request.want_fence and request.current_metadata_offset >= registered_at:
            return BrokerState.UNFENCED
        return BrokerState.FENCED
    if before is BrokerState.UNFENCED:
        if request.want_fence:
            return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
        if not request.want_shut_down:
            return BrokerState.UNFENCED
        leads = leads_something(state, request.broker_id)
        return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
    if leads_something(state, request.broker_id):
        return BrokerState.CONTROLLED_SHUTDOWN
    lowest = state.heartbeats.lowest_active_offset()
    if lowest is None or state.heartbeats.brokers[request.broker_id].shutdown_offset <= lowest:
        return BrokerState.SHUTDOWN_NOW  # everyone has seen that its leaderships went elsewhere
    return BrokerState.CONTROLLED_SHUTDOWN


def _transition(
    state: ControllerState, broker_id: int, epoch: int, after: BrokerState
) -> Steps[list[Message]]:
    if after is BrokerState.UNFENCED:
        unfenced = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=UNFENCE)
        changes = yield from leader_and_isr_changes(state, partitions_without_leader(state), coming=broker_id)
        return [unfenced, *changes]
    if after is BrokerState.CONTROLLED_SHUTDOWN:
        changes = yield from leader_and_isr_changes(
            state, partitions_with_isr(state, broker_id), leaving=broker_id
        )
        if state.image.brokers[broker_id].in_controlled_shutdown:
            return changes
        leaving = BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=epoch, in_controlled_shutdown=1
        )
        return [leaving, *changes]
    return (yield from _fence(state, broker_id, epoch))


def _fence(state: ControllerState, broker_id: int, epoch: int) -> Steps[list[Message]]:
    changes = yield from leader_and_isr_changes(
        state, partitions_with_isr(state, broker_id), leaving=broker_id
    )
    fenced = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, fenced=FENCE)
    return [*changes, fenced]


def _newly_lost(state: ControllerState, request: BrokerHeartbeatRequest) -> list[bytes]:
    """The log directories that the broker reports offline and the image has online."""
    if state.image.metadata_version < DIRECTORY_ASSIGNMENT_LEVEL:
        return []
    directories = state.image.brokers[request.broker_id].directories
    return [directory for directory in directories if directory in request.offline_log_dirs]


def _lost_directories(
    state: ControllerState, broker_id: int, lost: Sequence[bytes], *, is_out_already: bool
) -> Steps[list[Message]]:
    """Replicas in offline directories can neither lead nor be in sync."""
    broker = state.image.brokers[broker_id]
    records: list[Message] = []
    if not is_out_already:
        affected = partitions_in_directories(state, broker_id, lost)
        records += yield from leader_and_isr_changes(state, affected, leaving=broker_id)
    records.append(
        BrokerRegistrationChangeRecord(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            log_dirs=[directory for directory in broker.directories if directory not in lost],
        )
    )
    return records


def _cordoned_directories(state: ControllerState, request: BrokerHeartbeatRequest) -> list[Message]:
    """The directories that the broker reports as cordoned: they accept no new replicas."""
    cordoned = request.cordoned_log_dirs
    if cordoned is None or state.image.metadata_version < CORDONED_DIRECTORIES_LEVEL:
        return []
    broker = state.image.brokers[request.broker_id]
    known = broker.cordoned_directories
    if known is not None and set(known) == set(cordoned):
        return []
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
    )
    return [change]


def unregister_broker(
    state: ControllerState, request: UnregisterBrokerRequest
) -> Steps[Result[UnregisterBrokerResponse]]:
    """Unregister a broker."""
    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise BrokerIdNotRegistered(f"Broker ID {request.broker_id} is not currently registered")
    records = yield from leader_and_isr_changes(
        state, partitions_with_isr(state, broker.id), leaving=broker.id
    )
    records += yield from leader_and_isr_changes(
        state, partitions_with_elr(state, broker.id), leaving=broker.id
    )
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Result(UnregisterBrokerResponse(), records, is_atomic=False)


def fence_stale_broker(state: ControllerState) -> Steps[Result[bool]]:
    """Fence one broker whose session has expired. True: there may be more."""
    expired = state.heartbeats.find_expired(state.asked_ms)
    if expired is None:
        return Result(False)
    broker_id, epoch = expired
    broker = state.image.brokers.get(broker_id)
    is_unfenced = broker is not None and broker.epoch == epoch and not broker.fenced
    records = (yield from _fence(state, broker_id, epoch)) if is_unfenced else []

    def end_session() -> None:
        state.heartbeats.end_session(broker_id, epoch)

    return Result(True, records, is_atomic=False, when_appended=end_session)


def _check_lengths(request: BrokerRegistrationRequest | ControllerRegistrationRequest) -> None:
    """Reject an oversized registration: every node of the cluster would store it."""
    if max(len(request.listeners), len(request.features)) > REGISTERED_MAX:
        raise InvalidRequest(f"A registration has at most {REGISTERED_MAX} listeners and as many features.")


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> Result[ControllerRegistrationResponse]:
    """Store the endpoints and supported features of a controller."""
    if state.image.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise UnsupportedVersion(
            "The current MetadataVersion is too old to support controller registrations."
        )
    if request.controller_id < 0:
        raise InvalidRegistration(f"A controller cannot have the negative id {request.controller_id}.")
    _check_lengths(request)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in request.listeners
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    known = state.image.controllers.get(request.controller_id)
    response = ControllerRegistrationResponse(error_message=None)
    if known == ControllerRegistration.from_record(record):
        return Result(response)
    return Result(response, [record])
