"""`python -m bench.flame_graph FILE.svg`: where the CPU time of a small produce request goes.

One node under the load of the 500-connection row: its CPU per request without a profiler, then with perf,
then with py-spy (stacks.py says what each is for). Writes the flame graph and prints the time of each part.
It needs perf (in Debian: linux-perf), py-spy (in the bench extra) and the right to trace processes.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.interop.peers import BrokerProcess, end_process, start_process

from bench import generators, stacks
from bench.contenders import SETTINGS
from bench.flame_svg import flame_svg
from bench.generators import GeneratorFailed, Target
from bench.ottla_forms import OttlaFrom
from bench.rows import CONNECTIONS

ROOT = Path(__file__).resolve().parents[1]
REQUESTS = 200_000
ROUNDS = 5
TOPIC = "news"

_RATE = 200
_PERF_RATE = 2_000
_PERF_S = 4
_SPY_S = 20
_RECORD_BYTES = 100
_TIMEOUT_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What was measured: CPU per request, the shares of system calls, and py-spy's lines."""

    user_us: float
    system_us: float
    system_calls: dict[str, float]
    samples: list[str]


def record(source: Path, requests: int) -> Recording:
    """Run a node from a `src` directory, and measure it."""
    generators.build_all()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as temporary:
        place = Path(temporary)
        node = OttlaFrom(place / "node", source, SETTINGS)
        try:
            node.start()
            admin = AdminClient({"bootstrap.servers": node.bootstrap})
            admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(_TIMEOUT_S)
            _load(node, requests)
            rounds = sorted((_cpu_us(node, requests) for _ in range(ROUNDS)), key=sum)
            user_us, system_us = rounds[ROUNDS // 2]
            with _under_load(node, requests):
                shares = _perf(node, place / "perf.data")
                samples = _py_spy(node, place / "samples")
        finally:
            node.close()
    return Recording(user_us=user_us, system_us=system_us, system_calls=shares, samples=samples)


def _load(node: BrokerProcess, requests: int) -> None:
    target = Target(port=node.port, topic=TOPIC, partitions=1, records=requests, timeout_s=_TIMEOUT_S)
    generators.connections(target, count=CONNECTIONS, size=_RECORD_BYTES)


def _cpu_us(node: BrokerProcess, requests: int) -> tuple[float, float]:
    """CPU per request, in user code and in the kernel."""
    process = psutil.Process(node.pid)
    before = process.cpu_times()
    _load(node, requests)
    after = process.cpu_times()
    return (after.user - before.user) / requests * 1e6, (after.system - before.system) / requests * 1e6


@contextmanager
def _under_load(node: BrokerProcess, requests: int) -> Iterator[None]:
    """Repeat the load in the background."""
    is_over = threading.Event()

    def repeat() -> None:
        while not is_over.is_set():
            _load(node, requests)

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def _perf(node: BrokerProcess, file: Path) -> dict[str, float]:
    program = shutil.which("perf")
    if program is None:
        raise GeneratorFailed("perf is missing: install the package linux-perf.")
    record = [program, "record", "-q", "-e", "cpu-clock", "-F", str(_PERF_RATE), "-g", "-p", str(node.pid)]
    _run([*record, "-o", str(file), "--", "sleep", str(_PERF_S)])
    return stacks.system_call_shares(_run([program, "script", "-F", "ip,sym", "-i", str(file)]).splitlines())


def _py_spy(node: BrokerProcess, file: Path) -> list[str]:
    program = Path(sysconfig.get_path("scripts")) / "py-spy"
    if not program.exists():
        raise GeneratorFailed("py-spy is missing: install the bench extra.")
    command = [str(program), "record", "--native", "--format", "raw", "--rate", str(_RATE)]
    _run([*command, "--duration", str(_SPY_S), "--pid", str(node.pid), "--output", str(file)])
    return file.read_text().splitlines()


def _run(command: list[str]) -> str:
    process = start_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=_TIMEOUT_S)
    finally:
        end_process(process)
    if process.returncode:
        raise GeneratorFailed(f"{Path(command[0]).name} failed:\n{errors.decode(errors='replace')[-2000:]}")
    return output.decode(errors="replace")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.read is not None:
        recording = Recording(**json.loads(options.read.read_text()))
    else:
        recording = record(options.source, options.requests)
    if options.keep is not None:
        options.keep.write_text(json.dumps(asdict(recording)))
    found = stacks.weighted(
        stacks.read_samples(recording.samples),
        recording.user_us,
        recording.system_us,
        recording.system_calls,
    )
    options.svg.write_text(flame_svg(found, options.title, "µs of CPU per request"))
    print(
        f"CPU per request: {recording.user_us:.1f} µs in user code, {recording.system_us:.1f} in the kernel"
    )
    print("| part | µs | in the kernel |\n|---|--:|--:|")
    in_kernel = stacks.times_of_parts(found, is_kernel_only=True)
    for part, time in stacks.times_of_parts(found).items():
        print(f"| {part} | {time:.1f} | {in_kernel[part]:.1f} |")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.flame_graph", description=__doc__)
    parser.add_argument("svg", type=Path, metavar="FILE.svg", help="where the picture goes")
    parser.add_argument("--title", default=f"{CONNECTIONS} connections, one record a request")
    parser.add_argument(
        "--source",
        type=Path,
        default=ROOT / "src",
        metavar="DIR",
        help="the `src` of another checkout, compiled there (default: this one)",
    )
    parser.add_argument("--requests", type=int, default=REQUESTS, help="how many in each run of the load")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="also keep what was measured")
    parser.add_argument("--read", type=Path, metavar="FILE", help="draw what was kept; measure nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())
