"""A standalone master and workers on loopback, started by the commands of docs/spark-cluster.md."""

import queue
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import psutil

from tests.docs.pages import ROOT, commands
from tests.suite.helpers import environment

PAGE = ROOT / "docs" / "spark-cluster.md"
URL = "spark://127.0.0.1:7077"
"""The address of the master on the page; a test's own master has a free port."""
EXPORTS, MASTER, WORKER, *USES = (command.text for command in commands(PAGE))


def exported_environment() -> dict[str, str]:
    """Return this process's environment after the page's first command."""
    known = environment()
    known["PATH"] = f"{Path(sys.executable).parent}:{known['PATH']}"
    exported = subprocess.run(
        ["bash", "-ec", f"{EXPORTS}; env -0"], env=known, capture_output=True, text=True, check=True
    )
    return dict(line.split("=", 1) for line in exported.stdout.split("\0") if line)


class Cluster:
    """A master, and the workers that were added to it; the processes end with `stack`."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.environment = exported_environment()
        quick = {"SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", "SPARK_LOCAL_IP": "127.0.0.1"}
        self._daemons = self.environment | quick
        _, self._said = self._start(MASTER.replace("7077", "0").replace("8080", "0"))
        self.url = self.wait_for_master(r"spark://127\.0\.0\.1:[1-9]\d*")

    def wait_for_master(self, pattern: str) -> str:
        """Wait until the master says something; it must not end before."""
        return next(match[0] for line in self._said if (match := re.search(pattern, line)))

    def add_workers(self, count: int) -> list[psutil.Process]:
        """Start workers and wait until the master has them."""
        options = f"--webui-port 0 --work-dir {shlex.quote(str(self._folder))} {self.url}"
        started = [self._start(WORKER.replace(URL, options)) for _ in range(count)]
        for _, said in started:
            next(line for line in said if "Successfully registered with master" in line)
        return [psutil.Process(process.pid) for process, _ in started]

    def _start(self, command: str) -> tuple[subprocess.Popen[str], Iterator[str]]:
        process = self._stack.enter_context(
            subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                env=self._daemons,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        said: queue.Queue[str] = queue.Queue()
        reader = threading.Thread(target=_drain, args=(process.stderr, said))
        reader.start()
        self._stack.callback(reader.join)
        self._stack.callback(process.kill)
        return process, iter(said.get, "")


def _drain(stream: IO[str], said: queue.Queue[str]) -> None:
    """Read a log to its end, so that its writer never waits; an empty line says that it ended."""
    for line in stream:
        said.put(line)
    said.put("")
