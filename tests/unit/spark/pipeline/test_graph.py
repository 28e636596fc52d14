"""The graph of a pipeline as a list, as text and as a picture."""

from __future__ import annotations

import xml.dom.minidom
from pathlib import Path

import pytest

from ottla.spark.pipeline.check import topic_faults
from ottla.spark.pipeline.graph import as_text, dead_letter_streams, inputs_of, needed_for, nodes
from ottla.spark.pipeline.graph_svg import svg
from ottla.spark.pipeline.parse import load
from ottla.spark.pipeline.sql_names import names_read

ORDERS = load(Path(__file__).parents[4] / "docs" / "examples" / "pipelines" / "orders.yaml", {})


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SELECT * FROM a", ["a"]),
        ("select * from `A` x join b on x.id = b.id left join c using (id)", ["a", "b", "c"]),
        ("SELECT 'from z' -- from y\nFROM a /* join q */", ["a"]),
        ("SELECT * FROM a, b WHERE a.x IN (SELECT y FROM c), d", ["a", "b", "c"]),
        ("WITH t AS (SELECT * FROM a) SELECT * FROM t", ["a"]),
        ("SELECT extract(hour FROM at) FROM a", ["at", "a"]),
        ("SELECT * FROM range(3), b", ["b"]),
        ("SELECT * FROM (SELECT * FROM a) s, b UNION ALL SELECT * FROM c", ["a", "b", "c"]),
        ("SELECT a, b FROM c GROUP BY a, d", ["c"]),
        ("SELECT * FROM other.a", []),
    ],
)
def test_a_statement_reads_the_names_after_from_and_join(statement: str, names: list[str]) -> None:
    assert names_read(statement) == names


def test_a_sink_needs_the_inputs_of_its_stream() -> None:
    assert [one.name for one in needed_for(ORDERS, "per_minute")] == [
        "orders",
        "payments",
        "paid_orders",
        "per_minute",
    ]
    step = ORDERS.stream("paid_orders")
    assert step is not None
    assert inputs_of(ORDERS, step) == ("orders", "payments")
    assert [one.name for one in dead_letter_streams(ORDERS)] == ["orders", "payments"]


def test_the_text_names_every_part() -> None:
    text = as_text(ORDERS)
    for part in nodes(ORDERS):
        assert part.title in text
    assert "step    per_minute  <- paid_orders" in text


def test_the_picture_is_well_formed_and_has_a_line_for_each_reader() -> None:
    picture = xml.dom.minidom.parseString(svg(ORDERS))
    lines = sum(len(node.inputs) for node in nodes(ORDERS))
    assert len(picture.getElementsByTagName("path")) == 2 * lines
    assert svg(ORDERS) == svg(ORDERS)


def test_missing_topics_are_reported_with_a_remedy() -> None:
    found = [fault.message for fault in topic_faults(ORDERS, ["order", "payments", "paid-orders"])]
    assert found == [
        "The topic 'orders', which is read here, does not exist. Did you mean 'order'?",
        "The topic 'orders-dead-letters', which is written here, does not exist. "
        "Create it with: ottla topic create orders-dead-letters",
    ]
