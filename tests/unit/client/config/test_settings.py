"""What can be set for a client, how it is written, and what is refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ottla.client.config import (
    AdminSettings,
    CommonSettings,
    ConfigError,
    ConsumerSettings,
    ProducerSettings,
    parameters,
)
from ottla.client.config.schema import CLIENTS
from ottla.config.values import ConfigType


def refusal(call: type[CommonSettings], *arguments: object, **keywords: object) -> str:
    with pytest.raises(ConfigError) as caught:
        call.parse(*arguments, **keywords)  # type: ignore[arg-type]
    return str(caught.value)


def test_dotted_names_in_a_mapping_and_keywords_in_snake_case_are_the_same() -> None:
    by_mapping = ProducerSettings.parse(
        {"bootstrap.servers": "a:1, b:2", "linger.ms": "7", "client.id": "c", "enable.metrics.push": " TRUE "}
    )
    by_keywords = ProducerSettings.parse(
        bootstrap_servers=["a:1", ("b", 2)], linger_ms=7, client_id="c", enable_metrics_push=True
    )
    assert by_mapping == by_keywords
    assert by_mapping.bootstrap_servers == (("a", 1), ("b", 2))
    assert by_mapping.linger_ms == 7


def test_a_text_alone_is_the_bootstrap_servers() -> None:
    assert ConsumerSettings.parse("[::1]:9092").bootstrap_servers == (("::1", 9092),)


def test_defaults_are_kafkas() -> None:
    producer = ProducerSettings.parse("a:1")
    assert (producer.linger_ms, producer.batch_size, producer.acks) == (5, 16384, -1)
    assert producer.retries == 2**31 - 1
    assert producer.enable_idempotence
    assert producer.key_serializer is None
    consumer = ConsumerSettings.parse("a:1", group_id="g")
    assert consumer.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert consumer.group_protocol == "classic"
    # On purpose not Kafka's: a fixed buffer of 64 KiB makes large fetches arrive in many small pieces.
    assert consumer.receive_buffer_bytes == -1
    assert AdminSettings.parse("a:1").connections_max_idle_ms == 300_000


@pytest.mark.parametrize("kind", CLIENTS)
def test_each_setting_has_a_document_line_and_a_default_that_it_takes_itself(kind: str) -> None:
    for parameter in parameters(kind).values():
        assert parameter.doc.endswith("."), parameter.name
        if parameter.default is not None and parameter.type is not ConfigType.CLASS:
            assert parameter.parse(parameter.default) == parameter.default_value


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    assert refusal(ProducerSettings, "a:1", linger_mss=5) == (
        "linger.mss is not a known setting of the producer. Did you mean linger.ms?"
    )
    assert "not of the consumer" in refusal(ConsumerSettings, "a:1", linger_ms=5)


def test_all_faults_are_told_at_once_and_passwords_are_not_shown() -> None:
    text = refusal(ProducerSettings, {"acks": "2", "batch.size": -1, "sasl.password": 1234})
    assert len(text.splitlines()) == 4
    assert "1234" not in text
    assert "bootstrap.servers is required" in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("linger.ms", 1.5),
        ("linger.ms", True),
        ("enable.idempotence", 1),
        ("client.id", 5),
        ("batch.size", [1]),
    ],
)
def test_a_python_value_of_the_wrong_type_is_refused(name: str, value: object) -> None:
    assert f"{name}={value} is not allowed" in refusal(
        ProducerSettings, {"bootstrap.servers": "a:1", name: value}
    )


def test_a_time_may_be_a_timedelta() -> None:
    assert ProducerSettings.parse("a:1", linger_ms=timedelta(seconds=1.5)).linger_ms == 1500
    settings = ProducerSettings.parse("a:1", sasl_login_refresh_buffer_seconds=timedelta(minutes=2))
    assert settings.sasl_login_refresh_buffer_seconds == 120


def test_none_stands_for_the_default_and_a_name_given_twice_is_refused() -> None:
    assert ProducerSettings.parse("a:1", linger_ms=None).linger_ms == 5
    assert "set twice" in refusal(ProducerSettings, {"linger.ms": 1}, linger_ms=2)


def test_settings_are_frozen_and_replaced_as_a_whole() -> None:
    settings = ProducerSettings.parse("a:1", acks="all", partitioner_class=len)
    with pytest.raises(AttributeError):
        settings.linger_ms = 6
    other = settings.replace(linger_ms=6)
    assert (other.linger_ms, other.acks, other.partitioner_class) == (6, -1, len)
    assert other.bootstrap_servers == settings.bootstrap_servers
    with pytest.raises(ConfigError):
        settings.replace(linger_ms=-1)


def test_the_representation_hides_passwords() -> None:
    shown = repr(ProducerSettings.parse("a:1", sasl_username="me", sasl_password="secret"))
    assert "me" in shown
    assert "secret" not in shown


def test_idempotence_that_was_not_asked_for_gives_way() -> None:
    assert not ProducerSettings.parse("a:1", acks=1).enable_idempotence
    assert not ProducerSettings.parse("a:1", retries=0).enable_idempotence
    assert "acks=all" in refusal(ProducerSettings, "a:1", acks=0, enable_idempotence=True)
    assert "retries" in refusal(ProducerSettings, "a:1", retries=0, enable_idempotence=True)
    assert "at most 5" in refusal(ProducerSettings, "a:1", max_in_flight_requests_per_connection=6)


def test_transactions_need_idempotence() -> None:
    assert "transactional.id" in refusal(ProducerSettings, "a:1", transactional_id="t", acks=1)
    assert ProducerSettings.parse("a:1", transactional_id="t").client_id == "producer-t"
    two_phases = {"transaction_two_phase_commit_enable": True, "transactional_id": "t"}
    assert "no time limit" in refusal(ProducerSettings, "a:1", transaction_timeout_ms=1, **two_phases)


def test_the_delivery_timeout_covers_linger_and_request() -> None:
    assert "at least" in refusal(ProducerSettings, "a:1", delivery_timeout_ms=30_000)
    raised = ProducerSettings.parse("a:1", linger_ms=100_000)
    assert raised.delivery_timeout_ms == 130_000
    assert raised.warnings


def test_a_reconnect_backoff_that_is_set_alone_does_not_grow() -> None:
    assert ProducerSettings.parse("a:1", reconnect_backoff_ms=9).reconnect_backoff_max_ms == 9
    assert ProducerSettings.parse("a:1").reconnect_backoff_max_ms == 1000


def test_auto_commit_needs_a_group() -> None:
    assert not ConsumerSettings.parse("a:1").enable_auto_commit
    assert ConsumerSettings.parse("a:1", group_id="g").enable_auto_commit
    assert "group.id" in refusal(ConsumerSettings, "a:1", enable_auto_commit=True)


def test_settings_of_the_other_group_protocol_are_refused() -> None:
    assert "session.timeout.ms" in refusal(
        ConsumerSettings, "a:1", group_protocol="CONSUMER", session_timeout_ms=9
    )
    assert "group.remote.assignor" in refusal(ConsumerSettings, "a:1", group_remote_assignor="uniform")
    settings = ConsumerSettings.parse("a:1", group_protocol="CONSUMER", group_remote_assignor="uniform")
    assert settings.group_protocol == "consumer"
    assert "less than" in refusal(ConsumerSettings, "a:1", heartbeat_interval_ms=45_000)


def test_an_admin_has_either_servers_or_controllers() -> None:
    assert "Set bootstrap.servers or bootstrap.controllers." in refusal(AdminSettings)
    assert "not both" in refusal(AdminSettings, "a:1", bootstrap_controllers="b:2")
    assert AdminSettings.parse(bootstrap_controllers="b:2").bootstrap_controllers == (("b", 2),)


def test_sasl_needs_a_mechanism_that_exists_here() -> None:
    assert "sasl.mechanism=GSSAPI" in refusal(AdminSettings, "a:1", security_protocol="sasl_ssl")
    settings = AdminSettings.parse("a:1", security_protocol="sasl_ssl", sasl_mechanism="PLAIN")
    assert settings.security_protocol == "SASL_SSL"


def test_what_has_no_meaning_outside_the_jvm_is_warned_of_or_refused() -> None:
    assert "no effect" in AdminSettings.parse("a:1", ssl_provider="BC").warnings[0]
    assert AdminSettings.parse("a:1", ssl_provider="").warnings == ()
    assert "Set ssl.context to an ssl.SSLContext" in refusal(
        AdminSettings, "a:1", ssl_engine_factory_class="x.Y"
    )


def test_offset_reset_by_duration_is_taken_and_other_words_are_not() -> None:
    for word in ("none", "earliest", "by_duration:P1DT2H"):
        assert ConsumerSettings.parse("a:1", auto_offset_reset=word).auto_offset_reset == word
    assert "by_duration" in refusal(ConsumerSettings, "a:1", auto_offset_reset="smallest")


def test_a_properties_file_may_serve_several_clients() -> None:
    text = "bootstrap.servers=a:1\nlinger.ms=4\n# no\nclient.idd=x\nretry.backoff.ms = 7\n"
    settings = AdminSettings.from_properties(text, {"client.id": "tool"}, origin="c.properties")
    assert (settings.retry_backoff_ms, settings.client_id) == (7, "tool")
    assert len(settings.warnings) == 1
    assert "c.properties, line 4" in settings.warnings[0]
    assert "client.id?" in settings.warnings[0]
    with pytest.raises(ConfigError):
        AdminSettings.from_properties("retries=x")


def test_a_properties_file_may_refer_to_the_environment_and_to_files() -> None:
    text = (
        "bootstrap.servers=a:1\nconfig.providers=env,file\nsasl.username=${env:ME}\nsasl.password=${file:/s:p}\n"
        "config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider\n"
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )
    settings = AdminSettings.from_properties(text, environment={"ME": "me"}, read=lambda path: b"p=secret")
    assert (settings.sasl_username, settings.sasl_password, settings.warnings) == ("me", "secret", ())
    with pytest.raises(ConfigError, match="ME"):
        AdminSettings.from_properties(text)
