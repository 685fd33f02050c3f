"""The reference transport as a program: `conformance node --config FILE` (node contract)."""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.reference.clock import SystemClock
from conformance.reference.config import ConfigurationError
from conformance.reference.node import Node, create
from conformance.reference.storage.database import DatabaseError

_REFUSED = 2
_FAILED = 1


def main(argv: Sequence[str]) -> int:
    """Run a node until SIGTERM; SIGHUP has it read its file again. Return the exit code: 2 for a refused
    configuration."""
    parser = argparse.ArgumentParser(prog="conformance node", description="Run one node of the reference transport.")
    parser.add_argument("--config", type=Path, required=True, help="the node's JSON file (node contract 1)")
    parser.add_argument("--defect", help="be wrong in this named way")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("mail.log").setLevel(logging.ERROR)
    try:
        node = create(arguments.config, SystemClock(), arguments.defect)
        return asyncio.run(_serve(node))
    except (ConfigurationError, ValueError) as error:
        sys.stderr.write(f"configuration refused: {error}\n")
        return _REFUSED
    except (DatabaseError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return _FAILED


async def _serve(node: Node) -> int:
    loop = asyncio.get_running_loop()
    leave = asyncio.Event()
    await node.start()
    loop.add_signal_handler(signal.SIGTERM, leave.set)
    loop.add_signal_handler(signal.SIGINT, leave.set)
    reloads: set[asyncio.Task[None]] = set()

    def again() -> None:
        task = loop.create_task(_reload(node))
        reloads.add(task)
        task.add_done_callback(reloads.discard)

    loop.add_signal_handler(signal.SIGHUP, again)
    await leave.wait()
    await node.stop()
    return _FAILED if node.failure else 0


async def _reload(node: Node) -> None:
    log = logging.getLogger("conformance.node")
    try:
        await node.reload()
    except ConfigurationError as error:
        log.error("configuration refused: %s", error)  # noqa: TRY400  # the text is for whoever wrote the file
    else:
        log.info("configuration read again")
