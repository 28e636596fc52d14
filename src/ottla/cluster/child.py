"""The process of a node: `python -m ottla.cluster.child server.properties`, tied to its parent by stdin.

Like `ottla serve` it takes `--data`, `--port` and `--override`; with `--shared-log` its lines name the node.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time

from ottla.cluster.process import STOP_SECONDS_MAX
from ottla.config import ConfigError
from ottla.operations.configuration import ConfigurationSource, parse_overrides
from ottla.server.node import Node, run

_TIE = 0


def _end_with_parent() -> None:
    """Stop as on SIGTERM once the parent has exited; exit immediately if that takes too long."""
    while os.read(_TIE, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_SECONDS_MAX)
    os._exit(1)


def _announce(node: Node) -> None:
    try:
        os.write(_TIE, b"r")
    except OSError:  # the parent has exited; the other thread ends this process
        return


def main() -> int:
    parser = argparse.ArgumentParser(prog="ottla.cluster.child")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--data")
    parser.add_argument("--port", type=int)
    parser.add_argument("--override", action="append", default=[])
    parser.add_argument("--shared-log", action="store_true")
    options = parser.parse_args()
    try:
        config = ConfigurationSource(
            file=options.file,
            data=options.data,
            port=options.port,
            overrides=parse_overrides(options.override),
        ).load()
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    threading.Thread(target=_end_with_parent, daemon=True).start()
    source = f"node {config.node_id}" if options.shared_log else None
    return run(config, on_started=_announce, log_source=source)


if __name__ == "__main__":
    sys.exit(main())
