"""The `exec` kind: a program on this machine, its whole process tree guarded."""

import asyncio
import json
import os
import re
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from conformance.nodes import guard
from conformance.nodes.candidate import Candidate
from conformance.nodes.contract import ConfigurationRefused, NodeConfiguration, NodeError, Unsupported
from conformance.nodes.readiness import wait_ready

_REFUSED = 2
"""Exit code of a node that refuses its configuration (node contract)."""

_PLACEHOLDER = re.compile(r"\{([a-z0-9_.]+)\}")


class ExecNode:
    """One node as a process; `directory` holds its data, its files and its log."""

    def __init__(self, name: str, candidate: Candidate, directory: Path) -> None:
        self.name = name
        self._candidate = candidate
        self._directory = directory
        self._process: Process | None = None
        self._ended = asyncio.Event()
        self._watch: asyncio.Task[None] | None = None
        self._asked_to_end = False
        self._failure: str | None = None
        self._configuration: NodeConfiguration = {}
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def log(self) -> Path:
        """What the node wrote to stdout and stderr."""
        return self._directory / "node.log"

    @property
    def failure(self) -> str | None:
        """Why the process ended without being asked to, or None."""
        return self._failure

    async def start(self, configuration: NodeConfiguration) -> None:
        """Render the files, start the command under its guard, wait for the greetings."""
        self._configuration = configuration
        (self._directory / "data").mkdir(exist_ok=True)
        self._write_files()
        self._ended.clear()
        self._asked_to_end = False
        self._failure = None
        argv = [sys.executable, "-S", "-E", guard.__file__, *self._filled(self._candidate.argv)]
        if not self._candidate.argv:
            raise NodeError(self.name, "start", "the candidate's description has no argv")
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=log, stderr=log, start_new_session=True, env=self._environment()
            )
        self._watch = asyncio.create_task(self._wait(self._process), name=f"watch {self.name}")
        listeners = [(door, at["host"], at["port"]) for door, at in configuration["listeners"].items()]
        try:
            await wait_ready(self.name, listeners, self._candidate.ready_within, self._ended)
        except NodeError as error:
            code = self._process.returncode
            await self._end()
            if code == _REFUSED:
                raise ConfigurationRefused(self.name, "start", self._last_words()) from error
            if code is not None:
                words = self._last_words()
                raise NodeError(self.name, "start", f"it left with exit code {code}: {words}") from error
            raise

    async def stop(self) -> int:
        """SIGTERM, and wait for the end; what does not leave is killed and told as an error."""
        process = self._running("stop")
        self._asked_to_end = True
        self._tell(b"T")
        try:
            async with asyncio.timeout(self._candidate.stop_within):
                await self._ended.wait()
        except TimeoutError:
            await self._end()
            bound = self._candidate.stop_within
            raise NodeError(self.name, "stop", f"it did not leave within {bound:g} s of SIGTERM") from None
        await self._end()
        return process.returncode or 0

    async def kill(self) -> None:
        """SIGKILL the whole tree."""
        self._running("kill")
        await self._end()

    async def wipe(self) -> None:
        """Delete the data directory."""
        if self._process is not None:
            raise NodeError(self.name, "wipe", "the node is running", "stop or kill it first")
        shutil.rmtree(self._directory / "data")

    async def pause(self) -> None:
        """SIGSTOP the whole tree."""
        self._running("pause")
        self._tell(b"S")

    async def resume(self) -> None:
        """SIGCONT the whole tree."""
        self._running("resume")
        self._tell(b"C")

    async def reload(self, configuration: NodeConfiguration) -> None:
        """Write the files anew and send SIGHUP; a refusal is read from the log's new lines.

        The contract has no reply to a reload from outside: a node that refuses says so on stderr and goes on as it was.
        """
        self._running("reload")
        before = self.log.stat().st_size
        self._configuration = configuration
        self._write_files()
        self._tell(b"H")
        words = await self._reload_words(before)
        if words and "refused" in words:
            raise ConfigurationRefused(self.name, "reload", words)

    async def command(self, name: str, arguments: Sequence[str] = ()) -> Any:
        """Run the description's command of that name and read its JSON."""
        template = self._candidate.commands.get(name)
        if template is None:
            raise Unsupported(self.name, name, "the candidate's description has no such command")
        argv = self._filled(template, arguments)
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=self._environment()
        )
        out, err = await process.communicate()
        if process.returncode:
            raise NodeError(self.name, name, f"exit code {process.returncode}: {err.decode(errors='replace').strip()}")
        try:
            return json.loads(out) if out.strip() else None
        except ValueError as error:
            raise NodeError(self.name, name, f"it printed no JSON: {out[:200]!r}") from error

    async def _reload_words(self, before: int) -> str:
        """Return what the node logged about its reload: its first new line that speaks of configuration."""
        async with asyncio.timeout(self._candidate.ready_within):
            while True:
                with self.log.open("rb") as log:
                    log.seek(before)
                    new = log.read().decode(errors="replace")
                if found := next((line for line in new.splitlines() if "configuration" in line.lower()), None):
                    return found
                await asyncio.sleep(0.01)

    async def _wait(self, process: Process) -> None:
        code = await process.wait()
        if not self._asked_to_end:
            self._failure = f"it left by itself with exit code {code}: {self._last_words()}"
        self._ended.set()

    async def _end(self) -> None:
        """Kill whatever is left of the tree and reap the guard."""
        process, watch = self._process, self._watch
        self._process = self._watch = None
        self._asked_to_end = True
        if process is not None and process.returncode is None:
            self._tell(b"K", process)
        if watch is not None:
            await watch
        if process is not None and process.stdin is not None:
            process.stdin.close()

    async def close(self) -> None:
        """End the node however it is."""
        await self._end()

    def _tell(self, word: bytes, process: Process | None = None) -> None:
        process = process or self._process
        if process is not None and process.stdin is not None and not process.stdin.is_closing():
            process.stdin.write(word)

    def _running(self, stage: str) -> Process:
        if self._process is None:
            raise NodeError(self.name, stage, "the node is not running")
        return self._process

    def _write_files(self) -> None:
        (self._directory / "node.json").write_text(json.dumps(self._configuration, indent=1), encoding="utf-8")
        for name, template in self._candidate.files.items():
            path = self._directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self._fill(template), encoding="utf-8")

    def _filled(self, template: Sequence[str], arguments: Sequence[str] = ()) -> list[str]:
        words = {str(place): argument for place, argument in enumerate(arguments, 1)}
        extra = (
            ["--defect", self._candidate.defect] if self._candidate.defect and template is self._candidate.argv else []
        )
        return [*(self._fill(word, words) for word in template), *extra]

    def _fill(self, template: str, words: dict[str, str] | None = None) -> str:
        values = {
            "python": sys.executable,
            "config": str(self._directory / "node.json"),
            "data": str(self._directory / "data"),
            "name": self.name,
            **{f"listen.{door}": str(at["port"]) for door, at in self._configuration["listeners"].items()},
            **(words or {}),
        }
        return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), template)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self._candidate.environment}

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "(it wrote nothing)"
