"""Run a node as a program between minimal peers and sinks, and compare its replies with the conversations of the pages.

Of the harness only the leases of ports are used: the node's file is the page's example with changes, and the other parties
are a few lines each.
"""

import json
import re
import socket
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.nodes.places import PortLeases
from tests.docs.pages import ROOT

CONTRACT = (ROOT / "docs" / "node-contract.md").read_text("utf-8")
PROFILE = (ROOT / "docs" / "wire-profile.md").read_text("utf-8")
EXAMPLES = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```$", CONTRACT, re.MULTILINE | re.DOTALL)]
CONVERSATIONS = re.findall(r"^```text\n(.*?)^```$", PROFILE, re.MULTILINE | re.DOTALL)
PROGRAMS = {
    "reference": [sys.executable, "-m", "conformance.reference"],
    "example": [sys.executable, str(ROOT / "examples" / "minimal-shadow-node" / "node.py")],
}
WITHIN = 20.0
"""Timeout in seconds of every connection, command and condition."""

_LEASES = PortLeases()
_ID = re.compile(r"[0-9a-f]{6}-1(?:-[0-9]+)?")
_FIXED = re.compile(r"Queued mail for |Message failed to be ")
_SHADOW_VERBS = ("XSHADOWREQUEST", "XSHADOW", "XQDISCARD", "XQUERYDISCARD")


class Party(socketserver.ThreadingTCPServer):
    """A peer or sink of the node: accepts mail, replies to each content with what `answer` returns, and speaks the shadow verbs."""

    allow_reuse_address = daemon_threads = True

    def __init__(self, name: str, answer: Callable[[str], str] | None = None) -> None:
        self.name = name
        self.answer = answer or (lambda content: "250 2.6.0 x Queued mail for redundancy")
        self.shadow_ids: list[str] = []
        self.received = 0
        super().__init__(("127.0.0.1", 0), _PartySession)

    @property
    def dial(self) -> list[str | int]:
        """Host and port, as the node's file has them."""
        return ["127.0.0.1", self.server_address[1]]


class _PartySession(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        party: Party = self.server  # type: ignore[assignment]
        recipients = 0
        lmtp = False
        self._say("220 here")
        while line := self.rfile.readline().decode("latin-1").strip():
            verb = line.split()[0].upper()
            if verb in ("EHLO", "LHLO"):
                lmtp = verb == "LHLO"
                self._say(f"250-{party.name}", "250 XSHADOWREQUEST")
            elif verb == "XSHADOWREQUEST":
                self._say(f"250 2.0.0 {party.name} the-database-of-{party.name}")
            elif verb == "XQDISCARD":
                self._say(f"250-2.0.0 database the-database-of-{party.name}", "250 2.0.0 end 0")
            elif verb == "DATA":
                self._say("354 go on")
                content = "".join(iter(lambda: self.rfile.readline().decode("latin-1"), ".\r\n"))
                party.received += 1
                self._say(*[party.answer(content)] * (recipients if lmtp else 1))
                recipients = 0
            elif verb == "QUIT":
                self._say("221 2.0.0 bye")
                return
            else:
                party.shadow_ids += re.findall(r" XSHADOW=(\S+)", line)
                recipients += verb == "RCPT"
                self._say("250 2.0.0 ok")

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())


@contextmanager
def parties(**made: Party) -> Iterator[dict[str, Party]]:
    """Run the parties in threads as long as the block runs; yield them by name."""
    for one in made.values():
        threading.Thread(target=one.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        for one in made.values():
            one.shutdown()
            one.server_close()


def free_port() -> int:
    """Return a free port, leased to this process until it ends: no other run on this machine takes it."""
    return _LEASES.lease()


def document(directory: Path, **changes: Any) -> dict[str, Any]:
    """Return the page's example of a node's file with existing folders, leased ports and `changes`; make the folders."""
    whole = json.loads(json.dumps(EXAMPLES[0]))
    (directory / "status").mkdir(parents=True)
    (directory / "data").mkdir()
    whole |= {"data_dir": str(directory / "data"), "status_file": str(directory / "status" / "status.json")} | changes
    for listener in whole["listeners"].values():
        listener["port"] = free_port()
    return whole


class Program:
    """A running node; the constructor writes its file, starts it, and blocks until each listener greets."""

    def __init__(self, words: list[str], directory: Path, given: dict[str, Any]) -> None:
        self._words, self.path, self.given = words, directory / "node.json", given
        self.write()
        with (directory / "node.log").open("wb") as log:
            self.process = subprocess.Popen([*words, "--config", str(self.path)], stdout=log, stderr=log, cwd=ROOT)
        for listener in given["listeners"].values():
            self.wait_for(lambda port=listener["port"]: self._greets(port))

    def write(self, **changes: Any) -> None:
        """Write the node's file again with changes."""
        self.given |= changes
        self.path.write_text(json.dumps(self.given), "utf-8")

    @staticmethod
    def _greets(port: int) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=WITHIN) as one:
                return one.recv(3) == b"220"
        except OSError:
            return False

    def wait_for(self, condition: Callable[[], Any]) -> Any:
        """Poll a condition until its value is true, and return that value. Fails after WITHIN, or when the node has exited."""
        end = time.monotonic() + WITHIN
        while not (found := condition()):
            assert self.process.poll() is None, "the node has exited"
            assert time.monotonic() < end, "the condition did not become true"
            time.sleep(0.05)
        return found

    def command(self, *words: str) -> Any:
        """Run an administrative command such as `inspect`, and return the JSON that it prints."""
        command = [*self._words, "--config", str(self.path), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=WITHIN)
        return json.loads(ran.stdout)

    def items(self, kind: str) -> list[dict[str, Any]]:
        """Return the items of all queues of a kind."""
        return [item for one in self.command("inspect")["queues"] if one["kind"] == kind for item in one["items"]]

    def status(self) -> dict[str, Any]:
        """Return the status file's content; empty while there is none."""
        path = Path(self.given["status_file"])
        return json.loads(path.read_text("utf-8")) if path.exists() else {}

    def stop(self) -> int:
        """Terminate the node, wait for its end, and return its exit code."""
        self.process.terminate()
        return self.process.wait(WITHIN)


@contextmanager
def running(which: str, directory: Path, **changes: Any) -> Iterator[Program]:
    """Run a node (`reference` or `example`) as long as the block runs; it must end with exit code 0."""
    directory.mkdir(parents=True, exist_ok=True)
    program = Program(PROGRAMS[which], directory, document(directory, **changes))
    try:
        yield program
        assert program.stop() == 0
    finally:
        program.process.kill()
        program.process.wait()


def check_conversation(port: int, conversation: str, contents: list[str], *, whole_greeting: bool) -> dict[str, str]:
    """Send the client's lines of a conversation to a server, and compare the replies with those of the page.

    Ids on the page are placeholders: the same id stands for the same value throughout, different ids for different values.
    The text after a reply code is compared only for shadow verbs and some final replies. `contents` are sent, and used up,
    where the page has `(the content)`. `whole_greeting`: EHLO may offer no other keywords but CHUNKING. Return placeholder -> value.
    """
    bound: dict[str, str] = {}
    verb = "GREETING"
    with socket.create_connection(("127.0.0.1", port), timeout=WITHIN) as one, one.makefile("rwb") as stream:

        def say(line: str) -> None:
            stream.write(f"{line}\r\n".encode())
            stream.flush()

        def next_line() -> str:
            return stream.readline().decode("utf-8").removesuffix("\r\n")

        lines = conversation.splitlines()
        if not lines[0].startswith("S: 220"):
            assert next_line().startswith("220 ")
        expected: list[str] = []
        for line in [*lines, "C: QUIT" if "C: QUIT" not in lines else "C: "]:
            who, said = line[:2], re.split(r"\s{2,}", line[3:])[0]
            if who == "S:":
                expected.append(said)
                continue
            _compare(verb, expected, next_line, bound, whole_greeting=whole_greeting)
            expected = []
            if said.startswith("(the content"):
                say(contents.pop(0))
            elif said:
                verb = said.split()[0]
                say(_ID.sub(lambda found: bound.get(found[0], found[0]), said))
    assert len(set(bound.values())) == len(bound), bound
    return bound


def _compare(
    verb: str, expected: list[str], next_line: Callable[[], str], bound: dict[str, str], *, whole_greeting: bool
) -> None:
    if not expected:
        return
    said = [next_line()]
    while said[-1][3:4] == "-":
        said.append(next_line())
    if verb == "EHLO":
        keywords, wanted = ({re.sub(r" [0-9]+$", " N", line[4:]) for line in lines} for lines in (said, expected))
        assert said[0][4:].split()[0] == expected[0][4:]
        assert keywords - {"CHUNKING", "SMTPUTF8"} == wanted if whole_greeting else keywords >= wanted, said
        return
    assert len(said) == len(expected), (said, expected)
    for line, page in zip(said, expected, strict=True):
        code, text = page[:4], page[4:]
        enhanced = re.match(r"[245]\.\d+\.\d+", text)
        exact = (verb in _SHADOW_VERBS and code[0] == "2") or _FIXED.search(text)
        pattern = _pattern(text, bound) if exact else re.escape(enhanced[0]) + "( .*)?" if enhanced else ".*"
        found = re.fullmatch(re.escape(code) + pattern, line)
        assert found, f"the page has {page!r}, the server said {line!r}"
        bound.update({name.replace("_", "-")[1:]: value for name, value in found.groupdict().items()})


def _pattern(text: str, bound: dict[str, str]) -> str:
    """Return a regular expression for a text with placeholders."""
    pattern, last = "", 0
    for found in re.finditer(rf"{_ID.pattern}|<[^>]*>", text):
        name = "i" + found[0].replace("-", "_")
        known = re.escape(bound[found[0]]) if found[0] in bound else f"(?P<{name}>[A-Za-z0-9-]{{1,64}})"
        pattern += re.escape(text[last : found.start()]) + (r"\S+" if found[0].startswith("<") else known)
        last = found.end()
    return pattern + re.escape(text[last:])
