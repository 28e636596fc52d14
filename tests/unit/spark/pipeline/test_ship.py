"""What is sent to executors is all that they need."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

from ottla.spark.pipeline.ship import archive, settings


def test_the_archive_is_made_once_and_can_be_imported_from_where_it_is_unpacked(tmp_path: Path) -> None:
    packed = archive(tmp_path / "cache")
    assert archive(tmp_path / "cache") == packed
    assert sorted(one.name for one in (tmp_path / "cache").iterdir()) == [packed.name]
    with zipfile.ZipFile(packed) as zipped:
        zipped.extractall(tmp_path / "ottla_packages")
    program = (
        "import sys; sys.path = [sys.argv[1]] + [one for one in sys.path if 'site-packages' not in one]\n"
        "import ottla.client, ottla.records, cramjam, fastcrc\n"
        "print(ottla.records.__file__)"
    )
    # -S and -E: nothing of this environment is there but Python itself.
    told = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program, str(tmp_path / "ottla_packages")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith(str(tmp_path))
    assert settings(packed)["spark.archives"].endswith("#ottla_packages")
