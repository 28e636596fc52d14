"""The client's TLS and SASL against Kafka: what works, and which error says what when it does not."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.client.config import AdminSettings
from ottla.client.connection_options import ConnectionOptions, Conversation
from ottla.client.errors import AuthenticationFailed, ClientError, Disconnected, TlsFailed
from ottla.client.net.cluster import Cluster
from ottla.client.net.connection import Link
from ottla.client.security import Plain
from ottla.host import HostClock, HostNetwork, HostRandom
from ottla.wire.messages.metadata import MetadataRequest
from tests.interop.library.secured import MECHANISMS, PASSWORD, USER, SecuredKafka

PATIENCE_SECONDS = 120


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as broker:
        yield broker


def token(**claims: object) -> str:
    now = int(time.time())
    parts: tuple[dict[str, Any], ...] = (
        {"alg": "none"},
        {"sub": USER, "iat": now, "exp": now + 600, **claims},
    )
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
    return ".".join(encoded) + "."


def login(mechanism: str, password: str = PASSWORD) -> dict[str, object]:
    if mechanism == "OAUTHBEARER":
        return {"sasl.mechanism": mechanism, "sasl.oauthbearer.token": token}
    return {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": password}


def settings_for(
    kafka: SecuredKafka, listener: str, host: str = "localhost", **more: Any
) -> dict[str, object]:
    protocol = {"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}[listener]
    found: dict[str, object] = {
        "bootstrap.servers": f"{host}:{kafka.ports[listener]}",
        "security.protocol": protocol,
    }
    if protocol.endswith("SSL"):
        found["ssl.truststore.location"] = str(kafka.certificates.authority)
    return found | {name.replace("_", "."): value for name, value in more.items()}


async def ask(settings: dict[str, object]) -> int:
    """The count of brokers that the client learns of."""
    cluster = Cluster(
        AdminSettings.parse(settings), clock=HostClock(), network=HostNetwork(), random=HostRandom()
    )
    try:
        await cluster.start(timeout_ms=PATIENCE_SECONDS * 1000)
        return len(cluster.view.brokers)
    finally:
        await cluster.close()


def refusal(settings: dict[str, object], kind: type[ClientError]) -> str:
    with pytest.raises(kind) as caught:
        asyncio.run(ask(settings))
    return str(caught.value)


async def first_failure(settings: dict[str, object]) -> str:
    """Why a first connection fails, where the client itself would try again."""
    parsed = AdminSettings.parse(settings)
    host, port = parsed.bootstrap_servers[0]
    with pytest.raises(ClientError) as caught:
        await Link.open(
            HostNetwork(), HostClock(), ConnectionOptions(), host, port, timeout_ms=PATIENCE_SECONDS * 1000
        )
    return str(caught.value)


@pytest.mark.parametrize("listener", ["SASL", "SASLTLS"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_right_credentials_are_taken(kafka: SecuredKafka, mechanism: str, listener: str) -> None:
    assert asyncio.run(ask(settings_for(kafka, listener) | login(mechanism))) == 1


def test_kafkas_jaas_form_is_taken(kafka: SecuredKafka) -> None:
    jaas = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{USER}" password="{PASSWORD}";'
    )
    settings = settings_for(kafka, "SASL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=jaas)
    assert asyncio.run(ask(settings)) == 1


@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_is_an_authentication_error(kafka: SecuredKafka, mechanism: str) -> None:
    told = refusal(settings_for(kafka, "SASL") | login(mechanism, "wrong"), AuthenticationFailed)
    assert "rejected the credentials" in told
    assert "wrong" not in told


def test_a_token_that_is_over_is_an_authentication_error(kafka: SecuredKafka) -> None:
    over = token(exp=int(time.time()) - 100, iat=int(time.time()) - 200)
    settings = settings_for(kafka, "SASL", sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=over)
    assert "rejected the" in refusal(settings, AuthenticationFailed)


def test_tls_with_the_right_authority_works_from_files_and_texts(kafka: SecuredKafka) -> None:
    assert asyncio.run(ask(settings_for(kafka, "TLS"))) == 1
    inline = settings_for(kafka, "TLS", ssl_truststore_certificates=kafka.certificates.text("authority.pem"))
    del inline["ssl.truststore.location"]
    assert asyncio.run(ask(inline)) == 1


def test_a_client_shows_its_certificate(kafka: SecuredKafka) -> None:
    settings = settings_for(kafka, "MUTUAL", ssl_keystore_location=str(kafka.certificates.client))
    assert asyncio.run(ask(settings)) == 1
    one_line = kafka.certificates.text("client.key").replace("\n", " ")
    inline = settings_for(
        kafka,
        "MUTUAL",
        ssl_keystore_key=one_line,
        ssl_keystore_certificate_chain=kafka.certificates.text("client.crt"),
    )
    assert asyncio.run(ask(inline)) == 1


def test_a_wrong_authority_is_a_tls_error(kafka: SecuredKafka) -> None:
    settings = settings_for(kafka, "TLS") | {"ssl.truststore.location": str(kafka.certificates.stranger)}
    assert "certificate verify failed" in refusal(settings, TlsFailed)
    settings.pop("ssl.truststore.location")  # then the system's authorities count, who do not know it either
    assert "certificate verify failed" in refusal(settings, TlsFailed)


def test_a_wrong_host_name_is_a_tls_error_unless_names_are_not_checked(kafka: SecuredKafka) -> None:
    settings = settings_for(kafka, "TLS", host="127.0.0.1")
    assert "127.0.0.1" in refusal(settings, TlsFailed)
    assert asyncio.run(ask(settings | {"ssl.endpoint.identification.algorithm": ""})) == 1


def test_plaintext_to_a_tls_port_says_so(kafka: SecuredKafka) -> None:
    told = asyncio.run(first_failure({"bootstrap.servers": f"localhost:{kafka.ports['TLS']}"}))
    assert "TLS" in told


def test_tls_to_a_plaintext_port_says_so(kafka: SecuredKafka) -> None:
    settings = settings_for(kafka, "TLS") | {"bootstrap.servers": f"localhost:{kafka.port}"}
    context = AdminSettings.parse(settings)

    async def run() -> str:
        from ottla.client.security import connection_options_for

        options = connection_options_for(
            context, clock=HostClock(), network=HostNetwork(), random=HostRandom()
        )
        with pytest.raises((TlsFailed, Disconnected)) as caught:
            await Link.open(
                HostNetwork(),
                HostClock(),
                options,
                "localhost",
                kafka.port,
                timeout_ms=PATIENCE_SECONDS * 1000,
            )
        return str(caught.value)

    assert "TLS" in asyncio.run(run())


def test_a_session_is_renewed_before_it_ends(kafka: SecuredKafka) -> None:
    made = 0

    async def conversation(host: str) -> Conversation:
        nonlocal made
        made += 1
        return Plain(USER, PASSWORD)

    async def run() -> int:
        options = ConnectionOptions(sasl_mechanism="PLAIN", conversation=conversation)
        link = await Link.open(
            HostNetwork(), HostClock(), options, "localhost", kafka.ports["SASL"], timeout_ms=60_000
        )
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while made < 2:
                    await asyncio.sleep(0.05)
            answer = await link.send(MetadataRequest(topics=[]), timeout_ms=60_000)
            return len(answer.brokers)
        finally:
            link.close()

    assert asyncio.run(run()) == 1


def test_records_go_to_a_secured_topic_and_back(kafka: SecuredKafka) -> None:
    settings = settings_for(kafka, "SASLTLS") | login("SCRAM-SHA-256")
    with ottla.Producer(settings) as producer:
        reports = [producer.send("secured", f"{number}".encode()) for number in range(10)]
        assert [report.result(PATIENCE_SECONDS).offset for report in reports] == list(range(10))
    found: list[bytes | None] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    reading = settings | {"auto.offset.reset": "earliest", "group.id": "secured"}
    with ottla.Consumer[bytes, bytes](reading) as consumer:
        consumer.subscribe(["secured"])
        while len(found) < 10:
            assert time.monotonic() < deadline, f"only {found} came"
            found += [record.value for record in consumer.poll(timeout=1.0)]
    assert found == [f"{number}".encode() for number in range(10)]


def test_files_that_are_no_pem_are_refused_with_the_way_to_convert_them(tmp_path: Path) -> None:
    from ottla.client.security.tls import context_of

    for content, told in ((b"\xfe\xed\xfe\xed\0", "keytool"), (b"0\x82\0\0", "PKCS12|openssl")):
        file = tmp_path / "store"
        file.write_bytes(content)
        settings = AdminSettings.parse("a:1", security_protocol="SSL", ssl_truststore_location=str(file))
        with pytest.raises(ClientError, match=told):
            context_of(settings)
