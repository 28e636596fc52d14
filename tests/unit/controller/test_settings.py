"""Settings, features, quotas, producer ids: what is accepted, and what is refused with which words."""

from __future__ import annotations

import pytest

from ottla.controller.configs import alter_configs, incremental_alter_configs
from ottla.controller.feature_levels import (
    METADATA_VERSION_LATEST,
    metadata_version_of_release,
    resolve_features,
)
from ottla.controller.features import update_features
from ottla.controller.producer_ids import allocate_producer_ids
from ottla.controller.quotas import alter_client_quotas, describe_client_quotas
from ottla.wire.errors import ErrorCode, InvalidRequest, StaleBrokerEpoch, UnsupportedVersion
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.alter_configs import AlterConfigsRequest
from ottla.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.wire.messages.metadata_records import ClearElrRecord, ConfigRecord
from ottla.wire.messages.update_features import UpdateFeaturesRequest

from .cluster import Cluster

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster().start(1)
    cluster.create("t", [1])
    return cluster


def change(
    cluster: Cluster, kind: int, name: str, *settings: tuple[str, int, str | None]
) -> tuple[str, str | None]:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in settings
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    answer = cluster.do(incremental_alter_configs, request).responses[0]
    return ErrorCode(answer.error_code).name, answer.error_message


class TestConfigs:
    def test_single_settings_are_set_and_removed(self, cluster: Cluster) -> None:
        assert change(cluster, TOPIC, "t", ("retention.ms", SET, "5")) == ("NONE", None)
        assert cluster.image.topic_config("t") == {"retention.ms": "5"}
        before = len(cluster.log)
        change(cluster, TOPIC, "t", ("retention.ms", SET, "5"))
        assert len(cluster.log) == before
        change(cluster, TOPIC, "t", ("retention.ms", DELETE, None))
        assert cluster.image.topic_config("t") == {}

    def test_lists_grow_and_shrink(self, cluster: Cluster) -> None:
        change(cluster, TOPIC, "t", ("cleanup.policy", APPEND, "compact"))
        assert cluster.image.topic_config("t") == {"cleanup.policy": "delete,compact"}
        change(cluster, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete"))
        assert cluster.image.topic_config("t") == {"cleanup.policy": "compact"}
        assert change(cluster, TOPIC, "t", ("retention.ms", APPEND, "5")) == (
            "INVALID_CONFIG",
            "Can't APPEND to key retention.ms because its type is not LIST.",
        )

    @pytest.mark.parametrize(
        ("kind", "name", "setting", "expected"),
        [
            (
                TOPIC,
                "no",
                ("retention.ms", SET, "5"),
                ("UNKNOWN_TOPIC_OR_PARTITION", "The topic 'no' does not exist."),
            ),
            (
                TOPIC,
                "",
                ("retention.ms", SET, "5"),
                ("INVALID_REQUEST", "Default topic resources are not allowed."),
            ),
            (TOPIC, "t", ("no.such", SET, "5"), ("INVALID_CONFIG", "Unknown topic config name: no.such")),
            (
                TOPIC,
                "t",
                ("retention.ms", SET, "soon"),
                (
                    "INVALID_CONFIG",
                    "Invalid value soon for configuration retention.ms: Not a number of type LONG",
                ),
            ),
            (
                BROKER,
                "9",
                ("log.retention.ms", SET, "5"),
                ("BROKER_ID_NOT_REGISTERED", "No node with id 9 found."),
            ),
            (
                BROKER,
                "x",
                ("log.retention.ms", SET, "5"),
                ("INVALID_REQUEST", "Unable to parse broker name as a base 10 number."),
            ),
            (3, "t", ("x", SET, "5"), ("UNSUPPORTED_VERSION", "Unknown resource type 3.")),
            (TOPIC, "t", ("retention.ms", 9, "5"), ("INVALID_REQUEST", "Unknown operations type 9")),
            (
                BROKER,
                "1",
                ("min.insync.replicas", SET, "2"),
                (
                    "INVALID_CONFIG",
                    "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
                ),
            ),
            (
                BROKER,
                "",
                ("min.insync.replicas", DELETE, None),
                (
                    "INVALID_CONFIG",
                    "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
                ),
            ),
        ],
    )
    def test_what_cannot_be_is_refused(
        self,
        cluster: Cluster,
        kind: int,
        name: str,
        setting: tuple[str, int, str | None],
        expected: tuple[str, str],
    ) -> None:
        before = len(cluster.log)
        assert change(cluster, kind, name, setting) == expected
        assert len(cluster.log) == before

    def test_a_new_minimum_of_in_sync_replicas_clears_what_is_known_of_eligible_ones(
        self, cluster: Cluster
    ) -> None:
        change(cluster, TOPIC, "t", ("min.insync.replicas", SET, "2"))
        assert cluster.log[-1] == ClearElrRecord(topic_name="t")
        change(cluster, BROKER, "", ("min.insync.replicas", SET, "2"))
        assert cluster.log[-1] == ClearElrRecord()

    def test_a_resource_that_comes_twice_is_refused_and_not_changed(self, cluster: Cluster) -> None:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC,
            resource_name="t",
            configs=[IncrementalAlterConfigsRequest.AlterableConfig(name="retention.ms", value="5")],
        )
        response = cluster.do(
            incremental_alter_configs, IncrementalAlterConfigsRequest(resources=[resource] * 2)
        )
        assert [r.error_message for r in response.responses] == ["Duplicate resource."]
        assert cluster.image.topic_config("t") == {}

    def test_alter_configs_replaces_everything(self, cluster: Cluster) -> None:
        change(cluster, TOPIC, "t", ("retention.ms", SET, "5"), ("cleanup.policy", SET, "compact"))
        configs = [AlterConfigsRequest.AlterableConfig(name="retention.ms", value="6")]
        resource = AlterConfigsRequest.AlterConfigsResource(
            resource_type=TOPIC, resource_name="t", configs=configs
        )
        cluster.do(alter_configs, AlterConfigsRequest(resources=[resource], validate_only=True))
        assert cluster.image.topic_config("t") == {"retention.ms": "5", "cleanup.policy": "compact"}
        cluster.do(alter_configs, AlterConfigsRequest(resources=[resource]))
        assert cluster.image.topic_config("t") == {"retention.ms": "6"}


