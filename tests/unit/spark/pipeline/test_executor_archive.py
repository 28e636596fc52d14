"""The archive for executors is complete."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from ottla.spark.pipeline import executor_archive


def test_the_archive_is_named_by_its_content_and_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor_archive, "PACKAGES", ("cramjam",))  # which does not change during the test
    packed = executor_archive.archive(tmp_path)
    made = packed.stat().st_mtime_ns
    assert executor_archive.archive(tmp_path) == packed
    assert packed.stat().st_mtime_ns == made
    assert list(tmp_path.iterdir()) == [packed]
    monkeypatch.setattr(executor_archive, "PACKAGES", ("cramjam", "fastcrc"))
    assert executor_archive.archive(tmp_path) != packed


def test_the_unpacked_archive_can_be_imported(tmp_path: Path) -> None:
    packed = executor_archive.archive(tmp_path / "cache")
    assert executor_archive.settings(packed)["spark.archives"] == f"{packed}#ottla_packages"
    with zipfile.ZipFile(packed) as zipped:
        zipped.extractall(tmp_path / "ottla_packages")
    program = (
        "import sys; sys.path = [sys.argv[1]] + [one for one in sys.path if 'site-packages' not in one]\n"
        "import ottla.client, ottla.records, cramjam, fastcrc\n"
        "print(ottla.records.__file__)"
    )
    # -S and -E: only Python itself from this environment.
    told = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, str(tmp_path / "ottla_packages")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(str(tmp_path))
