"""Options of the source: their meaning, and their errors."""

from __future__ import annotations

import pickle

import pytest

from ottla.spark.options import OptionError, parse_duration_ms, parse_size
from ottla.spark.settings import EARLIEST, LATEST, OPTIONS, Bound, read_settings

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def faults(given: dict[str, str], *, streaming: bool | None = None) -> str:
    with pytest.raises(OptionError) as caught:
        read_settings(given, streaming=streaming)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("startingoffset", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("subscribepatern", "subscribePattern"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("max.partition.fetch.bytes", "kafka.max.partition.fetch.bytes"),
        ("valueformat_", "valueFormat"),
    ],
)
def test_an_unknown_name_suggests_the_nearest_known_one(name: str, meant: str) -> None:
    told = faults({**BASE, name: "x"})
    assert f"Unknown option {name} for reading." in told
    assert f"id you mean {meant}?" in told


def test_an_unknown_client_property_is_reported() -> None:
    told = faults({**BASE, "kafka.fetch.max.byte": "5"})
    assert "fetch.max.byte is not a known setting of the consumer. Did you mean fetch.max.bytes?" in told


@pytest.mark.parametrize("name", ["auto.offset.reset", "enable.auto.commit", "key.deserializer"])
def test_properties_controlled_by_spark_are_refused(name: str) -> None:
    assert f"kafka.{name} cannot be set" in faults({**BASE, f"kafka.{name}": "earliest"})


def test_all_faults_are_reported_together() -> None:
    told = faults(
        {"subscribe": "a", "minPartitions": "none", "failOnDataLoss": "maybe", "nonsense-option": "1"}
    )
    assert len(told.splitlines()) == 4
    assert "kafka.bootstrap.servers is missing" in told
    assert "minPartitions is 'none' but must be a positive integer" in told
    assert "failOnDataLoss is 'maybe' but must be true or false" in told


def test_names_are_read_in_any_case() -> None:
    settings = read_settings(
        {"KAFKA.bootstrap.servers": "h:1", "SUBSCRIBE": "a, b,a", "INCLUDEHEADERS": "True"}
    )
    assert settings.selection.topics == ("a", "b")
    assert settings.headers
    assert settings.servers == "h:1"


@pytest.mark.parametrize("given", [{}, {"subscribe": "a", "assign": '{"a":[0]}'}])
def test_exactly_one_selection_is_required(given: dict[str, str]) -> None:
    told = faults({"kafka.bootstrap.servers": "h:1", **given})
    assert "one of subscribe, subscribePattern and assign" in told


def test_partitions_are_assigned_by_json() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "assign": '{"b":[2,0],"a":[1]}'}
    assert read_settings(given).selection.partitions == (("a", 1), ("b", 0), ("b", 2))
    for wrong in ("a", "[]", '{"a":0}', '{"a":[-1]}', '{"a":["x"]}', "{}"):
        assert "assign must be JSON" in faults({**given, "assign": wrong})


def test_a_stream_begins_at_the_latest_and_a_batch_at_the_earliest() -> None:
    assert read_settings(BASE, streaming=True).starting.everywhere == LATEST
    assert read_settings(BASE, streaming=False).starting.everywhere == EARLIEST
    assert read_settings(BASE, streaming=False).ending.everywhere == LATEST


def test_offsets_and_times_have_the_forms_of_sparks_connector() -> None:
    offsets = read_settings({**BASE, "startingOffsets": '{"orders":{"0":23,"1":-2}}'}).starting
    assert offsets == Bound(each={"orders": {0: 23, 1: -2}}, option="startingOffsets")
    times = read_settings({**BASE, "startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}).starting
    assert times == Bound(each={"orders": {0: 1000}}, by_time=True, option="startingOffsetsByTimestamp")
    first = read_settings({**BASE, "startingTimestamp": "5", "startingOffsets": "earliest"}).starting
    assert first == Bound(5, by_time=True, option="startingTimestamp")
    for wrong in ("newest", '{"orders":{"0":-3}}', '{"orders":5}', '{"orders":{"x":1}}', "{"):
        assert "startingOffsets must be earliest, latest or JSON" in faults(
            {**BASE, "startingOffsets": wrong}
        )


def test_options_of_the_other_read_mode_are_refused() -> None:
    assert "cannot start at the latest" in faults({**BASE, "startingOffsets": "latest"}, streaming=False)
    assert "cannot start at the latest" in faults(
        {**BASE, "startingOffsets": '{"orders":{"0":-1}}'}, streaming=False
    )
    assert "cannot end at the earliest" in faults({**BASE, "endingOffsets": "earliest"}, streaming=False)
    assert "a stream has no end" in faults({**BASE, "endingOffsets": "latest"}, streaming=True)
    assert "exceeds maxOffsetsPerTrigger" in faults(
        {**BASE, "minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "5"}
    )


def test_formats_need_their_schemas() -> None:
    assert "needs the option valueSchema" in faults({**BASE, "valueFormat": "avro"})
    assert "needs the option keySchema" in faults({**BASE, "keyFormat": "avro-bare"})
    assert "valueFormat is binary" in faults({**BASE, "valueSchema": "a int"})
    assert "must be one of binary, string, json" in faults({**BASE, "valueFormat": "xml"})
    assert read_settings({**BASE, "valueFormat": "AVRO", "schemaRegistry": "http://r"}).value.format == "avro"


def test_unused_options_of_sparks_connector_are_accepted() -> None:
    read_settings({**BASE, "fetchOffset.numRetries": "3", "groupIdPrefix": "x"})


def test_a_group_is_named_as_an_option_or_as_a_property() -> None:
    assert read_settings({**BASE, "groupId": "g"}).group_id == "g"
    settings = read_settings({**BASE, "kafka.group.id": "h"})
    assert settings.group_id == "h"
    assert "group.id" not in settings.client


def test_settings_travel_to_tasks() -> None:
    settings = read_settings({**BASE, "valueFormat": "json", "valueSchema": "a int"})
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_every_option_has_a_name_of_its_own() -> None:
    names = [option.name.lower() for option in OPTIONS]
    assert len(names) == len(set(names))


def test_sizes_and_times_have_units() -> None:
    assert [parse_size(text) for text in ("10", "2k", "3 MB", "1g")] == [10, 2048, 3 << 20, 1 << 30]
    assert [parse_duration_ms(text) for text in ("10", "2s", "15m", "1 h", "5ms")] == [
        10,
        2000,
        900_000,
        3_600_000,
        5,
    ]
    for wrong in ("", "k", "-1", "3x"):
        with pytest.raises((ValueError, KeyError)):
            parse_size(wrong)