def update(
    cluster: Cluster, name: str, level: int, kind: int = 1, version: int = 2
) -> tuple[str, str | None]:
    updates = [
        UpdateFeaturesRequest.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    ]
    response = cluster.do(update_features, UpdateFeaturesRequest(feature_updates=updates), version)
    return ErrorCode(response.error_code).name, response.error_message


class TestFeatures:
    prefix = "The update failed for all features since the following feature had an error: "

    def test_a_level_is_raised_and_lowered(self) -> None:
        cluster = Cluster(features={"group.version": 0}).start(1)
        assert update(cluster, "group.version", 1) == ("NONE", None)
        assert cluster.image.features["group.version"] == 1
        assert update(cluster, "group.version", 0, kind=2) == ("NONE", None)
        assert "group.version" not in cluster.image.features

    def test_the_metadata_version_is_raised(self) -> None:
        cluster = Cluster(release="4.0").start(1)
        assert cluster.image.metadata_version == 25
        assert update(cluster, "metadata.version", 30) == ("NONE", None)
        assert cluster.image.metadata_version == METADATA_VERSION_LATEST

    def test_switching_on_eligible_leader_replicas_makes_the_minimum_the_clusters(self) -> None:
        cluster = Cluster(features={"eligible.leader.replicas.version": 0}).start(1)
        cluster.apply(
            [ConfigRecord(resource_type=BROKER, resource_name="1", name="min.insync.replicas", value="2")]
        )
        assert update(cluster, "eligible.leader.replicas.version", 1) == ("NONE", None)
        assert cluster.image.config(BROKER, "") == {"min.insync.replicas": "1"}
        assert cluster.image.config(BROKER, "1") == {}
        assert cluster.image.is_elr_enabled

    @pytest.mark.parametrize(
        ("name", "level", "kind", "message"),
        [
            (
                "group.version",
                0,
                1,
                "Invalid update version 0 for feature group.version. Can't downgrade the version of this "
                "feature without setting the upgrade type to either safe or unsafe downgrade.",
            ),
            (
                "group.version",
                1,
                9,
                "Invalid update version 1 for feature group.version. The controller does not support the "
                "given upgrade type.",
            ),
            (
                "group.version",
                7,
                1,
                "Invalid update version 7 for feature group.version. Local controller 1 only supports "
                "versions 0-1",
            ),
            (
                "no.such",
                1,
                1,
                "Invalid update version 1 for feature no.such. Local controller 1 does not support this "
                "feature.",
            ),
            (
                "metadata.version",
                25,
                2,
                "Unsupported metadata.version downgrade from 30 to 25. Refusing to perform the requested "
                "downgrade because it might delete metadata information.",
            ),
            (
                "metadata.version",
                25,
                3,
                "Unsupported metadata.version downgrade from 30 to 25. Unsafe metadata downgrade is not "
                "supported in this version.",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, name: str, level: int, kind: int, message: str) -> None:
        code = "INVALID_UPDATE_VERSION"
        assert update(Cluster().start(1), name, level, kind) == (code, self.prefix + message)

    def test_raising_kraft_version_is_handed_to_the_quorum(self) -> None:
        cluster = Cluster().start(1)
        updates = [UpdateFeaturesRequest.FeatureUpdateKey(feature="kraft.version", max_version_level=1)]
        result = update_features(cluster.state, UpdateFeaturesRequest(feature_updates=updates), 2)
        assert result.kraft_version == 1

    def test_releases_stand_for_levels(self) -> None:
        assert metadata_version_of_release("4.3.1").level == 30
        assert metadata_version_of_release("3.7").name == "3.7-IV4"
        assert metadata_version_of_release("4.0-IV1").level == 23
        with pytest.raises(ValueError, match=r"Unknown metadata.version '9.9'"):
            metadata_version_of_release("9.9")

    def test_a_new_cluster_starts_with_the_defaults_of_its_release(self) -> None:
        assert resolve_features(release=None, features={}) == {
            "metadata.version": 30, "kraft.version": 0, "transaction.version": 2, "group.version": 1,
            "eligible.leader.replicas.version": 1, "share.version": 1, "streams.version": 1,
        }  # fmt: skip
        old = resolve_features(release="3.9", features={"group.version": 1})
        assert (old["transaction.version"], old["group.version"], old["share.version"]) == (0, 1, 0)

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            ({"no": 1}, "Unsupported feature: no. Supported features are: eligible.leader"),
            ({"group.version": 5}, "No feature:group.version with feature level 5"),
            ({"kraft.version": 1}, "Cannot set kraft.version to 1 unless"),
            ({"metadata.version": 31}, "metadata.version 4.4-IV0 is not yet stable."),
            (
                {"metadata.version": 20, "eligible.leader.replicas.version": 1},
                "depends on metadata.version level 23",
            ),
        ],
    )
    def test_levels_that_cannot_be_formatted_are_refused(
        self, features: dict[str, int], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            resolve_features(release=None, features=features)


class TestProducerIds:
    def test_blocks_follow_each_other(self) -> None:
        cluster = Cluster().start(1)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=cluster.epochs[1])
        first = cluster.do(allocate_producer_ids, request)
        second = cluster.do(allocate_producer_ids, request)
        assert (first.producer_id_start, first.producer_id_len) == (0, 1000)
        assert second.producer_id_start == 1000

    def test_an_unknown_broker_gets_none(self) -> None:
        with pytest.raises(StaleBrokerEpoch):
            Cluster().do(allocate_producer_ids, AllocateProducerIdsRequest(broker_id=1))


