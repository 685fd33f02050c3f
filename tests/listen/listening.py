"""A listener in a thread, clients on plain sockets, and what was found about them."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from conformance.listen.checks import judge_client
from conformance.listen.listener import Listener
from conformance.listen.record import ListenRecord
from conformance.live_checks import LiveFinding

WITHIN = 40.0
"""Seconds that a client of a test waits at most."""

_WHOLE = re.compile(rb"(?:\d{3}-[^\n]*\n)*\d{3}(?: [^\n]*)?\n")


class Listening:
    """A listener that runs in a thread; `lines` is what it prints."""

    def __init__(self, held_back: float = 0.02) -> None:
        self._held_back = held_back
        self.lines: list[str] = []
        self.record: ListenRecord | None = None
        self._opened = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._thread.start()
        assert self._opened.wait(WITHIN)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = Listener(self.lines.append, self._held_back)
        self.host, self.port = await self._listener.open(("127.0.0.1", 0))
        self._opened.set()
        await self._listener.stopping.wait()
        self.record = await self._listener.close()

    def wait_for(self, text: str, within: float = WITHIN) -> None:
        """Wait until a line with this text was printed, for `within` seconds."""
        deadline = time.monotonic() + within
        while not any(text in line for line in list(self.lines)):
            assert time.monotonic() < deadline, self.lines
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop listening; `record` is set then."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._listener.stopping.set)
            self._thread.join(WITHIN)

    def findings(self) -> dict[str, LiveFinding]:
        """Stop listening, and return what is found about the clients, by the check."""
        self.stop()
        assert self.record is not None
        return {finding.check: finding for finding in judge_client(self.record)}

    def outcomes(self) -> dict[str, str]:
        """Stop listening, and return the outcome of each check that had an occasion."""
        return {
            name: str(found.outcome) for name, found in self.findings().items() if found.outcome != "not-applicable"
        }


@contextmanager
def listening(**options: float) -> Iterator[Listening]:
    """Yield a running listener, and stop it at the end."""
    listener = Listening(**options)
    try:
        yield listener
    finally:
        listener.stop()


class RawClient:
    """A client that sends exactly the octets that it is given."""

    def __init__(self, listener: Listening) -> None:
        self._read = b""
        self._socket = socket.socket()
        self._socket.settimeout(WITHIN)
        try:
            self._socket.connect((listener.host, listener.port))
            self._is_reset = False
        except ConnectionResetError:  # the listener's thread was faster than the end of `connect`
            self._is_reset = True

    def send(self, octets: bytes) -> None:
        """Send octets."""
        self._socket.sendall(octets)

    def reply(self) -> bytes:
        """Return the next whole reply, b"" at the end of the connection."""
        while (found := _WHOLE.match(self._read)) is None:
            try:
                octets = self._socket.recv(4096)
            except ConnectionResetError:
                return b""
            if not octets:
                return b""
            self._read += octets
        self._read = self._read[found.end() :]
        return found[0]

    def ask(self, octets: bytes) -> bytes:
        """Send a line, to which CRLF is added, and return the reply."""
        self.send(octets + b"\r\n")
        return self.reply()

    def hello(self) -> None:
        """Read the greeting and say EHLO."""
        self.reply()
        self.ask(b"EHLO client.test")

    def message(self, *recipients: bytes, content: bytes = b"Message-ID: <1@a.test>\r\n\r\nx\r\n") -> bytes:
        """Send a message, and return the first refusal, else the final reply, b"" if there was none."""
        for line in (b"MAIL FROM:<a@a.test>", *(b"RCPT TO:<%s>" % to for to in recipients), b"DATA"):
            if not (reply := self.ask(line)).startswith((b"2", b"354")):
                return reply
        return self.ask(content + b".")

    def quit(self) -> None:
        """Say QUIT, read the reply, and close the connection."""
        self.ask(b"QUIT")
        self.close()

    def shut_down(self) -> None:
        """End both directions of the connection; a thread that reads returns."""
        self._socket.shutdown(socket.SHUT_RDWR)

    def end_sending(self) -> None:
        """Close the direction to the listener."""
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def read_to_end(self) -> bytes:
        """Return what comes until the listener closes the connection."""
        octets, self._read = self._read, b""
        try:
            while not self._is_reset and (more := self._socket.recv(4096)):
                octets += more
        except ConnectionResetError:
            self._is_reset = True
        if self._is_reset:
            octets += b"(reset)"
        self.close()
        return octets


def deliver(listener: Listening, *recipients: bytes, content: bytes = b"Message-ID: <1@a.test>\r\n\r\nx\r\n") -> bytes:
    """Send a message in a session of its own, in order, and return what the listener said last."""
    client = RawClient(listener)
    client.hello()
    reply = client.message(*recipients, content=content)
    if reply and not reply.startswith(b"421"):
        client.quit()
    client.close()
    return reply
