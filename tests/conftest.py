"""Settings for every test that do not depend on how and where the tests are started."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# Deadlines measure the machine, not the code. CI tries the same examples each time, so that what fails there
# fails because of a change; everywhere else each run tries new ones.
settings.register_profile(
    "ottla",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
)
settings.load_profile("ottla")

# A shell that runs the tests in the background has them start with Ctrl-C ignored, and what they start too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


_EXIT_STATUS = pytest.StashKey[int]()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[_EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """In CI the process ends here. What is left of it are threads of a dozen libraries (Spark's bridge,
    librdkafka, loops of clients that a test abandoned), and one that outlives the interpreter crashes it
    when everything has been judged."""
    status = config.stash.get(_EXIT_STATUS, None)
    if os.environ.get("CI") and status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
