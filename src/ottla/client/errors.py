"""What can go wrong on the client's side. Error codes of a broker are `ottla.wire.errors.KafkaError` classes.

Rule: an error says which of name look-up, connection, TLS, authentication or time it was, and where. All that
a later try may cure are `Disconnected`.
"""

from __future__ import annotations


class ClientError(Exception):
    """Any error that the client raises itself."""


class ConfigError(ClientError, ValueError):
    """A setting that is unknown, has a wrong type or value, or contradicts another."""


class Closed(ClientError):
    """The client has been closed."""


class Forked(ClientError):
    """The client was made in another process: after a fork the child makes its own."""


class FatalError(ClientError):
    """The client cannot go on: close it and make another."""


class AbortableError(ClientError):
    """The transaction cannot be committed any more: abort it, then begin another."""


class TransactionStateError(ClientError, RuntimeError):
    """What was called does not fit the state of the transaction."""


class BufferExhausted(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`."""


class SerializationError(ClientError, ValueError):
    """A key or value could not be turned into bytes, or bytes into a key or value."""


class RecordTooLarge(ClientError, ValueError):
    """A record is larger than `max.request.size` or `buffer.memory` allow."""


class TimedOut(ClientError, TimeoutError):
    """What was waited for did not come in time."""


class Disconnected(ClientError, ConnectionError):
    """The network failed. Asking again may help."""


class NameNotResolved(Disconnected):
    """No address was found for the name of a server."""


class ConnectionRefused(Disconnected):
    """Nothing listens where the server should be, or the way to it is closed."""


class ConnectTimedOut(Disconnected):
    """The server did not take the connection in time."""


class LinkLost(Disconnected):
    """The connection ended before the answer came: the request may or may not have been carried out."""


class RequestTimedOut(Disconnected):
    """The answer did not come in `request.timeout.ms`: the request may or may not have been carried out."""


class NodeUnknown(Disconnected):
    """The metadata has no node of this id now."""


class NoBrokerAvailable(Disconnected):
    """None of the servers could be reached; the text says why for each."""


class TlsFailed(ClientError):
    """The TLS handshake failed. Trying again does not help before certificates or settings change."""


class AuthenticationFailed(ClientError):
    """The broker rejected the credentials. A retry helps only after they have changed."""


class ProtocolMismatch(ClientError):
    """The other side does not speak Kafka's protocol, or not as this listener should."""


class NoOffset(ClientError):
    """A partition has no committed offset and `auto.offset.reset` is none: seek, or set a policy."""


class LogTruncated(ClientError):
    """Records that were read are no longer in the log. `offset` is where the two histories part, if known."""

    def __init__(self, message: str, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class CommitFailed(ClientError):
    """The group has moved on without this member, so its offsets were not stored: poll, then go on."""


class WokenUp(ClientError):
    """`wakeup()` was called while the consumer waited."""
