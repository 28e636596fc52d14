"""`Admin` and `AsyncAdmin`: every operation that describes or changes a cluster.

Each operation is a function in the module of its subject; `operation.py` makes it a method of both classes. A
call for many items returns `Results`, a mapping of item to result or error. Import values from here: `from
ottla.client.admin import NewTopic`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeVar

from ottla.client.admin.operation import Later, Operation

if TYPE_CHECKING:
    from ottla.client.admin import (
        acls,
        configs,
        credentials,
        group_offsets,
        groups,
        nodes,
        offsets,
        quotas,
        replicas,
        share_groups,
        topics,
        transactions,
    )
    from ottla.client.admin.engine import Engine
    from ottla.client.admin.values import *  # noqa: F403
    from ottla.client.config import AdminSettings
    from ottla.client.net.background import Background
    from ottla.ports import Clock, Network, Random
else:
    acls = Later("ottla.client.admin.acls")
    configs = Later("ottla.client.admin.configs")
    credentials = Later("ottla.client.admin.credentials")
    group_offsets = Later("ottla.client.admin.group_offsets")
    groups = Later("ottla.client.admin.groups")
    nodes = Later("ottla.client.admin.nodes")
    offsets = Later("ottla.client.admin.offsets")
    quotas = Later("ottla.client.admin.quotas")
    replicas = Later("ottla.client.admin.replicas")
    share_groups = Later("ottla.client.admin.share_groups")
    topics = Later("ottla.client.admin.topics")
    transactions = Later("ottla.client.admin.transactions")

R = TypeVar("R")

__all__ = ["Admin", "AsyncAdmin"]


def __getattr__(name: str) -> Any:
    """Import values on first use."""
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.values"), name)


class Operations:
    """The methods of both classes. The functions named here document them."""

    # Topics
    create_topics = Operation(lambda: topics.create_topics)
    create_partitions = Operation(lambda: topics.create_partitions)
    delete_topics = Operation(lambda: topics.delete_topics)
    delete_topics_by_id = Operation(lambda: topics.delete_topics_by_id)
    list_topics = Operation(lambda: topics.list_topics)
    describe_topics = Operation(lambda: topics.describe_topics)
    describe_topics_by_id = Operation(lambda: topics.describe_topics_by_id)

    # Settings
    describe_configs = Operation(lambda: configs.describe_configs)
    incremental_alter_configs = Operation(lambda: configs.incremental_alter_configs)
    list_config_resources = Operation(lambda: configs.list_config_resources)

    # Offsets and records
    list_offsets = Operation(lambda: offsets.list_offsets)
    delete_records = Operation(lambda: offsets.delete_records)

    # Groups
    list_groups = Operation(lambda: groups.list_groups)
    list_consumer_groups = Operation(lambda: groups.list_consumer_groups)
    describe_consumer_groups = Operation(lambda: groups.describe_consumer_groups)
    describe_classic_groups = Operation(lambda: groups.describe_classic_groups)
    delete_groups = Operation(lambda: groups.delete_groups)
    remove_members = Operation(lambda: groups.remove_members)

    # Offsets of groups
    list_consumer_group_offsets = Operation(lambda: group_offsets.list_consumer_group_offsets)
    alter_consumer_group_offsets = Operation(lambda: group_offsets.alter_consumer_group_offsets)
    delete_consumer_group_offsets = Operation(lambda: group_offsets.delete_consumer_group_offsets)

    # Share and streams groups
    describe_share_groups = Operation(lambda: share_groups.describe_share_groups)
    list_share_group_offsets = Operation(lambda: share_groups.list_share_group_offsets)
    alter_share_group_offsets = Operation(lambda: share_groups.alter_share_group_offsets)
    delete_share_group_offsets = Operation(lambda: share_groups.delete_share_group_offsets)
    describe_streams_groups = Operation(lambda: share_groups.describe_streams_groups)

    # Transactions
    list_transactions = Operation(lambda: transactions.list_transactions)
    describe_transactions = Operation(lambda: transactions.describe_transactions)
    describe_producers = Operation(lambda: transactions.describe_producers)
    abort_transaction = Operation(lambda: transactions.abort_transaction)
    fence_producers = Operation(lambda: transactions.fence_producers)
    force_terminate_transaction = Operation(lambda: transactions.force_terminate_transaction)

    # The cluster
    describe_cluster = Operation(lambda: nodes.describe_cluster)
    describe_metadata_quorum = Operation(lambda: nodes.describe_metadata_quorum)
    add_raft_voter = Operation(lambda: nodes.add_raft_voter)
    remove_raft_voter = Operation(lambda: nodes.remove_raft_voter)
    unregister_broker = Operation(lambda: nodes.unregister_broker)
    describe_features = Operation(lambda: nodes.describe_features)
    update_features = Operation(lambda: nodes.update_features)
    describe_api_versions = Operation(lambda: nodes.describe_api_versions)

    # Replicas
    elect_leaders = Operation(lambda: replicas.elect_leaders)
    alter_partition_reassignments = Operation(lambda: replicas.alter_partition_reassignments)
    list_partition_reassignments = Operation(lambda: replicas.list_partition_reassignments)
    describe_log_dirs = Operation(lambda: replicas.describe_log_dirs)
    describe_replica_log_dirs = Operation(lambda: replicas.describe_replica_log_dirs)
    alter_replica_log_dirs = Operation(lambda: replicas.alter_replica_log_dirs)

    # Quotas
    describe_client_quotas = Operation(lambda: quotas.describe_client_quotas)
    alter_client_quotas = Operation(lambda: quotas.alter_client_quotas)

    # Credentials and tokens
    describe_user_scram_credentials = Operation(lambda: credentials.describe_user_scram_credentials)
    alter_user_scram_credentials = Operation(lambda: credentials.alter_user_scram_credentials)
    create_delegation_token = Operation(lambda: credentials.create_delegation_token)
    renew_delegation_token = Operation(lambda: credentials.renew_delegation_token)
    expire_delegation_token = Operation(lambda: credentials.expire_delegation_token)
    describe_delegation_tokens = Operation(lambda: credentials.describe_delegation_tokens)

    # Access rules
    describe_acls = Operation(lambda: acls.describe_acls)
    create_acls = Operation(lambda: acls.create_acls)
    delete_acls = Operation(lambda: acls.delete_acls)


class AsyncAdmin(Operations):
    """The admin client for event loops: `async with AsyncAdmin("localhost:9092") as admin: await
    admin.list_topics()`.

    Takes settings as a mapping with dotted names, or bootstrap servers as a string, and keywords in
    snake_case; `bootstrap_controllers` connects to controllers. It connects on its first call.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | AdminSettings | str | None = None,
        /,
        *,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **keywords: object,
    ) -> None:
        from ottla.client.config import AdminSettings

        if not isinstance(settings, AdminSettings):
            settings = AdminSettings.parse(settings, **keywords)
        elif keywords:
            raise TypeError("Pass either AdminSettings or keywords, not both.")
        self._settings = settings
        self._ports = (clock, network, random)
        self._engine: Engine | None = None
        self._is_closed = False

    @property
    def settings(self) -> AdminSettings:
        return self._settings

    @property
    def engine(self) -> Engine:
        """The engine that runs the operations."""
        from ottla.client.errors import Closed

        if self._is_closed:
            raise Closed("The admin client is closed.")
        if self._engine is None:
            self._engine = _engine(self._settings, *self._ports)
        return self._engine

    async def close(self) -> None:
        """Close the connections; calls in progress fail with `Closed`."""
        self._is_closed = True
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def _perform(self, work: Callable[[Engine], Coroutine[Any, Any, R]]) -> Coroutine[Any, Any, R]:
        return work(self.engine)


