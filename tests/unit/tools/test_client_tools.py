"""The client tools without a cluster: invalid input ends in one line; and unit tests of their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from ottla.client.values import TopicPartition
from ottla.operations.failure import Failure
from ottla.tools import configs, consumer_groups, get_offsets, offset_resets, topics
from ottla.tools.patterns import IncludeList

Main = Callable[[Sequence[str]], int]
NOWHERE = "127.0.0.1:1"
PATIENCE_MS = 1500

LOOKS: dict[str, tuple[Main, list[str]]] = {
    "topics": (topics.main, ["--list"]),
    "get-offsets": (get_offsets.main, ["--topic", "t"]),
    "consumer-groups": (consumer_groups.main, ["--list", "--timeout", str(PATIENCE_MS)]),
    "configs": (configs.main, ["--describe", "--topic", "t"]),
}


@pytest.mark.parametrize("tool", LOOKS)
def test_an_unreachable_broker_is_one_line(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, look = LOOKS[tool]
    settings = tmp_path / "client.properties"
    settings.write_text(f"default.api.timeout.ms={PATIENCE_MS}\nrequest.timeout.ms={PATIENCE_MS}\n")

    code = main(["--bootstrap-server", NOWHERE, "--command-config", str(settings), *look])

    told = capsys.readouterr()
    # Kafka's consumer-groups exits with 0 even after an error.
    assert code == (0 if tool == "consumer-groups" else 1)
    assert f"{NOWHERE} refused the connection" in told.out + told.err
    assert len((told.out + told.err).strip().splitlines()) == 1
    assert "Traceback" not in told.err


@pytest.mark.parametrize("tool", LOOKS)
def test_a_missing_or_invalid_file_is_one_line(
    tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, look = LOOKS[tool]
    wrong = tmp_path / "wrong"
    wrong.write_text("retries=many\n")

    for path, text in ((tmp_path / "missing", "missing"), (wrong, "retries")):
        assert main(["--bootstrap-server", NOWHERE, "--command-config", str(path), *look]) == 1
        told = capsys.readouterr()
        assert told.out == ""
        assert text in told.err
        assert "Traceback" not in told.err


@pytest.mark.parametrize("tool", LOOKS)
def test_removed_options_are_refused_with_their_replacement(
    tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main, look = LOOKS[tool]

    assert main(["--zookeeper", "localhost:2181", *look]) == 1
    told = capsys.readouterr().err
    assert told.startswith("zookeeper is not a recognized option: ")
    assert "--bootstrap-server" in told
    assert len(told.splitlines()) == 1


def test_topic_patterns_match_full_names_and_alternatives() -> None:
    wanted = IncludeList("'a.*, b'")

    assert [topic for topic in ("a", "abc", "b", "bc", "xa") if wanted.allows(topic)] == ["a", "abc", "b"]
    assert not IncludeList(".*").allows("__consumer_offsets", exclude_internal=True)
    with pytest.raises(Failure, match="is an invalid regex"):
        IncludeList("([")


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        ("a", ["a0", "a1", "a5"]),
        ("a:1", ["a1"]),
        ("a:0-2", ["a0", "a1"]),
        ("a:1-", ["a1", "a5"]),
        ("a:-1", ["a0"]),
        (":5", ["a5", "b5"]),
    ],
)
def test_partitions_are_selected_by_rules(rule: str, taken: list[str]) -> None:
    allows = get_offsets._rule(rule)

    found = [f"{topic}{index}" for topic in "ab" for index in (0, 1, 5) if allows(topic, index)]

    assert found == taken


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("P1D", timedelta(days=1)),
        ("PT1H30M", timedelta(hours=1, minutes=30)),
        ("P2DT3H4M5.5S", timedelta(days=2, hours=3, minutes=4, seconds=5.5)),
        ("-PT1S", timedelta(seconds=-1)),
        ("pt-5s", timedelta(seconds=-5)),
    ],
)
def test_durations_are_parsed(written: str, length: timedelta) -> None:
    assert offset_resets._duration(written) == length


@pytest.mark.parametrize("written", ["", "P", "PT", "1D", "P1Y", "PT1D", "soon"])
def test_an_invalid_duration_is_refused(written: str) -> None:
    with pytest.raises(Failure):
        offset_resets._duration(written)


def test_times_without_a_zone_are_utc() -> None:
    assert offset_resets._datetime_ms("1970-01-01T00:00:02.500") == 2500
    assert offset_resets._datetime_ms("1970-01-01T01:00:02.500+01:00") == 2500
    for wrong in ("1970-01-01", "1970-01-01T00:00:02", "yesterdayT00:00:00.000"):
        with pytest.raises(Failure, match="ParseException"):
            offset_resets._datetime_ms(wrong)


def test_offsets_are_written_as_csv() -> None:
    plan = {TopicPartition("words", 0): 5, TopicPartition("a-name-of-more-than-24-letters", 1): 6}

    assert offset_resets._as_csv({"g": plan}, with_group=False) == (
        'words,0,5\n"a-name-of-more-than-24-letters",1,6\n'
    )
    assert offset_resets._as_csv({'say "g"': {TopicPartition("w", 0): 1}}, with_group=True) == (
        '"say ""g""",w,0,1\n'
    )
