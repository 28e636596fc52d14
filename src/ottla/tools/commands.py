"""The Kafka-named commands: the module of each, and its Java class names in books and scripts.

`kafka-run-class` looks them up here, and docs/tools.md lists them.
"""

from __future__ import annotations

from dataclasses import dataclass

_NEW = "org.apache.kafka.tools"


@dataclass(frozen=True, slots=True)
class Command:
    """A command; it is installed with and without the suffix `.sh`."""

    name: str
    module: str
    classes: tuple[str, ...]
    text: str


COMMANDS = (
    Command(
        "kafka-topics",
        "topics",
        ("kafka.admin.TopicCommand", f"{_NEW}.TopicCommand"),
        "Topics: create, list, describe, alter, delete.",
    ),
    Command(
        "kafka-configs",
        "configs",
        ("kafka.admin.ConfigCommand", f"{_NEW}.ConfigCommand"),
        "Settings of topics, brokers, users, clients, addresses, groups and client metrics.",
    ),
    Command(
        "kafka-console-producer",
        "console_producer",
        ("kafka.tools.ConsoleProducer", f"{_NEW}.ConsoleProducer"),
        "Produce lines of standard input as records.",
    ),
    Command(
        "kafka-console-consumer",
        "console_consumer",
        ("kafka.tools.ConsoleConsumer", f"{_NEW}.consumer.ConsoleConsumer"),
        "Print records.",
    ),
    Command(
        "kafka-consumer-groups",
        "consumer_groups",
        ("kafka.admin.ConsumerGroupCommand", f"{_NEW}.consumer.group.ConsumerGroupCommand"),
        "Consumer groups: list, describe, delete, reset and delete offsets.",
    ),
    Command("kafka-groups", "groups", (f"{_NEW}.GroupsCommand",), "List groups of all types."),
    Command(
        "kafka-get-offsets",
        "get_offsets",
        ("kafka.tools.GetOffsetShell", f"{_NEW}.GetOffsetShell"),
        "Offsets of partitions: first, last, at a time.",
    ),
    Command(
        "kafka-delete-records",
        "delete_records",
        ("kafka.admin.DeleteRecordsCommand", f"{_NEW}.DeleteRecordsCommand"),
        "Delete the records before an offset.",
    ),
    Command(
        "kafka-log-dirs",
        "log_dirs",
        ("kafka.admin.LogDirsCommand", f"{_NEW}.LogDirsCommand"),
        "Describe the log directories of brokers.",
    ),
    Command(
        "kafka-dump-log",
        "dump_log",
        ("kafka.tools.DumpLogSegments", f"{_NEW}.DumpLogSegments"),
        "The contents of log, index and snapshot files.",
    ),
    Command(
        "kafka-reassign-partitions",
        "reassign_partitions",
        ("kafka.admin.ReassignPartitionsCommand", f"{_NEW}.reassign.ReassignPartitionsCommand"),
        "Move partitions to other brokers and log directories.",
    ),
    Command(
        "kafka-leader-election",
        "leader_election",
        ("kafka.admin.LeaderElectionCommand", f"{_NEW}.LeaderElectionCommand"),
        "Elect leaders of partitions.",
    ),
    Command(
        "kafka-metadata-quorum",
        "metadata_quorum",
        ("kafka.admin.MetadataQuorumCommand", f"{_NEW}.MetadataQuorumCommand"),
        "Describe the controller quorum; add or remove a controller.",
    ),
    Command(
        "kafka-metadata-shell",
        "metadata_shell",
        ("org.apache.kafka.shell.MetadataShell",),
        "Browse the metadata of a snapshot or log like a file system.",
    ),
    Command(
        "kafka-storage",
        "storage",
        ("kafka.tools.StorageTool", f"{_NEW}.StorageTool"),
        "Format the log directories of a node.",
    ),
    Command(
        "kafka-cluster",
        "cluster",
        ("kafka.tools.ClusterTool", f"{_NEW}.ClusterTool"),
        "The cluster's id and endpoints; unregister a broker.",
    ),
    Command(
        "kafka-features",
        "features",
        ("kafka.admin.FeatureCommand", f"{_NEW}.FeatureCommand"),
        "Feature levels: describe, upgrade, downgrade, disable.",
    ),
    Command(
        "kafka-broker-api-versions",
        "broker_api_versions",
        ("kafka.admin.BrokerApiVersionsCommand", f"{_NEW}.BrokerApiVersionsCommand"),
        "Show the API versions that brokers support.",
    ),
    Command(
        "kafka-transactions",
        "transactions",
        (f"{_NEW}.TransactionsCommand",),
        "Transactions: list, describe, find hanging ones, abort.",
    ),
    Command(
        "kafka-producer-perf-test",
        "producer_perf_test",
        ("kafka.tools.ProducerPerformance", f"{_NEW}.ProducerPerformance"),
        "Benchmark a producer.",
    ),
    Command(
        "kafka-consumer-perf-test",
        "consumer_perf_test",
        ("kafka.tools.ConsumerPerformance", f"{_NEW}.ConsumerPerformance"),
        "Benchmark a consumer.",
    ),
    Command(
        "kafka-e2e-latency",
        "e2e_latency",
        ("kafka.tools.TestEndToEndLatency", "kafka.tools.EndToEndLatency", f"{_NEW}.EndToEndLatency"),
        "Measure the latency from producer to consumer.",
    ),
    Command(
        "kafka-verifiable-producer",
        "verifiable_producer",
        (f"{_NEW}.VerifiableProducer",),
        "Produce numbers and report each in JSON, for tests.",
    ),
    Command(
        "kafka-verifiable-consumer",
        "verifiable_consumer",
        (f"{_NEW}.VerifiableConsumer",),
        "Consume and report in JSON, for tests.",
    ),
    Command(
        "kafka-replica-verification",
        "replica_verification",
        ("kafka.tools.ReplicaVerificationTool", f"{_NEW}.ReplicaVerificationTool"),
        "Compare the replicas of partitions.",
    ),
    Command(
        "kafka-acls",
        "acls",
        ("kafka.admin.AclCommand", f"{_NEW}.AclCommand"),
        "ACLs: add, remove, list.",
    ),
    Command(
        "kafka-client-metrics",
        "client_metrics",
        (f"{_NEW}.ClientMetricsCommand",),
        "Client metrics subscriptions.",
    ),
    Command("kafka-server-start", "server_start", ("kafka.Kafka",), "Run a node."),
    Command("kafka-server-stop", "server_stop", (), "Stop the nodes that run on this machine."),
    Command("kafka-run-class", "run_class", (), "Run one of these by the name of its Java class."),
    Command(
        "kafka-preferred-replica-election",
        "preferred_replica_election",
        ("kafka.admin.PreferredReplicaLeaderElectionCommand",),
        "Deprecated name of `kafka-leader-election --election-type preferred`.",
    ),
)

