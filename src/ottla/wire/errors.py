"""The exceptions of the protocol: a class for every code, and two without a code.

Every layer raises these, and the handler puts `error.code` into the response. A `message` of None means that
the code says enough: the response's message field is then null, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from ottla.wire.error_codes import RETRIABLE, ErrorCode

__all__ = ["ErrorCode", "KafkaError", "MalformedMessage", "UnencodableMessage", "for_code"]


class MalformedMessage(ValueError):
    """Bytes from outside that are not a message: too short, too long, a bad length, text not UTF-8.

    `unfinished` is the partial message of a decoder that works in slices.
    """

    unfinished: Any = None


class UnencodableMessage(ValueError):
    """A value of ours that cannot be encoded: out of range, too long, or null in a non-nullable field."""


class KafkaError(Exception):
    """An error with a code in the protocol. Raise one of the classes below, never this one."""

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR
    retriable: ClassVar[bool] = False
    message: str | None

    def __init_subclass__(cls, *, code: ErrorCode) -> None:
        cls.code = code
        cls.retriable = code in RETRIABLE
        _CLASSES[code] = cls

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return self.message or self.code.name


_CLASSES: dict[int, type[KafkaError]] = {}


def for_code(code: int) -> type[KafkaError]:
    """The exception of an error code; UnknownServerError for an unknown code."""
    if code == ErrorCode.NONE:
        raise ValueError("Error code 0 means success and has no exception.")
    return _CLASSES.get(code, UnknownServerError)


class UnknownServerError(KafkaError, code=ErrorCode.UNKNOWN_SERVER_ERROR): ...


class OffsetOutOfRange(KafkaError, code=ErrorCode.OFFSET_OUT_OF_RANGE): ...


class CorruptMessage(KafkaError, code=ErrorCode.CORRUPT_MESSAGE): ...


class UnknownTopicOrPartition(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION): ...


class InvalidFetchSize(KafkaError, code=ErrorCode.INVALID_FETCH_SIZE): ...


class LeaderNotAvailable(KafkaError, code=ErrorCode.LEADER_NOT_AVAILABLE): ...


class NotLeaderOrFollower(KafkaError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER): ...


class RequestTimedOut(KafkaError, code=ErrorCode.REQUEST_TIMED_OUT): ...


class BrokerNotAvailable(KafkaError, code=ErrorCode.BROKER_NOT_AVAILABLE): ...


class ReplicaNotAvailable(KafkaError, code=ErrorCode.REPLICA_NOT_AVAILABLE): ...


class MessageTooLarge(KafkaError, code=ErrorCode.MESSAGE_TOO_LARGE): ...


class StaleControllerEpoch(KafkaError, code=ErrorCode.STALE_CONTROLLER_EPOCH): ...


class OffsetMetadataTooLarge(KafkaError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE): ...


class NetworkException(KafkaError, code=ErrorCode.NETWORK_EXCEPTION): ...


class CoordinatorLoadInProgress(KafkaError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS): ...


class CoordinatorNotAvailable(KafkaError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE): ...


class NotCoordinator(KafkaError, code=ErrorCode.NOT_COORDINATOR): ...


class InvalidTopicException(KafkaError, code=ErrorCode.INVALID_TOPIC_EXCEPTION): ...


class RecordListTooLarge(KafkaError, code=ErrorCode.RECORD_LIST_TOO_LARGE): ...


class NotEnoughReplicas(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS): ...


class NotEnoughReplicasAfterAppend(KafkaError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND): ...


class InvalidRequiredAcks(KafkaError, code=ErrorCode.INVALID_REQUIRED_ACKS): ...


class IllegalGeneration(KafkaError, code=ErrorCode.ILLEGAL_GENERATION): ...


class InconsistentGroupProtocol(KafkaError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL): ...


class InvalidGroupId(KafkaError, code=ErrorCode.INVALID_GROUP_ID): ...


class UnknownMemberId(KafkaError, code=ErrorCode.UNKNOWN_MEMBER_ID): ...


class InvalidSessionTimeout(KafkaError, code=ErrorCode.INVALID_SESSION_TIMEOUT): ...


class RebalanceInProgress(KafkaError, code=ErrorCode.REBALANCE_IN_PROGRESS): ...


class InvalidCommitOffsetSize(KafkaError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE): ...


class TopicAuthorizationFailed(KafkaError, code=ErrorCode.TOPIC_AUTHORIZATION_FAILED): ...


class GroupAuthorizationFailed(KafkaError, code=ErrorCode.GROUP_AUTHORIZATION_FAILED): ...


class ClusterAuthorizationFailed(KafkaError, code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED): ...


class InvalidTimestamp(KafkaError, code=ErrorCode.INVALID_TIMESTAMP):
    """A batch with timestamps that its topic refuses; `record_errors` as in InvalidRecord."""

    record_errors: list[tuple[int, str]]

    def __init__(self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class UnsupportedSaslMechanism(KafkaError, code=ErrorCode.UNSUPPORTED_SASL_MECHANISM): ...


class IllegalSaslState(KafkaError, code=ErrorCode.ILLEGAL_SASL_STATE): ...


class UnsupportedVersion(KafkaError, code=ErrorCode.UNSUPPORTED_VERSION): ...


class TopicAlreadyExists(KafkaError, code=ErrorCode.TOPIC_ALREADY_EXISTS): ...


class InvalidPartitions(KafkaError, code=ErrorCode.INVALID_PARTITIONS): ...


class InvalidReplicationFactor(KafkaError, code=ErrorCode.INVALID_REPLICATION_FACTOR): ...


class InvalidReplicaAssignment(KafkaError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT): ...


class InvalidConfig(KafkaError, code=ErrorCode.INVALID_CONFIG): ...


class NotController(KafkaError, code=ErrorCode.NOT_CONTROLLER): ...


class InvalidRequest(KafkaError, code=ErrorCode.INVALID_REQUEST): ...


class UnsupportedForMessageFormat(KafkaError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT): ...


class PolicyViolation(KafkaError, code=ErrorCode.POLICY_VIOLATION): ...


class OutOfOrderSequenceNumber(KafkaError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER): ...


class DuplicateSequenceNumber(KafkaError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER): ...


class InvalidProducerEpoch(KafkaError, code=ErrorCode.INVALID_PRODUCER_EPOCH): ...


class InvalidTxnState(KafkaError, code=ErrorCode.INVALID_TXN_STATE): ...


class InvalidProducerIdMapping(KafkaError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING): ...


class InvalidTransactionTimeout(KafkaError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT): ...


class ConcurrentTransactions(KafkaError, code=ErrorCode.CONCURRENT_TRANSACTIONS): ...


class TransactionCoordinatorFenced(KafkaError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED): ...


class TransactionalIdAuthorizationFailed(
    KafkaError, code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
): ...


class SecurityDisabled(KafkaError, code=ErrorCode.SECURITY_DISABLED): ...


class OperationNotAttempted(KafkaError, code=ErrorCode.OPERATION_NOT_ATTEMPTED): ...


class KafkaStorageError(KafkaError, code=ErrorCode.KAFKA_STORAGE_ERROR): ...


class LogDirNotFound(KafkaError, code=ErrorCode.LOG_DIR_NOT_FOUND): ...


class SaslAuthenticationFailed(KafkaError, code=ErrorCode.SASL_AUTHENTICATION_FAILED): ...


class UnknownProducerId(KafkaError, code=ErrorCode.UNKNOWN_PRODUCER_ID): ...


class ReassignmentInProgress(KafkaError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS): ...


class DelegationTokenAuthDisabled(KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED): ...


class DelegationTokenNotFound(KafkaError, code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND): ...


class DelegationTokenOwnerMismatch(KafkaError, code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH): ...


class DelegationTokenRequestNotAllowed(KafkaError, code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED): ...


class DelegationTokenAuthorizationFailed(
    KafkaError, code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
): ...


class DelegationTokenExpired(KafkaError, code=ErrorCode.DELEGATION_TOKEN_EXPIRED): ...


class InvalidPrincipalType(KafkaError, code=ErrorCode.INVALID_PRINCIPAL_TYPE): ...


class NonEmptyGroup(KafkaError, code=ErrorCode.NON_EMPTY_GROUP): ...


class GroupIdNotFound(KafkaError, code=ErrorCode.GROUP_ID_NOT_FOUND): ...


class FetchSessionIdNotFound(KafkaError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND): ...


class InvalidFetchSessionEpoch(KafkaError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH): ...


class ListenerNotFound(KafkaError, code=ErrorCode.LISTENER_NOT_FOUND): ...


class TopicDeletionDisabled(KafkaError, code=ErrorCode.TOPIC_DELETION_DISABLED): ...


class FencedLeaderEpoch(KafkaError, code=ErrorCode.FENCED_LEADER_EPOCH): ...


class UnknownLeaderEpoch(KafkaError, code=ErrorCode.UNKNOWN_LEADER_EPOCH): ...


class UnsupportedCompressionType(KafkaError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE): ...


class StaleBrokerEpoch(KafkaError, code=ErrorCode.STALE_BROKER_EPOCH): ...


class OffsetNotAvailable(KafkaError, code=ErrorCode.OFFSET_NOT_AVAILABLE): ...


class MemberIdRequired(KafkaError, code=ErrorCode.MEMBER_ID_REQUIRED): ...


class PreferredLeaderNotAvailable(KafkaError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE): ...


class GroupMaxSizeReached(KafkaError, code=ErrorCode.GROUP_MAX_SIZE_REACHED): ...


class FencedInstanceId(KafkaError, code=ErrorCode.FENCED_INSTANCE_ID): ...


class EligibleLeadersNotAvailable(KafkaError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE): ...


class ElectionNotNeeded(KafkaError, code=ErrorCode.ELECTION_NOT_NEEDED): ...


class NoReassignmentInProgress(KafkaError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS): ...


class GroupSubscribedToTopic(KafkaError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC): ...


class InvalidRecord(KafkaError, code=ErrorCode.INVALID_RECORD):
    """A batch whose records break a rule; `record_errors` has (index in the batch, message)."""

    record_errors: list[tuple[int, str]]

    def __init__(self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


class UnstableOffsetCommit(KafkaError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT): ...


class ThrottlingQuotaExceeded(KafkaError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED): ...


class ProducerFenced(KafkaError, code=ErrorCode.PRODUCER_FENCED): ...


class ResourceNotFound(KafkaError, code=ErrorCode.RESOURCE_NOT_FOUND): ...


class DuplicateResource(KafkaError, code=ErrorCode.DUPLICATE_RESOURCE): ...


class UnacceptableCredential(KafkaError, code=ErrorCode.UNACCEPTABLE_CREDENTIAL): ...


class InconsistentVoterSet(KafkaError, code=ErrorCode.INCONSISTENT_VOTER_SET): ...


class InvalidUpdateVersion(KafkaError, code=ErrorCode.INVALID_UPDATE_VERSION): ...


class FeatureUpdateFailed(KafkaError, code=ErrorCode.FEATURE_UPDATE_FAILED): ...


class PrincipalDeserializationFailure(KafkaError, code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE): ...


class SnapshotNotFound(KafkaError, code=ErrorCode.SNAPSHOT_NOT_FOUND): ...


class PositionOutOfRange(KafkaError, code=ErrorCode.POSITION_OUT_OF_RANGE): ...


class UnknownTopicId(KafkaError, code=ErrorCode.UNKNOWN_TOPIC_ID): ...


class DuplicateBrokerRegistration(KafkaError, code=ErrorCode.DUPLICATE_BROKER_REGISTRATION): ...


class BrokerIdNotRegistered(KafkaError, code=ErrorCode.BROKER_ID_NOT_REGISTERED): ...


class InconsistentTopicId(KafkaError, code=ErrorCode.INCONSISTENT_TOPIC_ID): ...


class InconsistentClusterId(KafkaError, code=ErrorCode.INCONSISTENT_CLUSTER_ID): ...


class TransactionalIdNotFound(KafkaError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND): ...


class FetchSessionTopicIdError(KafkaError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR): ...


class IneligibleReplica(KafkaError, code=ErrorCode.INELIGIBLE_REPLICA): ...


class NewLeaderElected(KafkaError, code=ErrorCode.NEW_LEADER_ELECTED): ...


class OffsetMovedToTieredStorage(KafkaError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE): ...


class FencedMemberEpoch(KafkaError, code=ErrorCode.FENCED_MEMBER_EPOCH): ...


class UnreleasedInstanceId(KafkaError, code=ErrorCode.UNRELEASED_INSTANCE_ID): ...


class UnsupportedAssignor(KafkaError, code=ErrorCode.UNSUPPORTED_ASSIGNOR): ...


class StaleMemberEpoch(KafkaError, code=ErrorCode.STALE_MEMBER_EPOCH): ...


class MismatchedEndpointType(KafkaError, code=ErrorCode.MISMATCHED_ENDPOINT_TYPE): ...


class UnsupportedEndpointType(KafkaError, code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE): ...


class UnknownControllerId(KafkaError, code=ErrorCode.UNKNOWN_CONTROLLER_ID): ...


class UnknownSubscriptionId(KafkaError, code=ErrorCode.UNKNOWN_SUBSCRIPTION_ID): ...


class TelemetryTooLarge(KafkaError, code=ErrorCode.TELEMETRY_TOO_LARGE): ...


class InvalidRegistration(KafkaError, code=ErrorCode.INVALID_REGISTRATION): ...


class TransactionAbortable(KafkaError, code=ErrorCode.TRANSACTION_ABORTABLE): ...


class InvalidRecordState(KafkaError, code=ErrorCode.INVALID_RECORD_STATE): ...


class ShareSessionNotFound(KafkaError, code=ErrorCode.SHARE_SESSION_NOT_FOUND): ...


class InvalidShareSessionEpoch(KafkaError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH): ...


class FencedStateEpoch(KafkaError, code=ErrorCode.FENCED_STATE_EPOCH): ...


class InvalidVoterKey(KafkaError, code=ErrorCode.INVALID_VOTER_KEY): ...


class DuplicateVoter(KafkaError, code=ErrorCode.DUPLICATE_VOTER): ...


class VoterNotFound(KafkaError, code=ErrorCode.VOTER_NOT_FOUND): ...


class InvalidRegularExpression(KafkaError, code=ErrorCode.INVALID_REGULAR_EXPRESSION): ...


class RebootstrapRequired(KafkaError, code=ErrorCode.REBOOTSTRAP_REQUIRED): ...


class StreamsInvalidTopology(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY): ...


class StreamsInvalidTopologyEpoch(KafkaError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH): ...


class StreamsTopologyFenced(KafkaError, code=ErrorCode.STREAMS_TOPOLOGY_FENCED): ...


class ShareSessionLimitReached(KafkaError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED): ...
