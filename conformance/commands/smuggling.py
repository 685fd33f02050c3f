"""`conformance smuggling`: every variant of the end of content through every pair of servers.

A *pair* is a relay and the receiver that it passes mail on to. `conformance.smuggling` starts the servers and sends the
variants.
"""

import json
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

import typer

from conformance import paths
from conformance.candidates.assignment import check_hosts
from conformance.candidates.description import CandidateError
from conformance.candidates.lookup import find_candidate
from conformance.nodes.contract import NodeError
from conformance.report.escaping import visible
from conformance.results.atomic_write import write_atomically
from conformance.smuggling.matrix import Passage, Passed, try_all_pairs
from conformance.smuggling.page import smuggling_page


def print_matrix(words: Sequence[str], out: Path, *, as_json: bool, hosts: Collection[str] = ()) -> int:
    """Try all pairs of the candidates, write page and results into `out`, and print each pair with a finding.

    `words` name the candidates, as for `--candidate`; `hosts` are those other than this machine that the candidates may name.
    Returns 1 if a message became two, 2 for an unknown candidate, another host or a missing program, 3 if nothing came through a
    pair or a server did not start, else 0. Blocks until all servers have stopped.
    """
    candidates: dict[str, str] = {}
    try:
        for word in words:
            candidate = find_candidate(word, paths.fixtures() / "candidates")
            check_hosts([candidate], hosts)
            if missing := candidate.check_availability().missing:
                typer.echo(f"smuggling: {visible(word)}: {missing}", err=True)
                return 2
            candidates[candidate.name if candidate.name not in candidates else word] = word
        with tempfile.TemporaryDirectory(prefix="conformance-smuggling-") as directory:
            results = try_all_pairs(
                candidates, Path(directory), lambda text: typer.echo(visible(text), err=True), hosts
            )
    except CandidateError as error:
        typer.echo(f"smuggling: {visible(str(error))}", err=True)
        return 2
    except NodeError as error:
        typer.echo(f"smuggling: {visible(str(error))}", err=True)
        return 3
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps([passed.as_json() for passed in results], indent=1)
    write_atomically(out / "smuggling.json", text.encode())
    write_atomically(out / "index.html", smuggling_page(results).encode())
    if as_json:
        typer.echo(text)
    else:
        _print_pairs(results, out)
    return _exit_code(results)


def _print_pairs(results: Sequence[Passed], out: Path) -> None:
    """Print what each relay ends early, what is smuggled through which pair, the pairs with no arrival, and the page's path."""
    relays = dict.fromkeys(passed.relay for passed in results)
    for relay in relays:
        if split := dict.fromkeys(p.variant for p in results if p.relay == relay and p.passage == Passage.SPLIT):
            typer.echo(f"{visible(relay)} ends the message at {', '.join(split)}")
    for relay, receiver in dict.fromkeys((p.relay, p.receiver) for p in results):
        pair = [p for p in results if (p.relay, p.receiver) == (relay, receiver)]
        smuggled = [p.variant for p in pair if p.passage == Passage.SMUGGLED]
        if smuggled:
            typer.echo(f"smuggled from {visible(relay)} to {visible(receiver)}: {', '.join(smuggled)}")
        elif not any(p.passage == Passage.ONE for p in pair):
            typer.echo(f"nothing came through from {visible(relay)} to {visible(receiver)}")
    typer.echo(f"page: {visible(str(out / 'index.html'))}")


def _exit_code(results: Sequence[Passed]) -> int:
    """Return 1 if a message became two, else 3 if nothing came through a pair or no pair was tried, else 0."""
    if any(p.passage in (Passage.SPLIT, Passage.SMUGGLED) for p in results):
        return 1
    pairs = {(p.relay, p.receiver) for p in results}
    return 0 if pairs and pairs == {(p.relay, p.receiver) for p in results if p.passage == Passage.ONE} else 3
