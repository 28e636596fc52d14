"""Every error code has a name, a number and an exception."""

from __future__ import annotations

import pytest

from ottla.wire import errors
from ottla.wire.errors import ErrorCode


def test_every_code_but_none_has_an_exception_named_after_it() -> None:
    for code in ErrorCode:
        if code is not ErrorCode.NONE:
            found = errors.for_code(code)
            assert found.code is code
            assert found.__name__ == "".join(word.capitalize() for word in code.name.split("_"))
            assert getattr(errors, found.__name__) is found


def test_no_error_has_no_exception() -> None:
    with pytest.raises(ValueError, match="has no exception"):
        errors.for_code(0)


def test_an_unknown_code_is_an_unknown_server_error() -> None:
    assert errors.for_code(30_000) is errors.UnknownServerError


def test_an_error_carries_its_message_or_the_name_of_its_code() -> None:
    assert str(errors.OffsetOutOfRange("Offset 7 is past the end.")) == "Offset 7 is past the end."
    bare = errors.OffsetOutOfRange()
    assert (bare.message, str(bare)) == (None, "OFFSET_OUT_OF_RANGE")


def test_retriable_follows_the_code() -> None:
    assert errors.NotLeaderOrFollower.retriable
    assert not errors.OffsetOutOfRange.retriable


def test_an_invalid_record_names_the_records() -> None:
    error = errors.InvalidRecord("Two are bad.", [(1, "no key"), (3, "no key")])
    assert error.record_errors == [(1, "no key"), (3, "no key")]
    assert errors.InvalidRecord().record_errors == []
