"""Commands that judge a client or a server that runs already, without a scenario.

Each function has the arguments of a command, and ends it by raising typer.Exit with the exit code that the command's function in
`conformance.commands` returns. What a command needs is imported when it is called.
"""

from pathlib import Path
from typing import Annotated

import typer

from conformance.cli.app import app, require_linux, split_hosts


@app.command()
def listen(
    port: Annotated[int, typer.Argument(min=0, max=65535, help="0: any free port")] = 2525,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="the address to listen on")] = "127.0.0.1",
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="addresses other than loopback that --host may name"),
    ] = None,
    lasting: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="how long, such as 10m; default: until Ctrl-C")
    ] = None,
    list_behaviours: Annotated[
        bool, typer.Option("--list", help="print what the local part of a recipient can ask for, and exit")
    ] = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="print a JSON list: check, requirement, clause, outcome, sentence, session, transcript"
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="also write a JUnit file")] = None,
    everything: Annotated[bool, typer.Option("--all", help="print also what passed and what had no occasion")] = False,
) -> None:
    """Be a next hop that misbehaves, and judge the clients, libraries or relays that send mail to it.

    The recipient's address says what happens: mail to rcpt-451@example.test is refused once with 451, mail to
    silent@example.test gets no reply to its final dot. Sessions are printed as they come, the judgement at the end.
    """
    from conformance.commands.listen import ListenRequest, print_behaviours, print_judgement

    if list_behaviours:
        raise typer.Exit(print_behaviours())
    request = ListenRequest(
        host=host,
        port=port,
        hosts=split_hosts(allow_hosts),
        lasting=lasting,
        as_json=as_json,
        junit=junit,
        everything=everything,
    )
    raise typer.Exit(print_judgement(request))


@app.command()
def probe(
    where: Annotated[str, typer.Argument(metavar="HOST:PORT", help="a running mail server, for example 127.0.0.1:25")],
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON list: check, requirement, clause, outcome, sentence")
    ] = False,
    junit: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="also write a JUnit file")] = None,
    rcpt: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="a recipient to whom the probe may send mail; without it no mail is sent"),
    ] = None,
    sink: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="port at which the probe listens; the server passes mail for --rcpt on to it",
        ),
    ] = None,
    check: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="only this check; repeatable; --all prints the names")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="the port speaks TLS at once, as port 465 does")] = False,
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="hosts other than this one that may be probed"),
    ] = None,
    seconds: Annotated[float, typer.Option("--timeout", min=1, help="seconds for all checks together")] = 9.0,
    everything: Annotated[bool, typer.Option("--all", help="print also what passed and what does not apply")] = False,
) -> None:
    """Judge a mail server that already runs, by its replies. It needs no scenario, and no configuration of the server."""
    from conformance.commands.probe import ProbeRequest, print_probe

    request = ProbeRequest(
        where,
        hosts=tuple(split_hosts(allow_hosts)),
        tls=tls,
        recipient=rcpt,
        seconds=seconds,
        checks=tuple(check or ()),
        sink=sink,
    )
    raise typer.Exit(print_probe(request, as_json=as_json, junit=junit, everything=everything))


@app.command()
def smuggling(
    candidates: Annotated[list[str], typer.Argument(metavar="CANDIDATE...", help="servers, as for --candidate")],
    out: Annotated[Path, typer.Option("--out", help="where index.html and smuggling.json are written")],
    allow_hosts: Annotated[
        list[str] | None,
        typer.Option("--allow-hosts", metavar="HOST,...", help="hosts other than this one that candidates may name"),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="print a JSON list: relay, receiver, variant, passage, replies")
    ] = False,
) -> None:
    """Send messages with false ends through every pair of these servers, and show which become two messages (SMTP smuggling)."""
    require_linux()
    from conformance.commands.smuggling import print_matrix

    raise typer.Exit(print_matrix(candidates, out, hosts=split_hosts(allow_hosts), as_json=as_json))
