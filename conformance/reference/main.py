"""The reference transport as a program: `conformance node --config FILE` (node contract)."""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.reference import control
from conformance.reference.config import ConfigurationError, read_data_dir
from conformance.reference.inspection import table
from conformance.reference.node import Node, create
from conformance.reference.storage.database import DatabaseError
from conformance.reference.timers import SystemClock

_REFUSED = 2
_FAILED = 1


def main(argv: Sequence[str]) -> int:
    """Run a node until SIGTERM; SIGHUP has it read its file again. Return the exit code: 2 for a refused
    configuration, 1 when the node failed.

    With a command (`inspect`, `resubmit DATABASE`, `redirect-messages TARGET`) have the running node do it, and print
    its answer as JSON.
    """
    parser = argparse.ArgumentParser(prog="conformance node", description="Run one node of the reference transport.")
    parser.add_argument("--config", type=Path, required=True, help="the node's JSON file (node contract)")
    parser.add_argument("--defect", help="be wrong in this named way")
    parser.add_argument("command", nargs="*", help="inspect | resubmit DATABASE | redirect-messages TARGET")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command:
            return _ask(arguments.config, arguments.command)
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        node = create(arguments.config, SystemClock(), arguments.defect)
        return asyncio.run(_serve(node))
    except (ConfigurationError, ValueError) as error:
        sys.stderr.write(f"configuration refused: {error}\n")
        return _REFUSED
    except (DatabaseError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED


def show_queues(config: Path) -> int:
    """Print the queues of the running node that a configuration file is of, as a table; return the exit code."""
    try:
        state = asyncio.run(control.ask(read_data_dir(config), "inspect", []))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return _REFUSED
    except control.CommandFailed as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    sys.stdout.write(table(state) + "\n")
    return 0


def _ask(config: Path, words: Sequence[str]) -> int:
    try:
        answer = asyncio.run(control.ask(read_data_dir(config), words[0], words[1:]))
    except control.CommandFailed as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


async def _serve(node: Node) -> int:
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    node.when_failed = leave.set
    reloads: set[asyncio.Task[None]] = set()

    def again() -> None:
        task = loop.create_task(_reload(node))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_signal_handler(signal.SIGINT, leave.set)
    await node.start()
    loop.add_signal_handler(signal.SIGHUP, again)
    async with control.serving(node.data_dir, node.command):
        await leave.wait()
    if node.failure:
        await node.kill()
        return _FAILED
    await node.stop()
    return _FAILED if node.failure else 0


async def _reload(node: Node) -> None:
    log = logging.getLogger("conformance.node")
    try:
        await node.reload()
    except ConfigurationError as error:
        log.error("configuration refused: %s", error)  # noqa: TRY400  # the text is for whoever wrote the file
