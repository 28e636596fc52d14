"""kafka-storage.sh: files, output and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.controller.bootstrap import read_bootstrap
from ottla.log.directories.properties import parse_meta
from ottla.tools.storage import main
from ottla.wire import uuid
from ottla.wire.messages.metadata_records import FeatureLevelRecord, UserScramCredentialRecord

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
VOTERS_FILE = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """A configuration file with two directories, the first of which is for metadata."""
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\n"
        "node.id=7\n"
        "listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=localhost:9093\n"
        f"log.dirs={tmp_path}/b,{tmp_path}/a\n"
    )
    return file


def with_voters(node: Path) -> Path:
    file = node.with_name("voters.properties")
    file.write_text(node.read_text().replace("bootstrap.servers=", "voters=7@"))
    return file


def test_random_uuid_prints_a_new_id(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["random-uuid"]) == 0
    first = capsys.readouterr().out.strip()
    assert len(uuid.from_text(first)) == 16
    main(["random-uuid"])
    assert capsys.readouterr().out.strip() != first


def test_random_uuid_loads_next_to_nothing() -> None:
    code = (
        "import sys; from ottla.tools.storage import main; main(['random-uuid']);"
        "sys.exit(any(m in sys.modules for m in ('asyncio', 'ottla.config', 'ottla.host', 'typer')))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], check=False, stdout=subprocess.DEVNULL).returncode == 0
    )


def test_format_writes_cluster_and_node_ids_into_every_directory(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["format", "-t", CLUSTER, "-c", str(node), "--standalone"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("Bootstrap metadata: BootstrapMetadata(records=[ApiMessageAndVersion(")
    directory = node.parent
    assert lines[1:] == [
        f"Formatting data directory {directory}/a with metadata.version 4.3-IV0.",
        f"Formatting dynamic metadata voter directory {directory}/b with metadata.version 4.3-IV0.",
    ]
    metas = [parse_meta((directory / name / "meta.properties").read_text(), name) for name in "ab"]
    assert {(meta.cluster_id, meta.node_id, meta.version) for meta in metas} == {(CLUSTER, 7, 1)}
    assert metas[0].directory_id != metas[1].directory_id
    assert (directory / "b" / VOTERS_FILE).exists()
    assert not (directory / "a" / VOTERS_FILE).exists()
    for name in "ab":
        path = directory / name / "bootstrap.checkpoint"
        records = read_bootstrap(path.read_bytes(), str(path))
        assert isinstance(records[0], FeatureLevelRecord)
        assert (records[0].name, records[0].feature_level) == ("metadata.version", 30)


def test_a_formatted_directory_is_refused_or_ignored(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["format", "-t", CLUSTER, "-c", str(node), "-s"]
    main(arguments)
    before = (node.parent / "a" / "meta.properties").read_bytes()
    capsys.readouterr()
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"Log directory {node.parent}/a is already formatted. "
        "Use --ignore-formatted to ignore this directory and format the others.\n"
    )
    assert main([*arguments, "-g"]) == 0
    assert capsys.readouterr().out == "All of the log directories are already formatted.\n"
    (node.parent / "b" / "meta.properties").unlink()
    assert main([*arguments, "-g"]) == 0
    assert (node.parent / "a" / "meta.properties").read_bytes() == before
    assert (node.parent / "b" / "meta.properties").exists()


def test_directories_of_another_cluster_are_not_touched(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["format", "-t", CLUSTER, "-c", str(node), "-s"])
    (node.parent / "b" / "meta.properties").unlink()
    assert main(["format", "-t", "other", "-c", str(node), "-s", "-g"]) == 1
    assert "Expected other, but read" in capsys.readouterr().err
    assert not (node.parent / "b" / "meta.properties").exists()


def test_a_static_quorum_writes_no_voters(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "-t", CLUSTER, "-c", str(with_voters(node))]) == 0
    assert f"Formatting metadata directory {node.parent}/b " in capsys.readouterr().out
    assert not (node.parent / "b" / VOTERS_FILE).exists()


def test_initial_controllers_name_the_directory(node: Path) -> None:
    mine = "JEXY6aqzQY-32P5TStzaFg"
    voters = f"7@localhost:9093:{mine},8@localhost:9094:MvDxzVmcRsaTz33bUuRU6A"
    assert main(["format", "-t", CLUSTER, "-c", str(node), "-I", voters]) == 0
    meta = parse_meta((node.parent / "b" / "meta.properties").read_text(), "b")
    assert meta.directory_id == uuid.from_text(mine)


def test_features_release_and_credentials_go_into_the_bootstrap_file(node: Path) -> None:
    credential = "SCRAM-SHA-256=[name=alice,password=secret]"
    arguments = ["format", "-t", CLUSTER, "-c", str(with_voters(node)), "-r", "4.0", "-S", credential]
    assert main([*arguments, "-f", "transaction.version=0"]) == 0
    path = node.parent / "b" / "bootstrap.checkpoint"
    records = read_bootstrap(path.read_bytes(), str(path))
    levels = {r.name: r.feature_level for r in records if isinstance(r, FeatureLevelRecord)}
    assert levels["metadata.version"] == 25
    assert "transaction.version" not in levels, "level 0 is not written"
    assert [r.name for r in records if isinstance(r, UserScramCredentialRecord)] == ["alice"]


def test_an_error_writes_nothing(node: Path) -> None:
    assert main(["format", "-t", CLUSTER, "-c", str(node), "-s", "-f", "nope=1"]) == 1
    assert sorted(path.name for path in node.parent.iterdir()) == ["server.properties"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "you must specify one of the following: --standalone, --initial-controllers, or"),
        (
            ["-s", "-f", "kraft.version=0"],
            "Cannot set kraft.version to 0 if controller.quorum.voters is empty",
        ),
        (["-s", "-f", "nope=1"], "Unsupported feature: nope. Supported features are: eligible."),
        (["-s", "-f", "nope"], "Can't parse feature=level string nope: equals sign not found."),
        (["-s", "-f", "a=x"], "Can't parse feature=level string a=x: unable to parse x as a short."),
        (["-s", "-f", "a=99999"], "unable to parse 99999 as a short."),
        (["-s", "-r", "9.9"], "Unknown metadata.version '9.9'."),
        (["-s", "-f", "metadata.version=25", "-r", "4.0"], "Use --release-version instead of --feature"),
        (["-I", "garbage"], "No @ found in dynamic voter string."),
        (["-s", "-S", "SCRAM-SHA-256=[name=alice]"], "You must supply one of 'password' or 'saltedpassword'"),
        (["-s", "-N"], "argument --no-initial-controllers/-N: not allowed with argument --standalone/-s"),
    ],
)
def test_format_errors_are_kafkas_messages(
    node: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["format", "-t", CLUSTER, "-c", str(node), *arguments]) == 1
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.out == ""


def test_voters_and_standalone_exclude_each_other(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "-t", CLUSTER, "-c", str(with_voters(node)), "-s"]) == 1
    assert "You cannot specify controller.quorum.voters and format the node" in capsys.readouterr().err


def test_standalone_needs_a_controller(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = node.read_text().replace("broker,controller", "broker").replace(",CONTROLLER://localhost:9093", "")
    node.write_text(text)
    assert main(["format", "-t", CLUSTER, "-c", str(node), "-s"]) == 1
    assert capsys.readouterr().err == "You can only use --standalone on a controller.\n"
    assert main(["format", "-t", CLUSTER, "-c", str(node)]) == 0


def test_info_describes_directories(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = node.parent
    assert main(["info", "-c", str(node)]) == 1
    assert capsys.readouterr().out == (
        f"Found problems:\n  {directory}/a does not exist\n  {directory}/b does not exist\n\n"
    )
    main(["format", "-t", CLUSTER, "-c", str(node), "-s"])
    capsys.readouterr()
    assert main(["info", "-c", str(node)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == ["Found log directories:", f"  {directory}/a", f"  {directory}/b", ""]
    assert lines[4].startswith(f"Found metadata: {{cluster.id={CLUSTER}, directory.id=")
    assert lines[4].endswith(", node.id=7, version=1}")
    (directory / "a" / "meta.properties").unlink()
    other = (directory / "b" / "meta.properties").read_text()
    assert main(["info", "-c", str(node)]) == 1
    assert f"Found problem:\n  {directory}/a is not formatted.\n" in capsys.readouterr().out
    (directory / "a" / "meta.properties").write_text(other.replace(CLUSTER, "other"))
    assert main(["info", "-c", str(node)]) == 1
    assert "Mismatched cluster IDs between storage directories." in capsys.readouterr().out
    (directory / "a" / "meta.properties").write_text("version=1\n")
    assert main(["info", "-c", str(node)]) == 1
    assert f"Error loading {directory}/a/meta.properties: " in capsys.readouterr().out


def test_variables_move_the_directories_as_they_do_for_the_node(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_LOG_DIRS", f"{node.parent}/elsewhere")
    assert main(["format", "-t", CLUSTER, "-c", str(node), "-s"]) == 0
    assert (node.parent / "elsewhere" / "meta.properties").exists()
    assert not (node.parent / "a").exists()


def test_an_invalid_configuration_is_reported(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node.write_text(node.read_text() + "num.partitions=none\n")
    assert main(["format", "-t", CLUSTER, "-c", str(node), "-s"]) == 1
    assert f"{node}, line 7: num.partitions=none is not allowed" in capsys.readouterr().err
    assert main(["info", "-c", "/no/such/file"]) == 1
    assert "The configuration file /no/such/file cannot be read" in capsys.readouterr().err


def test_version_mapping(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version-mapping", "-r", "4.1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "metadata.version=27 (4.1)",
        "kraft.version=1",
        "transaction.version=2",
        "group.version=1",
        "eligible.leader.replicas.version=1",
        "share.version=0",
        "streams.version=0",
    ]
    assert main(["version-mapping", "-r", "2.0"]) == 1
    assert capsys.readouterr().err.startswith("Unknown metadata.version '2.0'.")


def test_feature_dependencies(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "feature-dependencies",
        "-f",
        "metadata.version=20",
        "-f",
        "eligible.leader.replicas.version=1",
    ]
    assert main(arguments) == 0
    assert capsys.readouterr().out == (
        "metadata.version=20 (3.8-IV0) has no dependencies.\n"
        "eligible.leader.replicas.version=1 requires:\n"
        "    metadata.version=23 (4.0-IV1)\n"
    )


@pytest.mark.parametrize(
    ("feature", "sentence"),
    [
        ("nope=1", "Unknown feature: nope"),
        ("transaction.version=9", "Feature level 9 is not supported for feature transaction.version"),
        ("transaction.version", "Invalid feature format: transaction.version."),
        ("transaction.version=x", "Invalid version format: x for feature transaction.version"),
        ("metadata.version=99", "Unknown metadata.version 99"),
    ],
)
def test_unknown_features_are_reported(
    capsys: pytest.CaptureFixture[str], feature: str, sentence: str
) -> None:
    assert main(["feature-dependencies", "-f", feature]) == 1
    assert capsys.readouterr().err.startswith(sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "kafka-storage: error: too few arguments"),
        (["format"], "kafka-storage: error: argument --cluster-id/-t is required"),
        (["format", "-t", "x"], "kafka-storage: error: argument --config/-c is required"),
        (["feature-dependencies"], "kafka-storage: error: argument --feature/-f is required"),
        (["random-uuid", "x"], "kafka-storage: error: unrecognized arguments: 'x'"),
        (
            ["nope"],
            "kafka-storage: error: invalid choice: 'nope' (choose from 'info', 'format', 'version-mapping',",
        ),
    ],
)
def test_a_bad_command_line_ends_with_usage_and_exit_code_one(
    capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(arguments) == 1
    captured = capsys.readouterr().err
    assert captured.startswith("usage: kafka-storage")
    assert sentence in captured


def test_help_is_no_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["format", "--help"]) == 0
    assert "--no-initial-controllers" in capsys.readouterr().out
