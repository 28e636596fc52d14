"""A TLS context from `ssl.*` settings: PEM certificates in the settings or in files.

Rule: unusable settings are rejected when the client is created, with the setting's name; a requested check is
never skipped.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

from ottla.client.config import CommonSettings
from ottla.client.errors import ConfigError

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_NEWEST_SUITES = ("TLS_AES_", "TLS_CHACHA20_")
_KINDS = ("PEM", "PKCS12", "JKS")
_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def context_of(settings: CommonSettings) -> ssl.SSLContext:
    """The context for connections to brokers."""
    if settings.ssl_context is not None:
        if not isinstance(settings.ssl_context, ssl.SSLContext):
            raise ConfigError("ssl.context must be an ssl.SSLContext.")
        return settings.ssl_context
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = _checks_names(settings)
    _set_versions(context, settings)
    _set_suites(context, settings)
    _trust(context, settings)
    _identify(context, settings)
    return context


def _checks_names(settings: CommonSettings) -> bool:
    algorithm = settings.ssl_endpoint_identification_algorithm.lower()
    if algorithm not in ("https", ""):
        raise ConfigError(
            f"ssl.endpoint.identification.algorithm={algorithm} is unknown. Use https, or an empty string "
            "to skip the check of host names."
        )
    return algorithm == "https"


def _set_versions(context: ssl.SSLContext, settings: CommonSettings) -> None:
    unknown = [name for name in settings.ssl_enabled_protocols if name not in _VERSIONS]
    if unknown or not settings.ssl_enabled_protocols:
        raise ConfigError(
            f"ssl.enabled.protocols={','.join(settings.ssl_enabled_protocols)} is invalid. Use one or more "
            f"of {', '.join(_VERSIONS)}."
        )
    enabled = [_VERSIONS[name] for name in settings.ssl_enabled_protocols]
    newest = _VERSIONS.get(settings.ssl_protocol, max(enabled))
    context.minimum_version = min(min(enabled), newest)
    context.maximum_version = min(max(enabled), newest)


def _set_suites(context: ssl.SSLContext, settings: CommonSettings) -> None:
    named = [suite for suite in settings.ssl_cipher_suites if suite]
    older = [openssl_name(suite) for suite in named if not suite.startswith(_NEWEST_SUITES)]
    if not named:
        return
    if not older:  # Python cannot choose among the suites of TLS 1.3; there are only safe ones
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError as error:
        raise ConfigError(
            f"ssl.cipher.suites={','.join(named)} contains no suite that this OpenSSL supports."
        ) from error


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite, such as `ECDHE-RSA-AES128-GCM-SHA256`; accepts Java's names."""
    if not suite.startswith("TLS_"):
        return suite
    exchange, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if cipher.startswith("CHACHA20"):
        cipher = "CHACHA20-POLY1305"
    cipher = re.sub(r"AES_(\d+)", r"AES\1", cipher).replace("_CBC", "").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"


# Certificates -------------------------------------------------------------------------------------------


def _trust(context: ssl.SSLContext, settings: CommonSettings) -> None:
    inline, location = settings.ssl_truststore_certificates, settings.ssl_truststore_location
    if inline and location:
        raise ConfigError("Set ssl.truststore.certificates or ssl.truststore.location, not both.")
    if not inline and not location:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    name = "ssl.truststore.certificates" if inline else f"ssl.truststore.location={location}"
    kind, password = settings.ssl_truststore_type, settings.ssl_truststore_password
    pem = inline or _pem_of(location or "", "ssl.truststore.location", kind, password)
    try:
        context.load_verify_locations(cadata=_unfolded(pem))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{name} contains no readable certificates: {error}.") from error


def _identify(context: ssl.SSLContext, settings: CommonSettings) -> None:
    key, chain, location = (
        settings.ssl_keystore_key,
        settings.ssl_keystore_certificate_chain,
        settings.ssl_keystore_location,
    )
    if location and (key or chain):
        raise ConfigError(
            "Set ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain, not both."
        )
    if not location and not key and not chain:
        return
    if bool(key) != bool(chain):
        raise ConfigError("Set both ssl.keystore.key and ssl.keystore.certificate.chain.")
    password = settings.ssl_key_password
    if location:
        name = f"ssl.keystore.location={location}"
        kind = settings.ssl_keystore_type
        pem = _pem_of(location, "ssl.keystore.location", kind, settings.ssl_keystore_password)
        password = password or settings.ssl_keystore_password
    else:
        name = "ssl.keystore.key"
        pem = f"{_unfolded(key or '')}\n{_unfolded(chain or '')}"
    _load_chain(context, name, pem, lambda: password or "")


def _load_chain(context: ssl.SSLContext, name: str, pem: str, password: Callable[[], str]) -> None:
    """Load a key through a temporary file that only this user can read: Python reads keys only from files."""
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name, password=password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{name} contains no readable key and certificates. Is ssl.key.password right? ({error})"
        ) from error


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


def _unfolded(pem: str) -> str:
    """PEM with line breaks: in one line of a properties file, blanks may replace them."""
    if "\n" in pem.strip():
        return pem

    def block(match: re.Match[str]) -> str:
        body = "\n".join(match[2].split())
        return f"-----BEGIN {match[1]}-----\n{body}\n-----END {match[1]}-----\n"

    return _BLOCK.sub(block, pem)


def _pem_of(location: str, setting: str, kind: str, password: str | None) -> str:
    """The content of a file as PEM, recognized by its content, not by `kind`.

    Converts PKCS12 files if the package `cryptography` is installed.
    """
    if kind.upper() not in _KINDS:
        raise ConfigError(f"{setting.replace('location', 'type')}={kind} is not one of {', '.join(_KINDS)}.")
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"Cannot read {setting}={location}: {error.strerror}.") from error
    if b"-----BEGIN" in content:
        return content.decode("ascii", "replace")
    if kind.upper() == "PEM":
        raise ConfigError(f"{setting}={location} contains no PEM certificate or key.")
    if content[:4] in _JKS:
        raise ConfigError(
            f"{setting}={location} is a JKS file, which only a JVM can read. Convert it to PEM with "
            f"`keytool -importkeystore -srckeystore {location} -destkeystore store.p12 -deststoretype "
            "PKCS12` and `openssl pkcs12 -in store.p12 -nodes -out store.pem`."
        )
    return _pem_of_pkcs12(content, location, setting, password)


def _pem_of_pkcs12(content: bytes, location: str, setting: str, password: str | None) -> str:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            f"{setting}={location} is not a PEM file. Convert it with `openssl pkcs12 -in {location} -nodes "
            "-out store.pem`, or install the package cryptography, which reads PKCS12."
        ) from None
    try:
        store = pkcs12.load_pkcs12(content, password.encode() if password else None)
    except ValueError as error:
        raise ConfigError(f"Cannot read {setting}={location} as PKCS12. Is its password right?") from error
    parts: list[bytes] = []
    if store.key is not None:
        parts.append(
            store.key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    for found in (store.cert, *store.additional_certs):
        if found is not None:
            parts.append(found.certificate.public_bytes(serialization.Encoding.PEM))
    return b"".join(parts).decode()
