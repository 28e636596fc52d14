"""kafka-storage.sh beside Kafka's: outputs, exit codes, files, and nodes on what the other formatted."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.controller.bootstrap import read_bootstrap
from ottla.log.directories.properties import parse_meta
from ottla.tools.storage import main
from tests.interop import peers
from tests.interop.tools.oracle import ask

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
OTHER_CLUSTER = "6L6g3nShT-eMCtK--X86sw"
SCRAM = (
    'SCRAM-SHA-512=[name=alice,password=secret,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5NDh4YQ=="]'
)


class Step(NamedTuple):
    """One command line. S and V stand for a configuration with a dynamic and with a static quorum."""

    line: str
    remove: str = ""  # names of directories, by blanks, that are removed first


STEPS = [
    Step("info -c S"),
    Step("format -t CLUSTER -c S"),
    Step("format -t CLUSTER -c S --standalone"),
    Step("info -c S"),
    Step("format -t CLUSTER -c S --standalone"),
    Step("format -t CLUSTER -c S -s -g"),
    Step("format -t OTHER -c S -s -g"),
    Step("info -c S", remove="d0"),
    Step("format -t CLUSTER -c S -s --ignore-formatted"),
    Step("format -t notauuid -c S -s", remove="d0 d1"),
    Step("format --cluster-id CLUSTER --config V", remove="d0 d1"),
    Step("info --config V"),
    Step("format -t CLUSTER -c V -s", remove="d0 d1"),
    Step("format -t CLUSTER -c V -r 3.9-IV0 -f transaction.version=0"),
    Step("format -t CLUSTER -c V --release-version 3.9", remove="d0 d1"),
    Step("format -t CLUSTER -c V -r 4.1.2", remove="d0 d1"),
    Step("format -t CLUSTER -c V -r 9.9", remove="d0 d1"),
    Step("format -t CLUSTER -c V -r 4.4-IV0"),
    Step("format -t CLUSTER -c V -f nope=1"),
    Step("format -t CLUSTER -c V -f transaction.version=9"),
    Step("format -t CLUSTER -c V -f transaction.version"),
    Step("format -t CLUSTER -c V -f transaction.version=x"),
    Step("format -t CLUSTER -c V -f kraft.version=1"),
    Step("format -t CLUSTER -c S -s -f kraft.version=0"),
    Step("format -t CLUSTER -c V -f metadata.version=25 -r 4.0"),
    Step("format -t CLUSTER -c V -f metadata.version=5"),
    Step("format -t CLUSTER -c V -f metadata.version=31"),
    Step("format -t CLUSTER -c V -f metadata.version=99"),
    Step("format -t CLUSTER -c V -f metadata.version=20 -f eligible.leader.replicas.version=1"),
    Step("format -t CLUSTER -c V -f metadata.version=24", remove="d0 d1"),
    Step("format -t CLUSTER -c S -N", remove="d0 d1"),
    Step(
        "format -t CLUSTER -c S -I "
        "1@localhost:29093:JEXY6aqzQY-32P5TStzaFg,2@localhost:29094:MvDxzVmcRsaTz33bUuRU6A",
        remove="d0 d1",
    ),
    Step("info -c S"),
    Step("format -t CLUSTER -c S -I 2@localhost:29094:MvDxzVmcRsaTz33bUuRU6A", remove="d0 d1"),
    Step("format -t CLUSTER -c S -I garbage", remove="d0 d1"),
    Step("format -t CLUSTER -c S -I 1@localhost:x:JEXY6aqzQY-32P5TStzaFg"),
    Step("format -t CLUSTER -c S -s -N"),
    Step("format -t CLUSTER -c S -s -S SCRAM"),
    Step("format -t CLUSTER -c S -s -S SCRAM-SHA-256=[name=alice]", remove="d0 d1"),
    Step("format -t CLUSTER -c S -s -S SCRAM-SHA-1=[name=alice,password=p]"),
    Step("format -t CLUSTER -c S -s -S SCRAM-SHA-256=[name=alice,password=p,iterations=1]"),
    Step("version-mapping"),
    Step("version-mapping -r 3.3-IV3"),
    Step("version-mapping -r 3.9"),
    Step("version-mapping -r 4.1"),
    Step("version-mapping -r 4.4-IV0"),
    Step("version-mapping -r 2.0"),
    Step("feature-dependencies -f transaction.version=2 -f metadata.version=20 -f group.version=1"),
    Step("feature-dependencies -f eligible.leader.replicas.version=1 -f share.version=1 -f kraft.version=1"),
    Step("feature-dependencies -f nope=1"),
    Step("feature-dependencies -f transaction.version=9"),
    Step("feature-dependencies -f transaction.version"),
    Step("feature-dependencies -f transaction.version=x"),
    Step("feature-dependencies -f metadata.version=99"),
    Step("feature-dependencies"),
    Step(""),
    Step("format"),
    Step("format -t CLUSTER"),
    Step("random-uuid x"),
    Step("nope"),
]


def write_configurations(directory: Path) -> dict[str, str]:
    text = (
        "process.roles=broker,controller\n"
        "node.id=1\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:29093\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=localhost:29093\n"
        f"log.dirs={directory}/d1,{directory}/d0\n"
    )
    (directory / "s.properties").write_text(text)
    (directory / "v.properties").write_text(text.replace("bootstrap.servers=", "voters=1@"))
    return {
        "S": str(directory / "s.properties"),
        "V": str(directory / "v.properties"),
        "CLUSTER": CLUSTER,
        "OTHER": OTHER_CLUSTER,
        "SCRAM": SCRAM,
    }


def masked(text: str, directory: Path) -> str:
    """Without what differs from run to run: the directory, random ids, and the order of directories."""
    text = re.sub(r"directory\.id=[\w-]{22}", "directory.id=ID", text.replace(str(directory), "DIR"))
    lines = text.splitlines(keepends=True)
    formatting = sorted(line for line in lines if line.startswith("Formatting "))
    return "".join([line for line in lines if not line.startswith("Formatting ")] + formatting)


def plain_errors(text: str) -> str:
    """The error itself: words without the usage above it and without the layout."""
    words = re.sub(r"DIR/d[01]", "DIR/d", " ".join(text.split()))
    return words.partition("kafka-storage: error: ")[2] or words


def test_outputs_and_exit_codes_are_those_of_kafkas_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {who: tmp_path / who for who in ("kafka", "ottla")}
    words = {}
    for who, place in places.items():
        place.mkdir()
        words[who] = write_configurations(place)

    def arguments(who: str, step: Step) -> list[str]:
        return [words[who].get(word, word) for word in step.line.split()]

    asked = [
        {
            "arguments": arguments("kafka", step),
            "remove": [f"{places['kafka']}/{n}" for n in step.remove.split()],
        }
        for step in STEPS
    ]
    answers: list[dict[str, Any]] = ask("StorageOracle", asked)
    for step, theirs in zip(STEPS, answers, strict=True):
        for name in step.remove.split():
            shutil.rmtree(places["ottla"] / name, ignore_errors=True)
        capsys.readouterr()
        code = main(arguments("ottla", step))
        captured = capsys.readouterr()
        output = masked(captured.out, places["ottla"])
        errors = plain_errors(masked(captured.err, places["ottla"]))
        assert code == theirs["code"], step
        assert output == masked(theirs["output"], places["kafka"]), step
        # We may add what to do about it to what is wrong.
        expected = plain_errors(masked(theirs["errors"], places["kafka"])).rstrip(".")
        assert errors.startswith(expected), step


def test_files_are_those_of_kafkas_tool(tmp_path: Path) -> None:
    """Same names, same records, same sizes; times, ids and so checksums are their own."""
    step = Step("format -t CLUSTER -c S -I 1@localhost:29093:JEXY6aqzQY-32P5TStzaFg -S SCRAM")
    sizes: dict[str, dict[str, int]] = {}
    records = {}
    for who in ("kafka", "ottla"):
        place = tmp_path / who
        place.mkdir()
        words = write_configurations(place)
        line = [words.get(word, word) for word in step.line.split()]
        if who == "kafka":
            assert ask("StorageOracle", [{"arguments": line, "remove": []}])[0]["code"] == 0
        else:
            assert main(line) == 0
        files = [path for path in place.rglob("*") if path.is_file()]
        sizes[who] = {str(path.relative_to(place)): path.stat().st_size for path in files}
        bootstrap = place / "d0" / "bootstrap.checkpoint"
        records[who] = read_bootstrap(bootstrap.read_bytes(), str(bootstrap))
        meta = parse_meta((place / "d1" / "meta.properties").read_text(), "meta.properties")
        assert (meta.cluster_id, meta.node_id, meta.version) == (CLUSTER, 1, 1)
    assert sizes["ottla"] == sizes["kafka"]
    assert records["ottla"] == records["kafka"]


def test_kafka_starts_on_directories_that_we_formatted(tmp_path: Path) -> None:
    broker = peers.KafkaBroker(tmp_path)
    broker.write_properties()
    assert main(["format", "-t", broker.cluster_id, "-c", str(broker.properties_file), "--standalone"]) == 0
    stopped_by_signal = 143
    with broker.start():
        assert broker.stop() == stopped_by_signal
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_kafka_starts_with_a_static_quorum_on_directories_that_we_formatted(tmp_path: Path) -> None:
    port = peers.free_port()
    voters = {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
    broker = peers.KafkaBroker(tmp_path, properties=voters, controller_port=port)
    broker.write_properties()
    assert main(["format", "-t", broker.cluster_id, "-c", str(broker.properties_file)]) == 0
    stopped_by_signal = 143
    with broker.start():
        assert broker.stop() == stopped_by_signal
    assert (broker.data / ".kafka_cleanshutdown").exists()


def test_we_know_directories_that_kafka_formatted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker = peers.KafkaBroker(tmp_path)
    broker.write_properties()
    broker.format()
    assert main(["info", "-c", str(broker.properties_file)]) == 0
    assert f"cluster.id={broker.cluster_id}" in capsys.readouterr().out
    arguments = ["format", "-t", broker.cluster_id, "-c", str(broker.properties_file), "-s", "-g"]
    assert main(arguments) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"


def test_we_start_on_directories_that_kafka_formatted(tmp_path: Path) -> None:
    formatter = peers.KafkaBroker(tmp_path)
    formatter.write_properties()
    formatter.format()
    ports = formatter.port, formatter.controller_port
    with peers.OttlaBroker(tmp_path, port=ports[0], controller_port=ports[1]) as broker:
        assert broker.stop() == 0
