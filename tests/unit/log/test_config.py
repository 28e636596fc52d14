"""Topic settings from texts."""

from __future__ import annotations

import pytest

from ottla.log.config import LogConfig
from ottla.records.batch import Codec, TimestampType


def test_no_texts_give_kafkas_defaults() -> None:
    config = LogConfig.from_texts({})
    assert config == LogConfig()
    assert config.segment_bytes == 1 << 30
    assert config.max_message_bytes == 1048588
    assert config.retention_ms == 604800000
    assert config.index_interval_bytes == 4096
    assert config.flush_messages == 9223372036854775807


def test_texts_are_read_by_their_kafka_names() -> None:
    config = LogConfig.from_texts(
        {
            "cleanup.policy": "compact, delete",
            "segment.ms": "1000",
            "preallocate": "TRUE",
            "min.cleanable.dirty.ratio": "0.1",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "message.timestamp.type": "LogAppendTime",
            "something.else": "ignored",
        }
    )
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.is_compacted
    assert config.is_deleted
    assert config.segment_ms == 1000
    assert config.preallocate
    assert config.min_cleanable_dirty_ratio == 0.1
    assert config.leader_replication_throttled_replicas == ("0:1", "1:2")
    assert config.produce_rules("t-0").timestamp_type == TimestampType.LOG_APPEND_TIME


def test_an_empty_policy_neither_compacts_nor_deletes() -> None:
    config = LogConfig.from_texts({"cleanup.policy": ""})
    assert not config.is_compacted
    assert not config.is_deleted


def test_the_internal_segment_size_wins() -> None:
    config = LogConfig.from_texts({"internal.segment.bytes": "100", "segment.bytes": "1048576"})
    assert config.segment_bytes == 100


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("segment.bytes", "many"),
        ("preallocate", "yes"),
        ("min.cleanable.dirty.ratio", "half"),
        ("cleanup.policy", "shred"),
        ("compression.type", "brotli"),
    ],
)
def test_a_text_of_the_wrong_kind_is_refused_by_name(setting: str, text: str) -> None:
    with pytest.raises(ValueError, match=f"{setting}='{text}' is invalid"):
        LogConfig.from_texts({setting: text})


def test_a_compacted_topic_rolls_within_its_compaction_lag() -> None:
    texts = {"segment.ms": "1000", "max.compaction.lag.ms": "100"}
    assert LogConfig.from_texts(texts).roll_ms == 1000
    assert LogConfig.from_texts({**texts, "cleanup.policy": "compact"}).roll_ms == 100


def test_the_topics_codec_comes_with_its_level() -> None:
    rules = LogConfig.from_texts({"compression.type": "zstd", "compression.zstd.level": "7"}).produce_rules(
        "t-0"
    )
    assert (rules.codec, rules.compression_level) == (Codec.ZSTD, 7)
    rules = LogConfig.from_texts({"compression.type": "uncompressed"}).produce_rules("t-0")
    assert (rules.codec, rules.compression_level) == (Codec.NONE, None)
    assert LogConfig().produce_rules("t-0").codec is None
