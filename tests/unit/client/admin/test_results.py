"""Results of many items: each with its own end, and none that is lost."""

from __future__ import annotations

import pytest

from ottla.client.admin.permissions import AclOperation, operations_of
from ottla.client.admin.results import Listed, Results
from ottla.wire.errors import GroupIdNotFound, NonEmptyGroup


def test_a_mapping_shows_results_and_errors_side_by_side() -> None:
    error = GroupIdNotFound("gone")
    results: Results[str, int] = Results({"a": 1, "b": error})

    assert dict(results) == {"a": 1, "b": error}
    assert results.succeeded == {"a": 1}
    assert results.failed == {"b": error}


def test_asking_for_one_result_raises_its_error_alone() -> None:
    results: Results[str, int] = Results({"a": 1, "b": GroupIdNotFound("gone")})

    assert results.result("a") == 1
    with pytest.raises(GroupIdNotFound):
        results.result("b")
    with pytest.raises(KeyError):
        results.result("c")


def test_all_raises_the_first_error_and_says_whose_it_is() -> None:
    results: Results[str, int] = Results({"a": 1, "b": NonEmptyGroup("busy"), "c": GroupIdNotFound("gone")})

    with pytest.raises(NonEmptyGroup) as raised:
        results.all()
    assert raised.value.__notes__ == ["Raised for b; 2 of 3 items failed."]
    assert Results({"a": None}).all() == {"a": None}


def test_a_list_with_a_hole_does_not_look_like_a_whole_one() -> None:
    whole = Listed(["a", "b"], {})
    holed = Listed(["a"], {3: GroupIdNotFound("down")})

    assert list(whole) == ["a", "b"]
    assert whole[1] == "b"
    for look in (lambda: list(holed), lambda: len(holed), lambda: holed[0]):
        with pytest.raises(GroupIdNotFound):
            look()
    assert holed.found == ("a",)
    assert list(holed.errors) == [3]


def test_a_bit_field_of_operations_is_read_as_a_set() -> None:
    assert operations_of(-(2**31)) is None
    assert operations_of(0) == frozenset()
    assert operations_of(1 << 3 | 1 << 8) == frozenset({AclOperation.READ, AclOperation.DESCRIBE})
