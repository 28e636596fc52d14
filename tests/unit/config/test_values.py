"""Texts of settings: parsing, errors, and formatting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.values import ConfigType, InvalidValue, Value, parse, show, split_host_port


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, " 7 ", 7),
        (ConfigType.INT, "+7", 7),
        (ConfigType.LONG, "-9223372036854775808", -(2**63)),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "false", False),
        (ConfigType.DOUBLE, "1e-3", 0.001),
        (ConfigType.DOUBLE, "0.5d", 0.5),
        (ConfigType.LIST, "a , b,c", ("a", "b", "c")),
        (ConfigType.LIST, "  ", ()),
        (ConfigType.STRING, " x y ", "x y"),
        (ConfigType.CLASS, " a.B ", "a.B"),
        (ConfigType.PASSWORD, " keeps blanks ", " keeps blanks "),
    ],
)
def test_a_text_becomes_a_value_of_its_type(kind: ConfigType, text: str, value: Value) -> None:
    assert parse("x", kind, "", text) == value


@pytest.mark.parametrize(
    ("kind", "valid", "text", "sentence"),
    [
        (ConfigType.INT, "", "1_000", "Invalid value 1_000 for configuration x: Not a number of type INT"),
        (
            ConfigType.INT,
            "",
            "2147483648",
            "Invalid value 2147483648 for configuration x: Not a number of type INT",
        ),
        (
            ConfigType.INT,
            "",
            "9" * 5000,
            f"Invalid value {'9' * 5000} for configuration x: Not a number of type INT",
        ),
        (
            ConfigType.SHORT,
            "",
            "32768",
            "Invalid value 32768 for configuration x: Not a number of type SHORT",
        ),
        (ConfigType.LONG, "", "", "Invalid value  for configuration x: Not a number of type LONG"),
        (ConfigType.LONG, "-1..", "-2", "Invalid value -2 for configuration x: Value must be at least -1"),
        (
            ConfigType.INT,
            "1..17",
            "18",
            "Invalid value 18 for configuration x: Value must be no more than 17",
        ),
        (
            ConfigType.INT,
            "-1 or 1..9",
            "0",
            "Invalid value 0 for configuration x: Value must be between 1 and 9 or equal to -1",
        ),
        (
            ConfigType.DOUBLE,
            "0..1",
            "1.1",
            "Invalid value 1.1 for configuration x: Value must be no more than 1",
        ),
        (ConfigType.DOUBLE, "", "NaN", "Invalid value NaN for configuration x: Not a number of type DOUBLE"),
        (
            ConfigType.BOOLEAN,
            "",
            "yes",
            "Invalid value yes for configuration x: Expected value to be either true or false",
        ),
        (
            ConfigType.STRING,
            "one of a b",
            "A",
            "Invalid value A for configuration x: String must be one of: a, b",
        ),
        (
            ConfigType.STRING,
            "one of, in any case, AB CD",
            "x",
            "Invalid value x for configuration x: String must be one of (case insensitive): AB, CD",
        ),
        (ConfigType.STRING, "not empty", "", "Invalid value  for configuration x: String must be non-empty"),
        (ConfigType.LIST, "distinct", "a,,b", "Configuration 'x' values must not be empty."),
        (
            ConfigType.LIST,
            "distinct, not empty, of a b",
            "",
            "Configuration 'x' must not be empty. Valid values include: [a, b]",
        ),
        (
            ConfigType.LIST,
            "distinct, not empty",
            "",
            "Configuration 'x' must not be empty. Valid values include: any non-empty value",
        ),
        (
            ConfigType.LIST,
            "distinct, of a b",
            "a,c",
            "Invalid value c for configuration x: String must be one of: a, b",
        ),
        (
            ConfigType.LIST,
            "* or partition:broker list",
            "*,1:2",
            "Invalid value [*, 1:2] for configuration x: x must be the literal '*' or a list of replicas in"
            " the following format: [partitionId]:[brokerId],[partitionId]:[brokerId],...",
        ),
        (ConfigType.LIST, "id@host:port list", "a@b:1", "Failed to parse voter ID as an integer from a"),
    ],
)
def test_an_invalid_text_is_refused_with_kafkas_message(
    kind: ConfigType, valid: str, text: str, sentence: str
) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse("x", kind, valid, text)
    assert str(caught.value) == sentence


def test_a_repeated_entry_of_a_list_counts_once() -> None:
    assert parse("x", ConfigType.LIST, "distinct", "b,a,b") == ("b", "a")
    assert parse("x", ConfigType.LIST, "", "b,a,b") == ("b", "a", "b")


@pytest.mark.parametrize(
    ("kind", "valid", "text"),
    [
        (ConfigType.LIST, "distinct, of compact delete", "delete,compact"),
        (ConfigType.LIST, "distinct, of compact delete", ""),
        (ConfigType.STRING, "one of, in any case, UPGRADE", "Upgrade"),
        (ConfigType.INT, "-1 or 1..9", "-1"),
        (ConfigType.LIST, "id@host:port list", "1@localhost:9093,2@[::1]:9093"),
        (ConfigType.LIST, "host:port list", ""),
        (ConfigType.LIST, "* or partition:broker list", "*"),
        (ConfigType.LIST, "* or partition:broker list", "0:1,1:2"),
        (ConfigType.STRING, "latest, earliest or by_duration:<ISO duration>", "by_duration:P1DT2H3M4.5S"),
    ],
)
def test_a_valid_text_is_accepted(kind: ConfigType, valid: str, text: str) -> None:
    assert parse("x", kind, valid, text) is not None


@pytest.mark.parametrize(
    "text", ["by_duration:1", "by_duration:P", "by_duration:PT", "by_duration:-PT1H", "x", ""]
)
def test_an_offset_reset_needs_a_real_duration(text: str) -> None:
    with pytest.raises(InvalidValue):
        parse("x", ConfigType.STRING, "latest, earliest or by_duration:<ISO duration>", text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (2147483647.0, "2.147483647E9"),
        (0.0001, "1.0E-4"),
        (123456789.0, "1.23456789E8"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.5e-7, "-1.5E-7"),
        (0.0, "0.0"),
        (float("inf"), "Infinity"),
        (True, "true"),
        (("a", "b"), "a,b"),
        ((), ""),
        (None, None),
        (12, "12"),
    ],
)
def test_values_are_shown_as_kafka_shows_them(value: Value, text: str | None) -> None:
    assert show(value) == text


@given(st.floats(allow_nan=False))
def test_a_printed_number_parses_to_itself(number: float) -> None:
    text = show(number)
    assert text is not None
    assert parse("x", ConfigType.DOUBLE, "", text) == number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", ("localhost", 9092)),
        ("[::1]:9092", ("::1", 9092)),
        ("a_b.c:0", ("a_b.c", 0)),
        ("::1:9092", None),
        ("localhost", None),
        (":9092", None),
        ("h:99999", None),
        ("h:x", None),
    ],
)
def test_host_and_port_are_split(text: str, expected: tuple[str, int] | None) -> None:
    assert split_host_port(text) == expected
