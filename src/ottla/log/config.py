"""The settings of one topic as its logs use them, with Kafka's defaults.

A `LogConfig` is a value: a changed setting is a new `LogConfig` handed to `Log.reconfigure`. The texts come
already resolved (topic override, else broker setting, else default), so this module knows no sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from ottla.records.batch import Codec, TimestampType
from ottla.records.validate import ProduceRules

_HOUR_MS = 60 * 60 * 1000
_LONG_MAX = 2**63 - 1
FLUSH_MESSAGES_NEVER = _LONG_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """Every topic setting, in Python's types."""

    cleanup_policy: frozenset[str] = frozenset(("delete",))
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_type: str = "producer"
    compression_zstd_level: int = 3
    delete_retention_ms: int = 24 * _HOUR_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = FLUSH_MESSAGES_NEVER
    flush_ms: int = _LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    local_retention_bytes: int = -2
    local_retention_ms: int = -2
    max_compaction_lag_ms: int = _LONG_MAX
    max_message_bytes: int = 1024 * 1024 + 12
    message_timestamp_after_max_ms: int = _HOUR_MS
    message_timestamp_before_max_ms: int = _LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    remote_log_copy_disable: bool = False
    remote_log_delete_on_disable: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * 24 * _HOUR_MS
    segment_bytes: int = 1024 * 1024 * 1024
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * 24 * _HOUR_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> LogConfig:
        """The settings named in `texts` (Kafka's names and spelling), defaults for the rest.

        Names that are no topic setting are ignored; a text of the wrong kind is a ValueError.
        """
        values: dict[str, Any] = {}
        for setting, (field, parse) in _SETTINGS.items():
            text = texts.get(setting)
            if text is None:
                continue
            try:
                values[field] = parse(text)
            except ValueError as error:
                raise ValueError(f"{setting}={text!r} is invalid: {error}.") from None
        return cls(**values)

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether age and size delete old segments."""
        return "delete" in self.cleanup_policy

    @property
    def roll_ms(self) -> int:
        """How long a segment may take appends: a compacted topic rolls in time to be compacted in time."""
        if self.is_compacted and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    def produce_rules(self, topic_partition: str) -> ProduceRules:
        """What an append to the partition must satisfy."""
        codec = None if self.compression_type == "producer" else Codec.from_name(self.compression_type)
        level = None
        if codec == Codec.GZIP:
            level = self.compression_gzip_level
        elif codec == Codec.LZ4:
            level = self.compression_lz4_level
        elif codec == Codec.ZSTD:
            level = self.compression_zstd_level
        is_append_time = self.message_timestamp_type == "LogAppendTime"
        return ProduceRules(
            topic_partition=topic_partition,
            max_message_bytes=self.max_message_bytes,
            compacted=self.is_compacted,
            timestamp_type=TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            codec=codec,
            compression_level=level,
        )


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError("it must be true or false")
    return word == "true"


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("it must be an integer") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError("it must be a number") from None


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _policies(text: str) -> frozenset[str]:
    policies = frozenset(word.lower() for word in _words(text))
    unknown = policies - {"compact", "delete"}
    if unknown:
        raise ValueError("it may contain only compact and delete")
    return policies


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in words:
            raise ValueError(f"it must be one of {', '.join(words)}")
        return text

    return parse


_PARSERS: dict[str, Callable[[str], Any]] = {
    "bool": _boolean,
    "int": _integer,
    "float": _number,
    "tuple[str, ...]": _words,
    "frozenset[str]": _policies,
}
_CHOICES: dict[str, Callable[[str], Any]] = {
    "compression_type": _one_of("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message_timestamp_type": _one_of("CreateTime", "LogAppendTime"),
}


def _settings() -> dict[str, tuple[str, Callable[[str], Any]]]:
    """Kafka's name of a setting -> our field and its parser. The last entry of a field wins."""
    table: dict[str, tuple[str, Callable[[str], Any]]] = {}
    for field in fields(LogConfig):
        parser = _CHOICES.get(field.name) or _PARSERS[str(field.type)]
        table[field.name.replace("_", ".")] = (field.name, parser)
    # Kafka's tests use segments below the public minimum through this name; it wins over segment.bytes.
    table["internal.segment.bytes"] = ("segment_bytes", _integer)
    return table


_SETTINGS = _settings()