class Admin(Operations):
    """The blocking admin: `with Admin("localhost:9092") as admin: admin.list_topics()`. Thread-safe."""

    def __init__(
        self,
        settings: Mapping[str, object] | AdminSettings | str | None = None,
        /,
        *,
        clock: Clock | None = None,
        network: Network | None = None,
        random: Random | None = None,
        **keywords: object,
    ) -> None:
        from ottla.client.net.background import Background

        self._twin = AsyncAdmin(settings, clock=clock, network=network, random=random, **keywords)
        self._background: Background = Background("admin client")
        self._is_closed = False

    @property
    def settings(self) -> AdminSettings:
        return self._twin.settings

    def close(self) -> None:
        """Close the connections and end the background thread."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._background.is_forked and self._twin._engine is not None:
            self._background.run(self._twin.close())
        self._background.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _perform(self, work: Callable[[Engine], Coroutine[Any, Any, R]]) -> R:
        async def run() -> R:
            return await work(self._twin.engine)

        return self._background.run(run())


def _engine(
    settings: AdminSettings, clock: Clock | None, network: Network | None, random: Random | None
) -> Engine:
    from ottla import host
    from ottla.client.admin.engine import Engine
    from ottla.client.net.cluster import Cluster

    clock, random = clock or host.HostClock(), random or host.HostRandom()
    cluster = Cluster(settings, clock=clock, network=network or host.HostNetwork(), random=random)
    return Engine(settings, cluster, clock=clock, random=random)
