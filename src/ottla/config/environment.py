"""Settings from environment variables, by the rules of Kafka's container image.

`KAFKA_LOG_RETENTION_MS` sets `log.retention.ms`: the prefix is removed, letters become lower case, `___`
becomes a dash, `__` an underscore and `_` a dot. Variables for the JVM and its scripts are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping

PREFIX = "KAFKA_"

_NOT_SETTINGS = frozenset(
    (
        # excluded by the image
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_LOG4J_OPTS",
        "KAFKA_OPTS",
        "KAFKA_JMX_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_LOG4J_ROOT_LOGLEVEL",
        "KAFKA_LOG4J_LOGGERS",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_JMX_HOSTNAME",
        # used by the start scripts
        "KAFKA_HOME",
        "KAFKA_DEBUG",
        "KAFKA_JMX_PORT",
        "KAFKA_JDK_COMPATIBILITY_OPTS",
        "KAFKA_LOG4J_CMD_OPTS",
        # the image converts them into other variables
        "KAFKA_SSL_KEYSTORE_FILENAME",
        "KAFKA_SSL_KEY_CREDENTIALS",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS",
        "KAFKA_SSL_TRUSTSTORE_FILENAME",
        "KAFKA_SSL_TRUSTSTORE_CREDENTIALS",
    )
)


def setting_name(variable: str) -> str | None:
    """The setting of a variable; None if it is not a setting."""
    if not variable.startswith(PREFIX) or variable in _NOT_SETTINGS or len(variable) == len(PREFIX):
        return None
    dotted = variable.removeprefix(PREFIX).lower().replace("_", ".")
    return dotted.replace("...", "-").replace("..", "_")


def settings(environment: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """{setting: (value, variable)}, sorted by variable."""
    found: dict[str, tuple[str, str]] = {}
    for variable in sorted(environment):
        name = setting_name(variable)
        if name is not None:
            found[name] = (environment[variable], variable)
    return found


def listeners_from_advertised(advertised: str) -> str:
    """The image's listeners if only advertised listeners are given: the same ports, on every interface."""
    entries = []
    for entry in advertised.split(","):
        name, separator, address = entry.strip().partition("://")
        port = address.rpartition(":")[2]
        entries.append(f"{name}{separator}0.0.0.0:{port}" if separator else entry)
    return ",".join(entries)
