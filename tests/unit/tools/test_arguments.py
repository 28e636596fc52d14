"""Command lines are parsed as Kafka's tools parse theirs."""

from __future__ import annotations

import pytest

from ottla.tools.arguments import OptionParser, UsageError


def parser(*, takes_abbreviations: bool = False) -> OptionParser:
    made = OptionParser("kafka-thing", "Does a thing.", takes_abbreviations=takes_abbreviations)
    made.flag("list", text="List things.")
    made.value("topic", "t", text="The topic.", shown_as="name")
    made.value("partitions", text="How many.", convert=int, default=3)
    made.value("style", text="How.", default="plain", value_is_optional=True)
    return made


@pytest.mark.parametrize(
    "words",
    [["--topic", "a"], ["--topic=a"], ["-topic", "a"], ["--t", "a"], ["-t", "a"]],
    ids=" ".join,
)
def test_a_value_may_follow_a_name_in_every_form(words: list[str]) -> None:
    assert parser().parse(words).value("topic") == "a"


def test_a_value_may_be_empty() -> None:
    options = parser().parse(["--topic=", "a"])
    assert options.value("topic") == ""
    assert options.rest == ["a"]


def test_a_value_may_look_like_an_option_or_hold_an_equals_sign() -> None:
    options = parser().parse(["--topic", "--list", "--style=a=b"])
    assert options.value("topic") == "--list"
    assert options.value("style") == "a=b"
    assert not options.has("list")


def test_defaults_count_as_values_and_not_as_given() -> None:
    options = parser().parse(["--list", "--style"])
    assert (options.value("partitions"), options.has("partitions")) == (3, False)
    assert (options.value("style"), options.has("style")) == ("plain", True)
    assert options.value("topic") is None


def test_an_optional_value_does_not_consume_an_option() -> None:
    options = parser().parse(["--style", "--list"])
    assert options.has("list")
    assert options.value("style") == "plain"


def test_all_values_of_a_repeated_option_are_kept() -> None:
    options = parser().parse(["--topic", "a", "--t", "b"])
    assert options.values("topic") == ["a", "b"]
    with pytest.raises(UsageError, match="--topic is given 2 times"):
        options.value("topic")


def test_words_without_an_option_are_the_rest() -> None:
    assert parser().parse(["a", "--list", "-", "--", "--topic", "b"]).rest == ["a", "-", "--topic", "b"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--nothing"], "nothing is not a recognized option"),
        (["--lis"], "lis is not a recognized option"),
        (["--topic"], "Option topic requires an argument"),
        (["--list=yes"], "Option list takes no argument"),
    ],
)
def test_errors_are_reported_without_the_help(words: list[str], told: str) -> None:
    with pytest.raises(UsageError, match=told) as failed:
        parser().parse(words)
    assert failed.value.help_text == ""


def test_a_value_of_the_wrong_type_is_reported_on_use() -> None:
    options = parser().parse(["--partitions", "many"])
    with pytest.raises(UsageError, match="Cannot parse argument 'many' of option partitions"):
        options.value("partitions")


def test_prefixes_of_names_work_if_a_tool_allows_them() -> None:
    assert parser(takes_abbreviations=True).parse(["--part", "4"]).value("partitions") == 4
    ambiguous = OptionParser("x", "x", takes_abbreviations=True)
    ambiguous.flag("under-min-isr", text="")
    ambiguous.flag("under-replicated", text="")
    with pytest.raises(UsageError, match="under is ambiguous: it could be under-min-isr, under-replicated"):
        ambiguous.parse(["--under"])


@pytest.mark.parametrize("words", [[], ["--help"], ["--list", "--help"]], ids=" ".join)
def test_help_shows_every_option(words: list[str]) -> None:
    with pytest.raises(UsageError, match="Does a thing") as failed:
        parser().parse(words)
    for name in ("--help", "--list", "--partitions <value>", "--topic, --t <name>", "(default: plain)"):
        assert name in failed.value.help_text


def test_required_and_excluded_options_are_checked_with_the_help() -> None:
    options = parser().parse(["--list", "--topic", "a"])
    options.check_required("topic", "list")
    with pytest.raises(UsageError, match=r'Missing required argument "\[style\]"') as failed:
        options.check_required("style")
    assert "--style" in failed.value.help_text
    with pytest.raises(UsageError, match=r"Option \"\[list\]\" can't be used with option \"\[topic\]\""):
        options.check_invalid("list", "partitions", "topic")
    options.check_invalid("partitions", "topic")
