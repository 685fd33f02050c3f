"""Hostile programs: what a server does to the machine, the harness and its own directory. A table; one line is one program.

`python programs.py CONFIG NAME` runs the line, and is a relay beside it, as far as it can be.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

BEFORE: dict[str, str] = {
    "does nothing": "",
    "forks twice in a session of its own": "double(lambda: time.sleep(3600))",
    "hops from process to process": "double(hop)",
    "kills its guard": "guard = os.getppid(); double(lambda: (time.sleep(0.3), os.kill(guard, 9), time.sleep(3600)))",
    "freezes its guard": "os.kill(os.getppid(), signal.SIGSTOP)",
    "ignores every signal": "[signal.signal(n, signal.SIG_IGN) for n in set(range(1, 32)) - {9, 17, 19}]",
    "freezes itself": "double(lambda: (time.sleep(1), os.kill(own, signal.SIGSTOP)))",
    "leaves zombies": "[double(lambda: None) for _ in range(100)]",
    "is a fork bomb": "double(bomb); time.sleep(3600)",
    "is a thread bomb": "import threading; threads()",
    "eats memory": "double(eat); time.sleep(3600)",
    "fills its disk": "double(fill); time.sleep(3600)",
    "fills its disk with empty files": "double(touch); time.sleep(3600)",
    "makes a file of holes": "open('data/holes', 'wb').truncate(1 << 42)",
    "makes directories deeper than a path": "deep()",
    "floods its log": "flood()",
    "floods its log for ever": "double(lambda: [flood() for _ in range(10**6)])",
    "writes an endless line": "[os.write(1, b'x' * 65536) for _ in range(100)]",
    "writes what a terminal obeys": "os.write(1, b'\\x1b]0;owned\\x07\\x1b[2J\\x9b31m\\r\\n' * 1000)",
    "deletes its log": "os.unlink('node.log')",
    "makes its log a directory": "os.unlink('node.log'); os.makedirs('node.log/a')",
    "makes its log a pipe": "os.unlink('node.log'); os.mkfifo('node.log')",
    "makes its log a link": "os.unlink('node.log'); os.symlink('/etc/passwd', 'node.log')",
    "makes its log an endless device": "os.unlink('node.log'); os.symlink('/dev/zero', 'node.log')",
    "truncates its log": "os.truncate('node.log', 0)",
    "makes its document a directory": "os.unlink('node.json'); os.mkdir('node.json')",
    "makes its document a pipe": "os.unlink('node.json'); os.mkfifo('node.json')",
    "makes its document a link": "os.unlink('node.json'); os.symlink('/etc/passwd', 'node.json')",
    "makes its data a link": "os.rmdir('data'); os.symlink('/etc', 'data')",
    "makes its data a file": "os.rmdir('data'); open('data', 'w').close()",
    "makes its data a pipe": "os.rmdir('data'); os.mkfifo('data')",
    "makes a loop of links": "os.symlink('loop', 'loop'); os.symlink('.', 'data/here'); os.symlink('..', 'data/up')",
    "makes a socket and a pipe": "import socket; socket.socket(socket.AF_UNIX).bind('data/s'); os.mkfifo('data/p')",
    "makes files that nobody may read": "open('data/x', 'w').close(); os.chmod('data/x', 0); os.chmod('data', 0)",
    "names a file as a terminal would obey": "open('data/\\x1b[2J\\n<script>', 'w').close()",
    "names a file in no encoding": "open(b'data/\\xff\\xfe', 'w').close()",
    "deletes its directory": "import shutil; shutil.rmtree(os.getcwd(), ignore_errors=True)",
    "moves its directory away": "os.rename(os.getcwd(), os.getcwd() + '-moved')",
    "closes its output": "os.close(1); os.close(2)",
    "closes all its files": "os.closerange(0, 256)",
    "leaves at once": "os._exit(0)",
    "leaves with 137": "os._exit(137)",
    "leaves with 120": "os._exit(120)",
    "leaves with 2 and a long reason": "os.write(2, b'why ' * 10**6); os._exit(2)",
    "dies of a signal": "os.kill(own, signal.SIGSEGV)",
    "runs another program": "os.execvp('sleep', ['sleep', '3600'])",
    "becomes somebody else": "os.geteuid() == 0 and (os.setgid(65534), os.setuid(65534))",
    "lowers its limits": "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))",
    "listens everywhere": "import socket; held = [socket.create_server(('127.0.0.1', 0)) for _ in range(100)]",
    "opens every file that it may": "held = files()",
    "leaves its cgroup": "leave()",
    "mounts over its data": "ctypes.CDLL(None).mount(b'none', b'data', b'tmpfs', 0, None) if unshared() else None",
}
"""Name -> what it does before it listens, in its own directory."""

HELPERS = """
import ctypes, itertools, os, signal, time
own = os.getpid()
def double(do):
    if (child := os.fork()) == 0:
        os.setsid()
        if os.fork() == 0:
            do()
        os._exit(0)
    os.waitpid(child, 0)
def hop():
    while os.fork() == 0 or not os._exit(0): pass
def bomb():
    while True:
        try:
            if os.fork() == 0: time.sleep(3600)
        except OSError: time.sleep(0.02)
def threads():
    try:
        while True: threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    except RuntimeError: pass
def eat():
    held = []
    while True: held.append(bytearray(os.urandom(1 << 20))); time.sleep(0.001)
def fill():
    for n in itertools.count(): open(f'data/{n}', 'wb').write(b'x' * (1 << 18))
def touch():
    for n in range(30_000): open(f'data/{n}', 'w').close()
    time.sleep(3600)
def deep():
    handle = os.open('data', os.O_RDONLY)
    for _ in range(500):
        os.mkdir('d' * 200, dir_fd=handle); below = os.open('d' * 200, os.O_RDONLY, dir_fd=handle)
        os.close(handle); handle = below
def flood():
    for _ in range(100): os.write(1, b'line\\n' * 10_000)
def files():
    held = []
    try:
        while True: held.append(os.open('/dev/null', os.O_RDONLY))
    except OSError: [os.close(one) for one in held[-20:]]
    return held
def leave():
    for place in ('/sys/fs/cgroup/cgroup.procs', '/sys/fs/cgroup/unified/cgroup.procs'):
        try: open(place, 'w').write(str(own))
        except OSError: pass
def unshared(): return os.geteuid() == 0 and ctypes.CDLL(None).unshare(0x00020000) == 0
"""


async def relay(config: dict, doors: list[asyncio.Server]) -> None:
    """Pass each message on before it is acknowledged, for ever; `doors` gets what it listens with."""
    hop = next(route["next_hops"][0]["dial"] for route in config["routes"] if route["domain"] == "*")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        there = await asyncio.open_connection(*hop)
        await there[0].readline()
        while line := await reader.readline():
            there[1].write(line)
            if line.startswith(b"DATA"):
                writer.write(await there[0].readline())
                there[1].write(await reader.readuntil(b"\r\n.\r\n"))
            while (reply := await there[0].readline())[3:4] == b"-":
                writer.write(reply)
            writer.write(reply)
        writer.close()
        there[1].close()

    for door in config["listeners"].values():
        server = await asyncio.start_server(serve, door["host"], door["port"])
        doors.append(server)
    await asyncio.Event().wait()


if __name__ == "__main__":
    configuration = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    os.chdir(Path(sys.argv[1]).parent)
    exec(HELPERS + BEFORE[sys.argv[2].replace("_", " ")], globals())  # noqa: S102  # the table's own line
    asyncio.run(relay(configuration, []))