_GROUPS = "kafka-consumer-groups --bootstrap-server host:port --group NAME"
_RESETS = f"{_GROUPS} --reset-offsets"
_COPY = (
    "kafka-console-consumer --bootstrap-server host:port --topic FROM | kafka-console-producer ... --topic TO"
)
_NO_ZOOKEEPER = "ZooKeeper is no longer used: a node formatted by kafka-storage needs no other service."
_NO_CONNECT = (
    "Kafka Connect runs on the JVM. Use the one of Apache Kafka with bootstrap.servers of this cluster."
)

GONE = {
    "kafka.tools.ReplayLogProducer": f"ReplayLogProducer was removed. Pipe {_COPY}",
    "kafka.tools.SimpleConsumerShell": "SimpleConsumerShell was removed. Use "
    "kafka-console-consumer --bootstrap-server host:port --topic NAME --partition N --offset M",
    "kafka.tools.ConsumerOffsetChecker": f"ConsumerOffsetChecker was removed. Use {_GROUPS} --describe",
    "kafka.tools.ExportZkOffsets": "ExportZkOffsets was removed. "
    f"Use {_RESETS} --to-current --export --all-topics",
    "kafka.tools.ImportZkOffsets": f"ImportZkOffsets was removed. Use {_RESETS} --from-file FILE --execute",
    "kafka.tools.UpdateOffsetsInZK": "UpdateOffsetsInZK was removed. "
    f"Use {_RESETS} --topic NAME --to-earliest --execute",
    "kafka.tools.MirrorMaker": "MirrorMaker was removed. "
    f"Use connect-mirror-maker of Apache Kafka, or pipe {_COPY}",
    "kafka.tools.JmxTool": "A node has no JVM and so no JMX.",
    f"{_NEW}.JmxTool": "A node has no JVM and so no JMX.",
    "kafka.admin.ZkSecurityMigrator": _NO_ZOOKEEPER,
    "org.apache.zookeeper.server.quorum.QuorumPeerMain": _NO_ZOOKEEPER,
    "org.apache.zookeeper.ZooKeeperMain": _NO_ZOOKEEPER,
    "org.apache.kafka.connect.cli.ConnectStandalone": _NO_CONNECT,
    "org.apache.kafka.connect.cli.ConnectDistributed": _NO_CONNECT,
    "org.apache.kafka.connect.mirror.MirrorMaker": _NO_CONNECT,
}
"""Java classes in books without a replacement here, and the alternative for each."""

GONE_SCRIPTS = {
    "kafka-replay-log-producer": "kafka.tools.ReplayLogProducer",
    "kafka-simple-consumer-shell": "kafka.tools.SimpleConsumerShell",
    "kafka-consumer-offset-checker": "kafka.tools.ConsumerOffsetChecker",
}


def by_class() -> dict[str, Command]:
    """Java class -> the command that replaces it."""
    return {name: command for command in COMMANDS for name in command.classes}
