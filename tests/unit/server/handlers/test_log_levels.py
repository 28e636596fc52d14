"""Loggers as a resource: Kafka's names of levels, and what cannot be changed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.config import Operation
from ottla.server.handlers import log_levels
from ottla.wire.errors import InvalidConfig, InvalidRequest, KafkaError

NAME = "ottla.test_loggers"
SET, DELETE, APPEND = Operation.SET, Operation.DELETE, Operation.APPEND


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(NAME)
    before = logging.root.level
    yield made
    made.setLevel(logging.NOTSET)
    logging.root.setLevel(before)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_a_level_is_set_and_shown_by_its_name(logger: logging.Logger, level: str, number: int) -> None:
    log_levels.alter(1, "1", [(NAME, SET, level)], validate_only=False)
    assert logger.level == number
    assert log_levels.levels()[NAME] == level


def test_a_removed_level_is_that_of_the_parent(logger: logging.Logger) -> None:
    log_levels.alter(1, "1", [(NAME, SET, "FATAL"), ("root", SET, "ERROR")], validate_only=False)
    log_levels.alter(1, "1", [(NAME, DELETE, None)], validate_only=False)
    assert log_levels.levels()[NAME] == "ERROR"


def test_a_level_between_two_names_shows_as_the_lower_one(logger: logging.Logger) -> None:
    logger.setLevel(25)
    assert log_levels.levels()[NAME] == "INFO"
    logger.setLevel(1)
    assert log_levels.levels()[NAME] == "TRACE"


def test_a_check_changes_nothing(logger: logging.Logger) -> None:
    log_levels.alter(1, "1", [(NAME, SET, "FATAL")], validate_only=True)
    assert logger.level == logging.NOTSET


@pytest.mark.parametrize(
    ("resource", "change", "error", "message"),
    [
        ("9", (NAME, SET, "INFO"), InvalidRequest, "Unexpected node id. Expected 1, but received 9"),
        ("x", (NAME, SET, "INFO"), InvalidRequest, "Node id must be an integer, but it is: x"),
        ("1", ("ottla.no.such", SET, "INFO"), InvalidConfig, "Logger ottla.no.such does not exist!"),
        (
            "1",
            (NAME, SET, "LOUD"),
            InvalidConfig,
            "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN",
        ),
        (
            "1",
            ("root", DELETE, None),
            InvalidRequest,
            "Removing the log level of the root logger is not allowed",
        ),
        ("1", (NAME, APPEND, "INFO"), InvalidRequest, "APPEND operation is not allowed"),
        ("1", (NAME, 9, "INFO"), InvalidRequest, "Unknown operation type 9"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_the_rest_alone(
    logger: logging.Logger,
    resource: str,
    change: log_levels.LevelChange,
    error: type[KafkaError],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        log_levels.alter(1, resource, [(NAME, SET, "FATAL"), change], validate_only=False)
    assert logger.level == logging.NOTSET
