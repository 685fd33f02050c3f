"""The command line: `conformance COMMAND`. Each command calls one function of `conformance.commands` or of the reference.

What a command needs is imported when it is called: importing everything would take a second before each one.
"""

import gc
import signal
import sys
from collections.abc import Sequence

import typer

from conformance.cli.app import app
from conformance.report.escaping import visible
from conformance.shortage import describe_harness_error

# isort: off
# Their commands register themselves; `conformance --help` lists them in this order.
from conformance.cli import running, proving, results, hosts, servers  # noqa: F401
# isort: on

__all__ = ["app", "main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its exit code. An unexpected error is printed as one sentence, and exits with 3.

    `arguments` are the words after the program's name; None: those of this process.
    """
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # as CI ends a job: clean up as after Ctrl-C
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    # The modules that are loaded now stay: searching them for garbage takes a tenth of the start.
    gc.set_threshold(10_000, 10, 10)
    try:
        app(args=list(arguments) if arguments is not None else sys.argv[1:])
    except Exception as error:  # noqa: BLE001  # 1 would mean that the server is wrong
        typer.echo(visible(describe_harness_error(error), 1000), err=True)
        sys.exit(3)
