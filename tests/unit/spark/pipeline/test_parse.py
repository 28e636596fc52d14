"""A pipeline file becomes a model, or all its faults are reported with their places."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.pipeline.faults import Mark, PipelineError
from ottla.spark.pipeline.model import (
    BadRows,
    DatabaseTarget,
    Decoding,
    Delivery,
    FileSource,
    FileTarget,
    IcebergTarget,
    Mode,
    Pipeline,
    Restart,
    TopicSource,
    TopicTarget,
)
from ottla.spark.pipeline.parse import load, parse

EXAMPLES = Path(__file__).parents[4] / "docs" / "examples" / "pipelines"

SMALL = """\
name: small
sources:
  orders: {topic: orders, schema: id BIGINT}
sinks:
  out: {from: orders, topic: out}
"""


def parsed(text: str, **environment: str) -> Pipeline:
    return parse(text, file="p.yaml", directory="/base", environment=environment)


def faults(text: str, **environment: str) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        parsed(text, **environment)
    return str(caught.value).splitlines()


def test_a_small_pipeline_has_the_defaults() -> None:
    pipeline = parsed(SMALL)
    (source,) = pipeline.sources
    assert isinstance(source, TopicSource)
    assert (source.topics, source.decoding, source.start) == (("orders",), Decoding.JSON, "earliest")
    assert source.bad_rows is BadRows.FAIL
    (sink,) = pipeline.sinks
    assert isinstance(sink.target, TopicTarget)
    assert (sink.target.delivery, sink.mode) == (Delivery.EXACTLY_ONCE, Mode.APPEND)
    assert pipeline.checkpoint == "/base/checkpoints/small"
    assert pipeline.restart == Restart()


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_examples_are_valid(file: Path) -> None:
    assert load(file, {}).sinks


def test_every_kind_of_sink_and_source_is_read() -> None:
    pipeline = parsed("""
