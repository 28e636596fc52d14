"""Facts about the machine and the programs of a run, and the machine's other load."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from importlib.metadata import version
from pathlib import Path

import psutil
from tests.interop.peers import KAFKA_VERSION

import ottla.records
from ottla.version import __version__

_QUIET_SHARE_MAX = 0.15
_QUIET_WINDOW_S = 0.5


def facts(directory: Path) -> dict[str, str]:
    """The facts that a reader needs to judge the numbers."""
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    return {
        "processor": f"{psutil.cpu_count()} x {_processor()}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "file system": _file_system(directory),
        "system": f"{platform.system()} {platform.release()}",
        "Kafka": f"{KAFKA_VERSION} on {java.splitlines()[1] if java.count(chr(10)) > 1 else 'java'}",
        "Ottla": f"{__version__} on Python {platform.python_version()}, {ottla.records.KERNEL} kernel, "
        f"uvloop {version('uvloop')}",
        "clients": f"Kafka's Java clients {KAFKA_VERSION}, librdkafka of confluent-kafka "
        f"{version('confluent-kafka')}",
    }


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _file_system(directory: Path) -> str:
    path = directory.resolve()
    mounts = {Path(one.mountpoint): one.fstype for one in psutil.disk_partitions(all=True)}
    return next((str(mounts[place]) for place in (path, *path.parents) if place in mounts), "unknown")


def busy_cpu_s() -> float:
    """CPU seconds that all processes of the machine have used so far."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def set_niceness(niceness: int) -> None:
    """Set the niceness of this process and its children, and of the session where the system shares CPU by
    session."""
    os.nice(niceness)
    autogroup = Path("/proc/self/autogroup")
    if autogroup.exists():
        autogroup.write_text(str(niceness))


def wait_for_quiet(patience_s: float) -> None:
    """Wait until the machine is nearly idle, but no longer than `patience_s`."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        before, started = busy_cpu_s(), time.monotonic()
        time.sleep(_QUIET_WINDOW_S)
        share = (busy_cpu_s() - before) / (time.monotonic() - started)
        if share <= _QUIET_SHARE_MAX * psutil.cpu_count():
            return
