"""The process of a node: `python -m ottla.cluster.child server.properties`, tied to its parent by stdin."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from ottla.cluster.process import STOP_SECONDS_MAX
from ottla.config import ConfigError
from ottla.operations.configuration import load_configuration
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
    try:
        config = load_configuration(sys.argv[1])
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    threading.Thread(target=_end_with_parent, daemon=True).start()
    return run(config, on_started=_announce)


if __name__ == "__main__":
    sys.exit(main())