sources:
  a: {pattern: 'o.*', format: text, from: latest, group: g, options: {minPartitions: 4}}
  b: {files: in/*.csv, format: csv, stream: true, schema: id INT}
sinks:
  p: {from: a, parquet: out/p, partition_by: value, files: 2, compact_batches: 9}
  d: {from: a, delta: /d}
  i: {from: a, iceberg: shop.rows, catalog: {type: sql}}
  g: {from: b, postgres: "host=x", table: t, key: [id], version: v, mode: update}
  s: {from: b, sqlite: t.db, table: t}
  c: {from: b, console: 5, trigger: 10 seconds}
""")
    first, second = pipeline.sources
    assert isinstance(first, TopicSource)
    assert (first.pattern, first.options) == ("o.*", {"minPartitions": "4"})
    assert isinstance(second, FileSource)
    assert (second.path, second.is_stream) == ("/base/in/*.csv", True)
    targets = {sink.name: sink.target for sink in pipeline.sinks}
    parquet = FileTarget(
        kind="parquet", path="/base/out/p", partition_by=("value",), files=2, compact_batches=9
    )
    assert targets["p"] == parquet
    assert targets["d"] == FileTarget(kind="delta", path="/d")
    assert targets["i"] == IcebergTarget(table="shop.rows", catalog={"type": "sql"})
    assert targets["g"] == DatabaseTarget(
        kind="postgres", address="host=x", table="t", key=("id",), version="v"
    )
    assert targets["s"] == DatabaseTarget(kind="sqlite", address="/base/t.db", table="t")
    assert [sink.trigger for sink in pipeline.sinks][-1] == "10 seconds"


def test_all_faults_are_reported_together_with_their_places() -> None:
    text = """\
name: small
sources:
  orders:
    topci: orders
    schema: id BIGINT
    bad_rows: dead_lettr
    watermark: {column: at, delay: soon}
sinks:
  out: {from: orders, topic: out, mode: appendd}
  none: {from: orders}
triger: 5 seconds
"""
    assert faults(text) == [
        "p.yaml:3:3: The source 'orders' needs one of 'topic', 'topics', 'pattern' and 'files'.",
        "p.yaml:4:5: Unknown key 'topci' in the source 'orders'. Did you mean 'topic'?",
        "p.yaml:6:5: 'bad_rows' of the source 'orders' is 'dead_lettr' but must be one of fail, drop, "
        "dead_letter. Did you mean 'dead_letter'?",
        "p.yaml:7:29: 'delay' of the watermark is 'soon' but must be a duration such as '10 seconds'.",
        "p.yaml:9:35: 'mode' of the sink 'out' is 'appendd' but must be one of append, update, complete. "
        "Did you mean 'append'?",
        "p.yaml:10:3: The sink 'none' needs one of topic, parquet, delta, iceberg, postgres, sqlite, "
        "console, and has none.",
        "p.yaml:11:1: Unknown key 'triger' in the pipeline. Did you mean 'trigger'?",
    ]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (("topic: out", "topic: out, topic: o"), "p.yaml:5:35: 'topic' is a duplicate key"),
        (
            ("from: orders", "from: order"),
            "p.yaml:5:9: The sink 'out' reads 'order', which is not a source or step",
        ),
        (("  orders: {", "  my-orders: {"), "p.yaml:3:3: SQL cannot refer to 'my-orders'"),
        (
            ("schema: id BIGINT", "format: json"),
            "p.yaml:3:27: The source 'orders' needs 'schema' to decode json.",
        ),
        (("schema: id BIGINT", "bad_rows: dead_letter"), "p.yaml:3:27: Dead letters need a topic"),
        (("name: small", "name: a b"), "p.yaml:1:1: The name 'a b' may contain only"),
        (("out: {from", "dead_letter: {from"), "p.yaml:5:3: 'dead_letter' is reserved"),
        (("topic: out}", "topic: '${NOT_SET}'}"), "p.yaml:5:30: ${NOT_SET} is not set"),
        (("topic: out}", "iceberg: rows}"), "p.yaml:5:23: 'rows' must be a namespace and a name"),
        (("sinks:", "steps:\n  s: {python: f.py}\nsinks:"), "p.yaml:5:7: 'f.py' must be a function"),
    ],
)
def test_a_fault_has_its_place(change: tuple[str, str], fault: str) -> None:
    found = faults(SMALL.replace(*change))
    assert any(line.startswith(fault) for line in found), found


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "p.yaml:1:1: The file is empty."),
        ("a: [1", "p.yaml:1:6: Invalid YAML:"),
        ("- a", "p.yaml:1:1: the pipeline must be a mapping"),
        ("a: \tb: c", "p.yaml:1:"),
        ("name: x", "p.yaml:1:1: The required key sources is missing."),
    ],
)
def test_an_invalid_file_is_one_line(text: str, fault: str) -> None:
    assert any(line.startswith(fault) for line in faults(text)), faults(text)


def test_variables_come_from_the_environment_or_have_a_default() -> None:
    text = SMALL.replace("topic: out}", "topic: '${OUT:-other}'}")
    assert list(parsed(text).topics_written()) == [("other", Mark(5, 23))]
    assert next(parsed(text, OUT="mine").topics_written())[0] == "mine"


def test_a_place_in_a_statement_is_a_place_in_the_file() -> None:
    text = """\
sources:
  orders: {topic: orders, schema: id BIGINT}
steps:
  a:
    sql: |
      SELECT id
      FROM orders
  b: {sql: "SELECT x FROM a"}
  c:
    sql: >
      SELECT id
      FROM a
sinks:
  out: {from: b, topic: out}
"""
    first, second, third = parsed(text).steps
    assert first.sql is not None
    assert first.sql.at(first.sql.text.index("orders")) == Mark(7, 12)
    assert second.sql is not None
    assert second.sql.at(7) == Mark(8, 20)
    assert third.sql is not None
    assert third.sql.at(9) == Mark(10, 5)


@given(st.text(alphabet="abc:{}[]-'\"|>&*!#\n \t${}", max_size=60))
def test_any_text_parses_or_gives_faults(text: str) -> None:
    with contextlib.suppress(PipelineError):
        assert parsed(text).sinks
