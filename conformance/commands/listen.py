"""`conformance listen`: a next hop that misbehaves on request, and judges the clients that connect to it.

`conformance.listen` does the work: recipients' addresses ask for misbehaviour, and checks judge the clients afterwards.
This module parses what the user asks for, prints sessions as they come, and reports the findings.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from conformance.history.events import Connected, ConnectFailed
from conformance.listen.behaviours import describe_behaviours
from conformance.listen.checks import judge_client
from conformance.listen.listener import Listener
from conformance.listen.record import ListenRecord
from conformance.live_checks import LiveFinding, exit_code, json_text, print_findings, write_junit
from conformance.loopback import is_loopback
from conformance.report.escaping import visible
from conformance.scenarios.values import parse_duration

_STOPPING = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class ListenRequest:
    """What the user asks for. `lasting` is how long to listen, as on the command line; None: until a signal.

    `hosts` are addresses other than loopback at which it may listen. `everything`: print also the checks that passed or do not
    apply. `junit` is a file to write as well.
    """

    host: str
    port: int
    hosts: Sequence[str]
    lasting: str | None
    as_json: bool
    junit: Path | None
    everything: bool


def print_behaviours() -> int:
    """Print what the local part of a recipient's address can ask for, and return 0."""
    typer.echo(describe_behaviours())
    return 0


def print_judgement(request: ListenRequest) -> int:
    """Listen until a signal or the end of `lasting`, print each session as it comes, and then the findings.

    With `as_json` sessions go to stderr. Returns 1 when a check failed, 2 for a wrong request or a file that cannot be written,
    3 when a check was inconclusive or no client has connected, else 0.
    """
    if not is_loopback(request.host) and request.host not in request.hosts:
        typer.echo(
            f"listen: {request.host} can be reached from other machines; --allow-hosts {request.host} permits it",
            err=True,
        )
        return 2
    if request.junit is not None and not request.junit.parent.is_dir():
        typer.echo(f"listen: --junit: there is no folder {visible(str(request.junit.parent))}", err=True)
        return 2
    try:
        lasting = None if request.lasting is None else parse_duration(request.lasting)
    except ValueError as error:
        typer.echo(f"listen: --for: {error}", err=True)
        return 2
    try:
        record = asyncio.run(_record_sessions(request, lasting))
    except OSError as error:
        typer.echo(f"listen: {request.host}:{request.port}: {error.strerror or error}", err=True)
        return 2
    connected = any(isinstance(event, Connected | ConnectFailed) for event in record.events)
    findings = judge_client(record) if connected else []
    try:
        _report(findings, request)
    except OSError as error:
        typer.echo(f"listen: {error.filename}: {error.strerror}", err=True)
        return 2
    return exit_code(findings)


async def _record_sessions(request: ListenRequest, lasting: float | None) -> ListenRecord:
    """Listen until a signal, for `lasting` real seconds at most (None: without a limit), and return what was seen.

    Raises OSError when the address cannot be used, and the first unexpected exception of a session, which ends the listening.
    """

    def say(line: str) -> None:
        """Print a line; where the reader of the output has ended, stop listening."""
        try:
            typer.echo(line, err=request.as_json)
        except BrokenPipeError:  # what reads the output has ended, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if request.as_json else sys.stdout).fileno())
            listener.stopping.set()

    listener = Listener(say)
    host, port = await listener.open((request.host, request.port))
    loop = asyncio.get_running_loop()
    for number in _STOPPING:
        loop.add_signal_handler(number, listener.stopping.set)
    until = "" if request.lasting is None else f" for {request.lasting}"
    say(
        f"listening on {host}:{port}{until}; send mail to rcpt-451@example.test, silent@example.test and others (--list)"
    )
    say("Ctrl-C ends the listening and judges the clients")
    try:
        async with asyncio.timeout(lasting):
            await listener.stopping.wait()
    except TimeoutError:
        pass
    finally:
        for number in _STOPPING:
            loop.remove_signal_handler(number)
    return await listener.close()


def _report(findings: Sequence[LiveFinding], request: ListenRequest) -> None:
    """Print the findings, and write the JUnit file if one is asked for. Raises OSError when the file cannot be written."""
    if request.as_json:
        typer.echo(json_text(findings))
    else:
        console = Console(highlight=False, soft_wrap=True)
        console.print()
        print_findings(findings, console, everything=request.everything)
        if not findings:
            console.print("no client has connected")
    if request.junit is not None:
        write_junit(findings, "listen", request.junit)
