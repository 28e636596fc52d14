"""The entry point that every Kafka-named tool shares: error handling and exit codes.

No traceback reaches a user. Usage errors and failures are one line on standard error with exit code 1; if the
reader closes the pipe (`| head`), the tool exits quietly; Ctrl-C exits with 130.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from ottla.client.errors import ClientError
from ottla.operations.failure import Failure
from ottla.tools.arguments import OptionParser, Options, UsageError
from ottla.version import __version__
from ottla.wire.errors import KafkaError

_INTERRUPTED = 130


def run(parser: OptionParser, work: Callable[[Options], int], arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the tool, handle errors; return the exit code."""

    def read_and_work() -> int:
        options = parser.parse(sys.argv[1:] if arguments is None else arguments)
        if options.has("version"):
            print(__version__)
            return 0
        return work(options)

    return finish(read_and_work)


def finish(work: Callable[[], int]) -> int:
    """Run a tool's work with the common error handling; return the exit code."""
    try:
        code = work()
        sys.stdout.flush()
        return code
    except SystemExit as end:
        return int(end.code or 0)
    except UsageError as error:
        print(error, file=sys.stderr)
        if error.help_text:
            print(error.help_text, file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Python would flush the rest of the buffer at exit, and fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (Failure, KafkaError, ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{error.filename}: {error.strerror}" if error.filename else error, file=sys.stderr)
        return 1
