"""The child process behind `Broker(in_process=False)`: one JSON argument in, one JSON line out."""

from __future__ import annotations

import json
import sys

from ottla.server.log_lines import set_up_logging
from ottla.server.node import Node, run_loop, serve_until_signal
from ottla.testing.broker import make_node


def _announce(node: Node) -> None:
    print(json.dumps({"port": node.port}), flush=True)


def main() -> int:
    arguments = json.loads(sys.argv[1])
    set_up_logging(sys.stderr)
    node = make_node(arguments["data_directory"], arguments["port"], arguments["config"], owns_process=True)
    return run_loop(serve_until_signal(node, on_started=_announce))


if __name__ == "__main__":
    sys.exit(main())
