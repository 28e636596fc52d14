"""What can be set for a client: definitions, parsing, checks. Pure.

`ProducerSettings.parse({"linger.ms": 5})` and its like read values, `from_properties` reads files.
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
