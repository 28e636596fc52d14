"""Kafka with a listener for each way to be secure, its certificates made on the spot."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.interop import peers

USER, PASSWORD = "alice", "alice-secret"
LISTENERS = {"TLS": "SSL", "MUTUAL": "SSL", "SASL": "SASL_PLAINTEXT", "SASLTLS": "SASL_SSL"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS = 4000
_MODULES = "org.apache.kafka.common.security"


class Certificates:
    """An authority, what it has signed for `localhost` and for a client, and another authority."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = self._authority("authority")
        self.stranger = self._authority("stranger")
        self.server = self._signed("server", "subjectAltName=DNS:localhost")
        self.client = self._signed("client", "extendedKeyUsage=clientAuth")

    def _openssl(self, *arguments: str) -> None:
        command = ["openssl", *arguments]
        result = subprocess.run(command, cwd=self._directory, capture_output=True, text=True, check=False)
        assert result.returncode == 0, f"{' '.join(command)}:\n{result.stderr}"

    def _authority(self, name: str) -> Path:
        made = ("-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "30", "-subj", f"/CN={name}")
        self._openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", *made)
        return self._directory / f"{name}.pem"

    def _signed(self, name: str, extension: str) -> Path:
        """A file with key and certificate."""
        self._openssl(
            "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
            f"/CN={name}",
        )  # fmt: skip
        (self._directory / f"{name}.ext").write_text(f"{extension}\n")
        self._openssl(
            "x509", "-req", "-in", f"{name}.csr", "-CA", "authority.pem", "-CAkey", "authority.key",
            "-CAcreateserial", "-days", "30", "-extfile", f"{name}.ext", "-out", f"{name}.crt",
        )  # fmt: skip
        both = self._directory / f"{name}.pem"
        both.write_text((self.text(f"{name}.key")) + self.text(f"{name}.crt"))
        return both

    def text(self, name: str) -> str:
        return (self._directory / name).read_text()


class SecuredKafka(peers.KafkaBroker):
    """A Kafka node that knows one user by every mechanism."""

    def __init__(self, directory: Path) -> None:
        self.certificates = Certificates(directory / "certificates")
        self.ports = {listener: peers.free_port() for listener in LISTENERS}
        super().__init__(directory / "node")
        self.extra_properties = self._secured()

    def _secured(self) -> dict[str, str]:
        addresses = {"PLAINTEXT": self.port, **self.ports}
        listeners = [f"{name}://127.0.0.1:{port}" for name, port in addresses.items()]
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **LISTENERS}
        found = {
            "listeners": ",".join([*listeners, f"CONTROLLER://127.0.0.1:{self.controller_port}"]),
            "advertised.listeners": ",".join(
                f"{name}://localhost:{port}" for name, port in addresses.items()
            ),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.certificates.server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.sasl.connections.max.reauth.ms": str(SESSION_MS),
        }
        plain = f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
        scram = f"{_MODULES}.scram.ScramLoginModule required;"
        bearer = f'{_MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="x";'
        logins = dict(zip(MECHANISMS, (plain, scram, scram, bearer), strict=True))
        for listener in ("sasl", "sasltls"):
            found[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
            for mechanism, login in logins.items():
                found[f"listener.name.{listener}.{mechanism.lower()}.sasl.jaas.config"] = login
        return found

    def format_command(self) -> list[str]:
        known = [f"{mechanism}=[name={USER},password={PASSWORD}]" for mechanism in MECHANISMS[1:3]]
        return super().format_command() + [part for one in known for part in ("--add-scram", one)]
