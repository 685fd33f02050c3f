"""`conformance probe HOST:PORT`: judges a running mail server without scenarios, configuration or a next hop.

`conformance.probe` makes the checks. This module checks what the user asks for, and reports the findings. Hosts other
than this machine must be allowed.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console

from conformance.live_checks import LiveFinding, exit_code, json_text, print_findings, write_junit
from conformance.loopback import is_loopback
from conformance.probe.checks import CHECKS
from conformance.probe.run import probe_with_sink
from conformance.probe.server import Server
from conformance.probe.sink import SinkError
from conformance.report.escaping import visible
from conformance.scenarios.errors import unknown_name

_REPLY_SHARE = 0.3
"""The part of the whole time that a server has for one reply."""


class _UsageError(Exception):
    """What was asked for cannot be done; the text says why."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What the user asks for. `where` is HOST:PORT, `hosts` are hosts other than this machine that may be probed.

    `recipient`: an address to which mail may be sent. `seconds`: how long everything together may take. `checks`: the names of
    the checks, none for all. `sink`: the port at which the probe listens for the mail that it has sent.
    """

    where: str
    hosts: Sequence[str] = ()
    tls: bool = False
    recipient: str | None = None
    seconds: float = 9.0
    checks: Sequence[str] = ()
    sink: int | None = None


def print_probe(request: ProbeRequest, *, as_json: bool, junit: Path | None, everything: bool) -> int:
    """Probe a server and print the findings; `junit` is a file to write as well, `everything` prints also what passed.

    Returns 1 for a violation; 2 for a wrong request, or a sink or a file that cannot be used; 3 when a check was inconclusive, none
    was made, there is no connection, or the user interrupted; else 0.
    """
    if junit is not None and not junit.parent.is_dir():
        typer.echo(f"probe: --junit: there is no folder {visible(str(junit.parent))}", err=True)
        return 2
    try:
        host, port = _parse_address(request)
        for name in request.checks:
            if name not in CHECKS:
                raise _UsageError(unknown_name("check", name, CHECKS))
    except _UsageError as error:
        typer.echo(f"probe: {visible(str(error))}", err=True)
        return 2
    limit = request.seconds * _REPLY_SHARE
    server = Server((host, port), limit=limit, tls=request.tls, recipient=request.recipient)
    try:
        findings = asyncio.run(probe_with_sink(server, request.sink, request.seconds, request.checks))
    except SinkError as error:
        typer.echo(f"probe: --sink {request.sink}: {error}", err=True)
        return 2
    except OSError as error:
        typer.echo(f"probe: no connection to {visible(request.where)}: {error.strerror or error}", err=True)
        return 3
    except KeyboardInterrupt:
        typer.echo("probe: interrupted", err=True)
        return 3
    return _report(findings, request.where, as_json=as_json, junit=junit, everything=everything)


def _report(findings: list[LiveFinding], where: str, *, as_json: bool, junit: Path | None, everything: bool) -> int:
    """Write and print the findings, and return the exit code; 2 if the JUnit file cannot be written."""
    if junit is not None:
        try:
            write_junit(findings, f"probe {where}", junit)
        except OSError as error:
            typer.echo(f"probe: {visible(str(junit))} cannot be written: {error.strerror}", err=True)
            return 2
    if as_json:
        typer.echo(json_text(findings))
    else:
        colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        print_findings(findings, Console(no_color=not colour, highlight=False, soft_wrap=True), everything=everything)
    return exit_code(findings)


def _parse_address(request: ProbeRequest) -> tuple[str, int]:
    """Return host and port of the server, after checking the recipient and the sink too.

    Raises _UsageError for a malformed address or recipient, a sink without a recipient, and a host that is not permitted.
    """
    host, colon, port = request.where.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not (port.isascii() and port.isdecimal() and 0 < int(port) < 65536):
        raise _UsageError(f"{request.where!r} is not HOST:PORT, for example 127.0.0.1:25")
    if request.recipient is not None and not (
        request.recipient.isascii() and request.recipient.isprintable() and not set(request.recipient) & set("<> ")
    ):
        raise _UsageError(f"--rcpt {request.recipient!r} is not an address")
    if request.sink is not None and request.recipient is None:
        raise _UsageError("--sink has no use without --rcpt: mail for a recipient comes to it")
    if not is_loopback(host) and host not in request.hosts:
        raise _UsageError(f"{host} is not this machine; with --allow-hosts {host} the probe connects to it")
    return host, int(port)
