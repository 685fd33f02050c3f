"""The abstract states of a history. By their number a campaign shows whether more plans would still show anything new.

A state is how often each of these has happened to each message so far: its whole content was sent in a session (`given`); a
shadow copy was stored (`copied`); a sender of the harness got a positive final reply, or none (`acknowledged`, else `unanswered`,
which includes a refusal); `delivered` to a recipient; a discard notification (`notified`); `promoted`; a report about it was
delivered (`reported`). It is also how many servers are `down` (a paused one is, until it is resumed) or had their database
deleted (`renewed`). Names and times are left out, and numbers above two count as two. A transition is a pair of states that follow
each other. `trial.observe` calls `visited_in` for each plan, `campaign` adds the results up.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from conformance.history.events import Attempt, Delivered, NodeEvent
from conformance.model.facts import Facts
from conformance.model.server_facts import STOPPING_ACTIONS

_MOST = 2
"""Numbers above this count as this."""


@dataclass(frozen=True, slots=True)
class Visited:
    """The states and transitions of one history, by hashes that do not depend on the process."""

    states: frozenset[str] = frozenset()
    transitions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the plans of a campaign visited. `once`: how many of the states one plan alone visited."""

    states: int
    transitions: int
    once: int
    plans: int

    @property
    def new_states_per_100_plans(self) -> float:
        """How many new states the next 100 plans are expected to show: 100 times the states seen once, for each plan.

        This is the estimate of Good and Turing; 0 before the first plan.
        """
        return round(100 * self.once / self.plans, 1) if self.plans else 0.0


def coverage(visited: Iterable[Visited]) -> Coverage:
    """Return the coverage of the histories of a campaign."""
    plans, states, transitions = 0, Counter[str](), set[str]()
    for one in visited:
        plans += 1
        states.update(one.states)
        transitions |= one.transitions
    return Coverage(
        states=len(states), transitions=len(transitions), once=sum(count == 1 for count in states.values()), plans=plans
    )


def visited_in(facts: Facts) -> Visited:
    """Return the states and transitions of a history; a change that leaves the state as it is counts as none.

    The first transition leads from the empty history, which is no state, to the first state.
    """
    messages: defaultdict[str, Counter[str]] = defaultdict(Counter)
    servers: defaultdict[str, set[str]] = defaultdict(set)
    states, transitions, before = set[str](), set[str](), ""
    for _, subject, change in sorted(_changes(facts)):
        if change == "up":
            servers[subject].discard("down")
        elif change in ("down", "renewed"):
            servers[subject].add(change)
        else:
            messages[subject][change] += 1
        state = _hash(
            f"{_format_counts(map(_word_of_message, messages.values()))} {_format_counts(map(_word_of_server, servers.values()))}"
        )
        if state != before:
            states.add(state)
            transitions.add(_hash(before + state))
        before = state
    return Visited(frozenset(states), frozenset(transitions))


def _changes(facts: Facts) -> Iterator[tuple[int, str, str]]:
    """Yield what changes the state, in no order: the number of the event, the message or server, and the change.

    Changes are the words of the module's docstring, and `up`, which ends `down`.
    """
    trace = facts.trace
    for event in trace.events_of(NodeEvent):
        if event.action in ("ready", "resumed"):
            yield event.n, event.node, "up"
        elif event.action in STOPPING_ACTIONS:
            yield event.n, event.node, "renewed" if event.action == "wiped" else "down"
    for attempt in trace.events_of(Attempt):
        if attempt.dot_sent:
            good = attempt.code is not None and attempt.code // 100 == 2
            yield attempt.n, attempt.message, "acknowledged" if good else "unanswered"
    abouts = {message.message_id: name for name, message in trace.messages.items() if message.message_id}
    for delivery in trace.events_of(Delivered):
        if delivery.digest.report and delivery.digest.about in abouts:
            yield delivery.n, abouts[delivery.digest.about], "reported"
    for name in trace.messages:
        yield from ((given.dot_n, name, "given") for given in trace.transactions_of(name) if given.dot_n is not None)
        yield from ((copy.stored_reply.n, name, "copied") for copy in trace.copies_of(name))
        yield from ((discard.n, name, "notified") for discard in trace.discards_of(name))
        yield from ((delivery.n, name, "delivered") for delivery in trace.deliveries_of(name))
        yield from ((promotion.transmission.n, name, "promoted") for promotion in facts.promotions_by_message[name])


def _word_of_message(happened: Counter[str]) -> str:
    """Return what happened to one message as a word, such as `copied1,given2`: each change with its number, at most `_MOST`."""
    return ",".join(f"{what}{min(count, _MOST)}" for what, count in sorted(happened.items()))


def _word_of_server(happened: set[str]) -> str:
    """Return what happened to one server as a word: `down`, `renewed`, both, or ''."""
    return ",".join(sorted(happened))


def _format_counts(words: Iterable[str]) -> str:
    """Return each word with how often it occurs, at most `_MOST`, in one line; '' is left out."""
    return " ".join(f"{word}*{min(count, _MOST)}" for word, count in sorted(Counter(words).items()) if word)


def _hash(text: str) -> str:
    """Return a short hash of a text that is the same in every process."""
    return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()
