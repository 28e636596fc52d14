"""Errors of the client. Error codes of a broker are `ottla.wire.errors.KafkaError` classes.

Rule: an error says which of name resolution, connection, TLS, authentication or time failed, and where. All
errors that a retry may fix are `Disconnected`.
"""

from __future__ import annotations


class ClientError(Exception):
    """Any error that the client raises itself."""


class ConfigError(ClientError, ValueError):
    """A setting is unknown, has a wrong type or value, or contradicts another."""


class Closed(ClientError):
    """The client has been closed."""


class Forked(ClientError):
    """The client was created before a fork: the child process must create its own."""


class FatalError(ClientError):
    """The client has failed: close it and create another."""


class AbortableError(ClientError):
    """The transaction can no longer be committed: abort it, then begin another."""


class TransactionStateError(ClientError, RuntimeError):
    """The call is not possible in the current state of the transaction."""


class BufferExhausted(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`."""


class SerializationError(ClientError, ValueError):
    """A key or value could not be serialized or deserialized."""


class RecordTooLarge(ClientError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory` allows."""


class TimedOut(ClientError, TimeoutError):
    """The call did not finish in time."""


class Disconnected(ClientError, ConnectionError):
    """The network failed. A retry may help."""


class NameNotResolved(Disconnected):
    """The host name of a server could not be resolved."""


class ConnectionRefused(Disconnected):
    """Nothing listens on the server's port, or a firewall rejects the connection."""


class ConnectTimedOut(Disconnected):
    """The server did not accept the connection in time."""


class LinkLost(Disconnected):
    """The connection ended before the response: the request may or may not have been processed."""


class RequestTimedOut(Disconnected):
    """No response within `request.timeout.ms`: the request may or may not have been processed."""


class NodeUnknown(Disconnected):
    """The metadata has no node with this id now."""


class NoBrokerAvailable(Disconnected):
    """No server could be reached; the message contains the reason for each."""


class TlsFailed(ClientError):
    """The TLS handshake failed. A retry helps only after certificates or settings have changed."""


class AuthenticationFailed(ClientError):
    """The broker rejected the credentials. A retry helps only after they have changed."""


class ProtocolMismatch(ClientError):
    """The server does not speak Kafka's protocol, or the listener uses another security protocol."""


class NoOffset(ClientError):
    """A partition has no committed offset and `auto.offset.reset` is none: seek, or set a policy."""


class LogTruncated(ClientError):
    """Records that were read are no longer in the log. `offset` is where the logs diverge, if known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class CommitFailed(ClientError):
    """The group has continued without this member, so its offsets were not committed: poll, then continue."""


class WokenUp(ClientError):
    """`wakeup()` was called while the consumer waited."""
