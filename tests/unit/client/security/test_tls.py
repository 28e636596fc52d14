"""TLS contexts from settings."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

import pytest

import ottla
from ottla.client.config import AdminSettings
from ottla.client.errors import ConfigError
from ottla.client.security.tls import context_of, openssl_name


def tls(**keywords: object) -> AdminSettings:
    return AdminSettings.parse("a:1", security_protocol="SSL", **keywords)


def test_brokers_are_checked_by_authority_and_name_unless_told_otherwise() -> None:
    context = context_of(tls())
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    unnamed = context_of(tls(ssl_endpoint_identification_algorithm=""))
    assert not unnamed.check_hostname
    assert unnamed.verify_mode is ssl.CERT_REQUIRED


def test_versions_follow_the_settings() -> None:
    context = context_of(tls())
    assert (context.minimum_version, context.maximum_version) == (
        ssl.TLSVersion.TLSv1_2,
        ssl.TLSVersion.TLSv1_3,
    )
    assert context_of(tls(ssl_protocol="TLSv1.2")).maximum_version is ssl.TLSVersion.TLSv1_2
    assert context_of(tls(ssl_enabled_protocols="TLSv1.3")).minimum_version is ssl.TLSVersion.TLSv1_3


def test_cipher_suites_go_by_javas_names_too() -> None:
    names = {
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_RSA_WITH_AES_256_CBC_SHA256": "AES256-SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-AES128-SHA": "ECDHE-RSA-AES128-SHA",
    }
    assert {name: openssl_name(name) for name in names} == names
    context = context_of(tls(ssl_cipher_suites=["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]))
    chosen = {suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"}
    assert chosen == {"ECDHE-RSA-AES128-GCM-SHA256"}
    newest = context_of(tls(ssl_cipher_suites="TLS_AES_128_GCM_SHA256"))
    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3


def test_an_own_context_takes_the_place_of_all_settings() -> None:
    context = ssl.create_default_context()
    assert context_of(tls(ssl_context=context, ssl_truststore_location="/none")) is context


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"ssl_endpoint_identification_algorithm": "ldaps"}, "identification"),
        ({"ssl_enabled_protocols": "SSLv3"}, "enabled.protocols"),
        ({"ssl_cipher_suites": "TLS_NULL_WITH_NOTHING"}, "cipher.suites"),
        ({"ssl_context": 5}, "ssl.context"),
        ({"ssl_truststore_location": "/none/ca.pem"}, "Cannot read ssl.truststore.location=/none/ca.pem"),
        ({"ssl_truststore_certificates": "x", "ssl_truststore_location": "y"}, "not both"),
        ({"ssl_truststore_certificates": "no pem"}, "no readable certificates"),
        ({"ssl_keystore_key": "x"}, "Set both"),
        ({"ssl_keystore_key": "x", "ssl_keystore_location": "y"}, "not both"),
        ({"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "y"}, "ssl.keystore.key"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        context_of(tls(**settings))


def test_a_file_must_be_what_its_type_says(tmp_path: Path) -> None:
    file = tmp_path / "store"
    file.write_bytes(b"nothing")
    for kind, told in (("PEM", "no PEM certificate"), ("BKS", "truststore.type=BKS"), ("PKCS12", "PKCS12")):
        with pytest.raises(ConfigError, match=told):
            context_of(tls(ssl_truststore_location=str(file), ssl_truststore_type=kind))


def test_a_client_whose_settings_cannot_be_used_leaves_no_thread_behind() -> None:
    before = set(threading.enumerate())
    for kind in (ottla.Consumer, ottla.Producer):
        with pytest.raises(ConfigError, match="truststore"):
            kind("localhost:1", security_protocol="SSL", ssl_truststore_location="/none/ca.pem")
    assert set(threading.enumerate()) <= before
