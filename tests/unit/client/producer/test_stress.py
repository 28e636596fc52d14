"""The stress of `stress.py`, a few seconds of it, with the compiled modules and with the plain ones.

OTTLA_TEST_STRESS_SECONDS=3600 runs each form for an hour.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SECONDS = os.environ.get("OTTLA_TEST_STRESS_SECONDS", "0")


@pytest.mark.parametrize("kernel", ["compiled", "python"])
def test_every_record_is_reported_where_the_log_has_it(kernel: str) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.unit.client.producer.stress"]
        + ["--rounds", "2", "--seed", "5", "--records", "1500", "--seconds", SECONDS],
        env={**os.environ, "OTTLA_KERNEL": kernel, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every report was true" in done.stdout
