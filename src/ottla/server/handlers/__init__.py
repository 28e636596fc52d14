"""The handlers: one module per API. Everything else is derived from the table `HANDLERS`.

Handlers that a node needs in its first seconds are imported with it; the others on their first request, so
that a node starts fast.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ottla.server.handlers import api_versions, fetch, metadata, produce
from ottla.server.net.dispatch import Api
from ottla.server.net.forwarding import Forwarding

LATER: dict[int, str] = {
    2: "list_offsets",
    8: "offset_commit",
    9: "offset_fetch",
    10: "find_coordinator",
    11: "join_group",
    12: "heartbeat",
    13: "leave_group",
    14: "sync_group",
    15: "describe_groups",
    16: "list_groups",
    17: "sasl_handshake",
    19: "create_topics",
    20: "delete_topics",
    21: "delete_records",
    22: "init_producer_id",
    23: "offset_for_leader_epoch",
    24: "add_partitions_to_txn",
    25: "add_offsets_to_txn",
    26: "end_txn",
    27: "write_txn_markers",
    28: "txn_offset_commit",
    29: "describe_acls",
    30: "create_acls",
    31: "delete_acls",
    32: "describe_configs",
    33: "alter_configs",
    34: "alter_replica_log_dirs",
    35: "describe_log_dirs",
    36: "sasl_authenticate",
    37: "create_partitions",
    42: "delete_groups",
    43: "elect_leaders",
    44: "incremental_alter_configs",
    45: "alter_partition_reassignments",
    46: "list_partition_reassignments",
    47: "offset_delete",
    48: "describe_client_quotas",
    49: "alter_client_quotas",
    50: "describe_user_scram_credentials",
    51: "alter_user_scram_credentials",
    52: "vote",
    53: "begin_quorum_epoch",
    54: "end_quorum_epoch",
    55: "describe_quorum",
    56: "alter_partition",
    57: "update_features",
    58: "envelope",
    59: "fetch_snapshot",
    60: "describe_cluster",
    61: "describe_producers",
    62: "broker_registration",
    63: "broker_heartbeat",
    64: "unregister_broker",
    65: "describe_transactions",
    66: "list_transactions",
    67: "allocate_producer_ids",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
    70: "controller_registration",
    73: "assign_replicas_to_dirs",
    74: "list_config_resources",
    75: "describe_topic_partitions",
    80: "add_raft_voter",
    81: "remove_raft_voter",
    82: "update_raft_voter",
}
"""API key -> module, for handlers that are imported on first use."""

FORWARDING: dict[int, Forwarding] = {
    **dict.fromkeys((19, 20, 37, 43, 45, 46, 49, 51, 55, 57, 64, 80, 81), Forwarding.WHOLE),
    **dict.fromkeys((33, 44), Forwarding.PART),
}
"""The APIs that only the active controller answers."""

AMPLIFYING = frozenset((9, 15, 16, 29, 32, 35, 46, 48, 50, 61, 65, 66, 69, 74, 75))
"""The APIs, besides Metadata, whose response may be many times as large as the request; all are read-only."""


REFUSING = frozenset((19, 20, 33, 37, 43, 44, 45, 49, 51, 57, 64))
"""The APIs whose handlers raise the errors of the controller, and whose modules have a `refuse`."""

FAST = frozenset((8, 11, 14))
"""The APIs, besides Produce and Fetch, whose modules have a `fast_path`."""


def _imported_on_first_use(module: str, attribute: str = "handle") -> Callable[..., Any]:
    function: Callable[..., Any] | None = None

    def call(*arguments: Any) -> Any:
        nonlocal function
        if function is None:
            function = getattr(import_module(f"ottla.server.handlers.{module}").API, attribute)
        return function(*arguments)

    return call


HANDLERS: list[Api] = [
    api_versions.API,
    Api(
        fetch.KEY,
        fetch.handle,
        fast_path=fetch.fast_path,
        handle_at_controller=_imported_on_first_use("fetch_metadata_log"),
    ),
    metadata.API,
    produce.API,
] + [
    Api(
        key,
        _imported_on_first_use(module),
        forwarding=FORWARDING.get(key, Forwarding.NONE),
        amplifies=key in AMPLIFYING,
        refuse=_imported_on_first_use(module, "refuse") if key in REFUSING else None,
        fast_path=_imported_on_first_use(module, "fast_path") if key in FAST else None,
    )
    for key, module in LATER.items()
]
