"""The initial state of a cluster: the files of `kafka-storage format`, and the first records of the log.

`bootstrap.checkpoint` contains the requested feature levels and SCRAM credentials; the first active
controller copies them into the log. `00000000000000000000-0000000000.checkpoint` in the metadata log's
directory contains the initial voters of a dynamic quorum.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Mapping, Sequence

from ottla.controller.feature_levels import METADATA_VERSION_LATEST, SCRAM_LEVEL, TRANSACTIONS_LEVEL
from ottla.controller.image import (
    BROKER_RESOURCE,
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    ClusterImage,
)
from ottla.controller.records import decode_record, encode_record
from ottla.controller.scram_credentials import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    credential_record,
)
from ottla.raft import snapshots
from ottla.raft.voters import VoterSet
from ottla.wire.errors import MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    UserScramCredentialRecord,
)

BOOTSTRAP_FILE = "bootstrap.checkpoint"
_CURE = "Restore it from a backup, or delete it if the cluster has been started before."

_SCRAM_MECHANISMS = {mechanism.name: mechanism for mechanism in MECHANISMS}
_SCRAM_SALT_BYTES = 25


def bootstrap_records(
    levels: Mapping[str, int], scram: Sequence[UserScramCredentialRecord] = ()
) -> list[Message]:
    """The records of a new cluster; `levels` are those of `resolve_features`."""
    if scram and levels[METADATA_VERSION] < SCRAM_LEVEL:
        raise ValueError("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    records: list[Message] = [
        FeatureLevelRecord(name=METADATA_VERSION, feature_level=levels[METADATA_VERSION])
    ]
    for name in sorted(levels):
        if name not in (METADATA_VERSION, KRAFT_VERSION) and levels[name] > 0:
            records.append(FeatureLevelRecord(name=name, feature_level=levels[name]))
    return [*records, *scram]


def default_bootstrap_records() -> list[Message]:
    """The records for a directory without a bootstrap file: the newest metadata.version."""
    return [FeatureLevelRecord(name=METADATA_VERSION, feature_level=METADATA_VERSION_LATEST)]


def bootstrap_checkpoint(records: Sequence[Message], now_ms: int) -> bytes:
    """The content of `bootstrap.checkpoint`."""
    values = [encode_record(record, METADATA_VERSION_LATEST) for record in records]
    return b"".join(snapshots.build(values, epoch=0, now_ms=now_ms, last_contained_ms=0))


def voters_checkpoint(voters: VoterSet, now_ms: int, *, kraft_version: int = 1) -> bytes:
    """The content of the checkpoint at offset 0 with the initial voters."""
    batches = snapshots.build(
        (), epoch=0, now_ms=now_ms, last_contained_ms=now_ms, kraft_version=kraft_version, voters=voters
    )
    return b"".join(batches)


def read_bootstrap(content: bytes, path: str) -> list[Message]:
    """The records of a `bootstrap.checkpoint`; SnapshotDamaged if it is incomplete."""
    try:
        records = [decode_record(value) for value in snapshots.read(content, path).values]
    except MalformedMessage as error:
        raise snapshots.SnapshotDamaged(f"{path} contains an unreadable record: {error} {_CURE}") from error
    except snapshots.SnapshotDamaged as error:
        raise snapshots.SnapshotDamaged(f"{error} {_CURE}") from error
    if not any(isinstance(r, FeatureLevelRecord) and r.name == METADATA_VERSION for r in records):
        raise snapshots.SnapshotDamaged(f"{path} does not contain a metadata.version. {_CURE}")
    return records


def activation_records(
    image: ClusterImage, bootstrap: Sequence[Message], min_insync_replicas: int
) -> list[Message]:
    """The first records of a new active controller: the bootstrap records for an empty log, and the end of a
    transaction that its predecessor left open.
    """
    records: list[Message] = []
    if image.is_in_transaction:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if image.metadata_version:
        return records
    levels = {r.name: r.feature_level for r in bootstrap if isinstance(r, FeatureLevelRecord)}
    has_transactions = levels[METADATA_VERSION] >= TRANSACTIONS_LEVEL
    if has_transactions:
        records.append(BeginTransactionRecord(name="Bootstrap records"))
    records += bootstrap
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records.append(
            ConfigRecord(
                resource_type=BROKER_RESOURCE,
                resource_name="",
                name="min.insync.replicas",
                value=str(min_insync_replicas),
            )
        )
    if has_transactions:
        records.append(EndTransactionRecord())
    return records


def parse_scram(argument: str, random_bytes: Callable[[int], bytes]) -> UserScramCredentialRecord:
    """The credential of an `--add-scram` argument: `SCRAM-SHA-256=[name=alice,password=secret]`."""
    mechanism_name, equals, setting = argument.strip().partition("=")
    if not equals:
        raise ValueError(f"Failed to find equals sign in SCRAM argument '{argument.strip()}'")
    if mechanism_name not in _SCRAM_MECHANISMS:
        raise ValueError(f"The add-scram mechanism {mechanism_name} is not supported.")
    if not setting.startswith("["):
        raise ValueError("Expected configuration string to start with [")
    if not setting.endswith("]"):
        raise ValueError("Expected configuration string to end with ]")
    fields = _scram_fields(setting[1:-1])
    name = fields.pop("name", None)
    if name is None:
        raise ValueError("You must supply 'name' to add-scram")
    salt_text = fields.pop("salt", None)
    salt = random_bytes(_SCRAM_SALT_BYTES) if salt_text is None else _decoded(salt_text, "salt")
    iterations = _scram_iterations(fields.pop("iterations", None), mechanism_name)
    password, salted_text = fields.pop("password", None), fields.pop("saltedpassword", None)
    mechanism = _SCRAM_MECHANISMS[mechanism_name]
    if password is not None:
        salted = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)
    elif salted_text is None:
        raise ValueError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif salt_text is None:
        raise ValueError("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded(salted_text, "saltedPassword")
    if fields:
        raise ValueError(f"Unknown SCRAM configurations: {', '.join(sorted(fields))}")
    return credential_record(mechanism, name, salted, salt, iterations)


def _scram_fields(text: str) -> dict[str, str]:
    fields = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"No equals sign found in SCRAM component: {part}")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        fields[name] = value
    return fields


def _scram_iterations(text: str | None, mechanism: str) -> int:
    if text is None:
        return ITERATIONS_MIN
    try:
        iterations = int(text)
    except ValueError:
        raise ValueError(f"Failed to parse iterations count: {text}") from None
    constant = mechanism.replace("-", "_")
    if iterations < ITERATIONS_MIN:
        raise ValueError(f"The 'iterations' value must be >= {ITERATIONS_MIN} for add-scram using {constant}")
    if iterations > ITERATIONS_MAX:
        raise ValueError(f"The 'iterations' value must be <= {ITERATIONS_MAX} for add-scram using {constant}")
    return iterations


def _decoded(text: str, what: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"Failed to decode given {what}: {text}") from None
