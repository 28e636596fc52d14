"""A table's decision about a batch, by its marker."""

from __future__ import annotations

import pytest

from ottla.spark.tables.marker import RELEASED, CheckpointChanged, Marker, TableError, is_done

FOUND = Marker("orders", "checkpoint", 7)


@pytest.mark.parametrize(
    ("found", "batch", "done"),
    [(None, 0, False), (FOUND, 7, True), (FOUND, 8, False), (FOUND, 12, False)],
)
def test_a_written_batch_is_skipped_and_a_later_one_written(
    found: Marker | None, batch: int, done: bool
) -> None:
    assert is_done(found, Marker("orders", "checkpoint", batch), "t") is done


def test_a_batch_of_another_checkpoint_is_refused_until_the_table_is_released() -> None:
    with pytest.raises(CheckpointChanged, match="another checkpoint"):
        is_done(FOUND, Marker("orders", "other", 0), "t")
    assert not is_done(Marker("orders", RELEASED, -1), Marker("orders", "other", 0), "t")


def test_an_older_batch_and_another_query_are_refused() -> None:
    with pytest.raises(CheckpointChanged, match="older than the table"):
        is_done(FOUND, Marker("orders", "checkpoint", 6), "t")
    with pytest.raises(TableError, match="a separate table"):
        is_done(FOUND, Marker("payments", "checkpoint", 8), "t")


def test_a_marker_survives_a_round_trip() -> None:
    assert Marker.from_text(FOUND.to_text()) == FOUND
