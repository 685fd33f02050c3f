"""The reference transport as a program: `conformance node --config FILE` (node contract).

It runs one node (one mail server, node.py) in its process, or sends an administrator's command to a node that runs in another
process (control.py). FILE is the node's JSON configuration; it also names the data directory, by which commands find the running
node.
"""

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
from conformance.reference.inspection import format_table
from conformance.reference.node import Node, create
from conformance.reference.storage.database import DatabaseError
from conformance.reference.timers import SystemClock

_EXIT_REFUSED = 2
_EXIT_FAILED = 1


def main(argv: Sequence[str]) -> int:
    """Run a node until SIGTERM or SIGINT, or send a command to a running one; return the exit code.

    Without a command: SIGHUP reloads the configuration; the code is 0 after an orderly stop, 2 for a refused configuration or an
    unknown defect, and 1 if the node could not start or failed. With a command (`inspect`, `resubmit DATABASE`,
    `redirect-messages TARGET`): print the node's answer as JSON; the code is 0, 1 if the command was refused or failed or no node
    runs, and 2 if the file names no data directory. The reason is on stderr (for a node that failed while it ran, as log lines).
    Invalid options raise SystemExit.
    """
    parser = argparse.ArgumentParser(prog="conformance node", description="Run one node of the reference transport.")
    parser.add_argument("--config", type=Path, required=True, help="the node's JSON file (node contract)")
    parser.add_argument("--defect", help="run with this named defect")
    parser.add_argument("command", nargs="*", help="inspect | resubmit DATABASE | redirect-messages TARGET")
    arguments = parser.parse_args(argv)
    try:
        if arguments.command:
            return _send_command(arguments.config, arguments.command)
        logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
        logging.getLogger("mail.log").setLevel(logging.ERROR)  # the log of aiosmtpd
        node = create(arguments.config, SystemClock(), arguments.defect)
        return asyncio.run(_serve(node))
    except (ConfigurationError, ValueError) as error:
        sys.stderr.write(f"configuration refused: {error}\n")
        return _EXIT_REFUSED
    except (DatabaseError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_FAILED


def show_queues(config: Path) -> int:
    """Print the queues of the running node with this configuration file as a table; return the exit code.

    That is 0, 1 if no node runs there or it does not answer, or 2 if the file names no data directory; the reason of 1 and 2 is on
    stderr. Waits for the answer without limit.
    """
    try:
        state = asyncio.run(control.send_command(read_data_dir(config), "inspect", []))
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_REFUSED
    except control.CommandFailed as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_FAILED
    sys.stdout.write(format_table(state) + "\n")
    return 0


def _send_command(config: Path, words: Sequence[str]) -> int:
    """Send a command (`words`: its name and arguments) to the running node with the file `config`, and print its answer as JSON.

    Return the exit code: 0, or 1 with the reason on stderr if the command was refused or failed or no node runs. Waits for the
    answer without limit. Raises ConfigurationError if the file names no data directory.
    """
    try:
        answer = asyncio.run(control.send_command(read_data_dir(config), words[0], words[1:]))
    except control.CommandFailed as error:
        sys.stderr.write(f"{error}\n")
        return _EXIT_FAILED
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0


async def _serve(node: Node) -> int:
    """Start a node and run it until SIGTERM, SIGINT or a failure; return the exit code.

    A signal stops the node in an orderly way, a failure kills it. The code is 1 if a task or a timer of the node failed, before
    or during its stop, else 0. Meanwhile SIGHUP reloads the configuration, and the socket in the data directory takes
    administrators' commands. Raises what `Node.start` and `Node.stop` raise, and OSError if that socket cannot be opened.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    node.when_failed = stop.set
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_signal_handler(signal.SIGINT, stop.set)
    await node.start()
    loop.add_signal_handler(signal.SIGHUP, lambda: node.start_task(_reload(node), "reload"))
    async with control.serve_commands(node.data_dir, node.command):
        await stop.wait()
    if node.failure:
        await node.kill()
        return _EXIT_FAILED
    await node.stop()
    return _EXIT_FAILED if node.failure else 0


async def _reload(node: Node) -> None:
    """Have the node read its configuration file again; if the file is refused, log why, and leave the old configuration in force.

    It runs as a task of the node, at each SIGHUP. Raises DatabaseError as `Node.reload` does, which makes the node fail.
    """
    log = logging.getLogger("conformance.node")
    try:
        await node.reload()
    except ConfigurationError as error:
        log.error("configuration refused: %s", error)  # noqa: TRY400  # the text is enough for the author of the file
