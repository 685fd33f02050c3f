"""The page of the smuggling matrix: relays by receivers, and what each relay does with each variant.

A variant is *smuggled* where the receiver makes two messages of the relay's one, and *split* where the relay itself does
(see `matrix.Passage`).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from conformance.report.rendering import render_page
from conformance.smuggling.matrix import Passage, Passed


@dataclass(frozen=True, slots=True)
class PairOnPage:
    """One square: its outcome for the badge, the badge's text, the variants that were smuggled, and all counts in words."""

    outcome: str
    text: str
    smuggled: tuple[str, ...]
    counts: str


def smuggling_page(results: Sequence[Passed]) -> str:
    """Return the page as HTML; servers and variants have the order in which they first occur in `results`."""
    servers = list(dict.fromkeys(passed.relay for passed in results))
    variants = list(dict.fromkeys(passed.variant for passed in results))
    return render_page(
        "smuggling.html.j2",
        servers=servers,
        variants=variants,
        squares={
            (a, b): _make_square([p for p in results if (p.relay, p.receiver) == (a, b)])
            for a in servers
            for b in servers
        },
        by_relay={
            (v, r): _relay_badge([p for p in results if (p.variant, p.relay) == (v, r)])
            for v in variants
            for r in servers
        },
    )


def _make_square(passed: Sequence[Passed]) -> PairOnPage:
    """Return the square of a pair, from the results of all variants that were sent through it.

    It is *fail* if one was smuggled or split, else *inconclusive* if none arrived as one message, else *pass*.
    """
    counts = Counter(p.passage for p in passed)
    smuggled = tuple(p.variant for p in passed if p.passage == Passage.SMUGGLED)
    words = ", ".join(f"{counts[passage]} {passage}" for passage in Passage if counts[passage])
    if smuggled:
        return PairOnPage(outcome="fail", text=f"{len(smuggled)} smuggled", smuggled=smuggled, counts=words)
    if counts[Passage.SPLIT]:
        return PairOnPage(outcome="fail", text=f"{counts[Passage.SPLIT]} split", smuggled=(), counts=words)
    if not counts[Passage.ONE]:
        return PairOnPage(outcome="inconclusive", text="none arrived", smuggled=(), counts=words)
    return PairOnPage(outcome="pass", text="none", smuggled=(), counts=words)


def _relay_badge(passed: Sequence[Passed]) -> tuple[str, str]:
    """Return the badge's outcome and text for what a relay does with a variant, over all of its next hops.

    That is `two messages` if one result is a split, `one message` if one has arrived (the receiver may have made two of it).
    Else none has arrived: it was `refused` each time, or accepted and did not reach the sink.
    """
    passages = {p.passage for p in passed}
    if not passages:
        return "not-applicable", "not sent"
    if Passage.SPLIT in passages:
        return "fail", "two messages"
    if passages & {Passage.ONE, Passage.SMUGGLED}:
        return "pass", "one message"
    return ("pass", "refused") if passages == {Passage.REFUSED} else ("inconclusive", "none arrived")
