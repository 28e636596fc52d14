"""What every Kafka-named tool has in common: how it ends.

No traceback reaches a user. Bad use and failures are one line on standard error and exit code 1, a reader
that closes the pipe (`| head`) ends the tool quietly, and Ctrl-C ends it with 130.
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
    """Read the command line, do the work, and end as tools do; the exit code."""

    def read_and_work() -> int:
        options = parser.parse(sys.argv[1:] if arguments is None else arguments)
        if options.has("version"):
            print(__version__)
            return 0
        return work(options)

    return finish(read_and_work)


def finish(work: Callable[[], int]) -> int:
    """Do the work of a tool and end as tools do; the exit code."""
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
        # What is left in the buffer would be written at exit, and fail again.
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
