"""The settings of clients: definitions, parsing, checks. Pure.

`ProducerSettings.parse({"linger.ms": 5})` parses values; `from_properties` reads files.
"""

from ottla.client.config.schema import Parameter, parameters
from ottla.client.config.settings import AdminSettings, CommonSettings, ConsumerSettings, ProducerSettings
from ottla.client.errors import ConfigError

__all__ = [
    "AdminSettings",
    "CommonSettings",
    "ConfigError",
    "ConsumerSettings",
    "Parameter",
    "ProducerSettings",
    "parameters",
]
