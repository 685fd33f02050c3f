"""Servers that choke on a number of their configuration. A table; one line is what one of them does about it.

`python chokers.py CONFIG NAME` is a relay of contract 2 that runs the line when its file has a MessageRetryInterval of more
than a year, or one that is not a number: as it starts, and as it reads its file again.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from tests.hostile.programs import relay

ABOUT_IT: dict[str, str] = {
    "takes it": "answer(json.dumps({'revision': revision, 'applied': True}))",
    "refuses it": "refuse('transport.MessageRetryInterval: out of range')",
    "refuses it in what a terminal obeys": r"refuse('\x1b[2J\x1b]0;owned\x07 <script>' * 50)",
    "refuses it in more words than are read": "refuse('no ' * 100_000)",
    "leaves as if refused": "os._exit(2)",
    "dies of an exception": "int(float('inf'))",
    "dies of too deep a recursion": "exec('def f(): return f()\\nf()', {})",
    "dies of a signal": "os.kill(os.getpid(), signal.SIGSEGV)",
    "asks for so much memory at once": "bytearray(1 << 60)",
    "takes memory until it is killed": "held = [bytearray(os.urandom(1 << 20)) for _ in range(1 << 20)]",
    "counts to it": "any(n < 0 for n in range(10**39))",
    "sleeps for so long": "signal.pause()",
    "freezes": "os.kill(os.getpid(), signal.SIGSTOP)",
    "says nothing": "None",
    "answers with half a document": "answer('{\"revision\": ')",
    "answers with a number of 4000 digits": "answer('{\"revision\": ' + '9' * 4000 + ', \"applied\": true}')",
    "answers with an infinite revision": 'answer(\'{"revision": 1e999, "applied": true}\')',
    "answers with nested lists": "answer('[' * 4000)",
    "answers with a link": "os.symlink('/dev/zero', document['status_file'])",
    "answers with a pipe": "os.mkfifo(document['status_file'])",
    "prints it for ever": "[os.write(1, b'9' * 65536) for _ in range(10**9)]",
    "stops listening": "[door.close() for door in doors]; answer(json.dumps({'revision': revision, 'applied': True}))",
}
"""Name -> what it does when it is offered the number."""


def _choke(name: str, document: dict, doors: list[asyncio.Server]) -> None:
    def answer(text: str) -> None:
        Path(document["status_file"]).write_text(text, "utf-8")

    def refuse(why: str) -> None:
        if not doors:  # it has not started yet
            print(why, file=sys.stderr, flush=True)
            os._exit(2)
        answer(json.dumps({"revision": document["revision"], "applied": False, "error": why}))

    known = {"document": document, "revision": document["revision"], "doors": doors, "answer": answer, "refuse": refuse}
    exec(ABOUT_IT[name], {**globals(), **known})  # noqa: S102  # the table's own line


async def main(config: Path, name: str) -> None:
    """Serve, and choke where there is an occasion."""
    doors: list[asyncio.Server] = []

    def read() -> dict:
        document = json.loads(config.read_text("utf-8"))
        every = document["transport"]["MessageRetryInterval"]
        if not isinstance(every, int | float) or not 0 < every < 366 * 86400:
            _choke(name, document, doors)
        return document

    document = read()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, read)
    loop.add_signal_handler(signal.SIGTERM, sys.exit, 0)
    loop.set_exception_handler(lambda *_: os._exit(1))  # what the line raises ends it
    with contextlib.suppress(asyncio.CancelledError):
        await relay(document, doors)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2].replace("_", " ")))