Entity = dict[str, str | None]


def quota(cluster: Cluster, entity: Entity, *ops: tuple[str, float | None]) -> tuple[str, str | None]:
    entry = AlterClientQuotasRequest.EntryData(
        entity=[AlterClientQuotasRequest.EntityData(entity_type=k, entity_name=n) for k, n in entity.items()],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in ops
        ],
    )
    answer = cluster.do(alter_client_quotas, AlterClientQuotasRequest(entries=[entry])).entries[0]
    return ErrorCode(answer.error_code).name, answer.error_message


def described(
    cluster: Cluster, *components: tuple[str, int, str | None], strict: bool = False
) -> list[dict[str, float]]:
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequest.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    entries = describe_client_quotas(cluster.image, request).entries or []
    return [{value.key: value.value for value in entry.values} for entry in entries]


class TestQuotas:
    def test_they_are_set_changed_and_removed(self) -> None:
        cluster = Cluster()
        assert quota(cluster, {"user": "alice"}, ("producer_byte_rate", 1000.0)) == ("NONE", None)
        quota(cluster, {"user": "alice", "client-id": None}, ("request_percentage", 12.5))
        assert described(cluster, ("user", 0, "alice")) == [
            {"producer_byte_rate": 1000.0},
            {"request_percentage": 12.5},
        ]
        assert described(cluster, ("user", 0, "alice"), strict=True) == [{"producer_byte_rate": 1000.0}]
        assert described(cluster, ("client-id", 1, None)) == [{"request_percentage": 12.5}]
        assert described(cluster, ("user", 2, None), ("client-id", 2, None)) == [{"request_percentage": 12.5}]
        quota(cluster, {"user": "alice"}, ("producer_byte_rate", None))
        assert described(cluster, ("user", 0, "alice"), strict=True) == []

    @pytest.mark.parametrize(
        ("entity", "op", "message"),
        [
            ({}, ("producer_byte_rate", 1.0), "Invalid empty client quota entity"),
            ({"planet": "x"}, ("producer_byte_rate", 1.0), "Unhandled client quota entity type: planet"),
            ({"user": ""}, ("producer_byte_rate", 1.0), "Empty user not supported"),
            (
                {"user": "a"},
                ("connection_creation_rate", 1.0),
                "Invalid configuration key connection_creation_rate",
            ),
            ({"user": "a"}, ("producer_byte_rate", -1.0), "Quota producer_byte_rate must be greater than 0"),
            ({"user": "a"}, ("producer_byte_rate", 1.5), "producer_byte_rate cannot be a fractional value."),
            ({"user": "a"}, ("producer_byte_rate", 1e-7), "Quota producer_byte_rate must be at least 1."),
            (
                {"ip": None},
                ("connection_creation_rate", 5e-324),
                "Quota connection_creation_rate must be at least 1.",
            ),
            (
                {"ip": "10.0.0.1"},
                ("connection_creation_rate", 3e9),
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
            (
                {"ip": "no where"},
                ("connection_creation_rate", 1.0),
                "no where is not a valid IP or resolvable host.",
            ),
            (
                {"ip": "10.0.0.1", "user": "a"},
                ("connection_creation_rate", 1.0),
                "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId",
            ),
        ],
    )
    def test_what_cannot_be_is_refused(self, entity: Entity, op: tuple[str, float], message: str) -> None:
        assert quota(Cluster(), entity, op) == ("INVALID_REQUEST", message)

    def test_a_filter_must_make_sense(self) -> None:
        cluster = Cluster()
        with pytest.raises(InvalidRequest):
            described(cluster, ("user", 0, None))
        with pytest.raises(InvalidRequest):
            described(cluster, ("user", 1, None), ("user", 1, None))
        with pytest.raises(InvalidRequest):
            described(cluster, ("user", 2, None), ("ip", 2, None))
        with pytest.raises(UnsupportedVersion):
            described(cluster, ("planet", 2, None))
