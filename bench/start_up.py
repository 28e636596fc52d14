"""How long `kafka-topics --list` takes, ours and Kafka's side by side on one Kafka broker.

    python -m bench.start_up [RUNS]

Both are started as their scripts start them, in turn, so that a busy machine is busy for both. The middle of
the times counts; bare Python and the JVM's own settings for short runs are shown beside them.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from tests.interop import peers

_RUNS = 10
# The options of bin/kafka-run-class.sh for tools.
_SCRIPT_JVM = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-Djava.awt.headless=true")


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else _RUNS
    with peers.running("kafka") as broker:
        line = ["--bootstrap-server", broker.bootstrap, "--list"]
        tool = "import sys; from ottla.tools.topics import main; sys.exit(main())"
        java = "org.apache.kafka.tools.TopicCommand"
        commands = {
            "ours": [sys.executable, "-c", tool, *line],
            "Kafka's": peers.java_command(java, *line, jvm=_SCRIPT_JVM),
            "Kafka's, quickest JVM": peers.java_command(java, *line),
            "Python alone": [sys.executable, "-c", "pass"],
        }
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(runs):
            for name, command in commands.items():
                times[name].append(_seconds(command))
    for name, seconds in times.items():
        print(f"{name:22} {statistics.median(seconds):.3f} s  (least {min(seconds):.3f} s)")
    ratio = statistics.median(times["ours"]) / statistics.median(times["Kafka's"])
    print(f"ours takes {ratio:.2f} of Kafka's time")
    return 0


def _seconds(command: list[str]) -> float:
    environment = {**os.environ, "PYTHONPATH": str(peers.ROOT / "src")}
    began = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
