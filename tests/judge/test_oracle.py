"""The judge agrees with a second, independent implementation on histories that hypothesis generates."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from conformance.history import events as ev
from conformance.model import RULES
from conformance.model.facts import Facts
from conformance.scenarios.document import Cell
from conformance.topology import Topology
from conformance.trace.context import CheckContext
from conformance.trace.trace import Trace
from tests.judge.history import History, Mail, sha
from tests.judge.lines import add_lines
from tests.judge.oracle import ORACLE
from tests.judge.transfers import World

CLAIMS = frozenset({"shadow-2013", "duplicate-detection"})
TOPOLOGY = Topology.model_validate(
    {
        "name": "two-boundaries",
        "servers": [
            {"name": "mbx1", "site": "Here", "dag": "DAG1"},
            {"name": "mbx2", "site": "Here", "dag": "DAG1"},
            {"name": "mbx3", "site": "Here", "dag": "DAG2"},
            {"name": "mbx4", "site": "Here", "dag": "DAG2"},
        ],
        "mailboxes": [
            {"address": "bob@corp.test", "database": "DB1", "server": "mbx1"},
            {"address": "dave@corp.test", "database": "DB2", "server": "mbx2"},
        ],
        "sinks": [{"name": "outside", "domains": ["*"]}],
        "routes": [{"domain": "*", "next-hops": ["outside"]}],
    }
)
SERVERS = ("mbx1", "mbx2", "mbx3", "mbx4")
RECIPIENTS = ("bob@corp.test", "dave@corp.test", "victor@outside.test")
Action = tuple[Any, ...]

servers = st.sampled_from(SERVERS)
mails = st.sampled_from(("m", "n"))
some = st.lists(st.sampled_from(RECIPIENTS), min_size=1, max_size=3, unique=True).map(tuple)
codes = st.sampled_from(("250", "250", "250", "451 4.3.0 later", "nothing"))
rarely = st.sampled_from((False, False, False, True))
ids = st.sampled_from(("s1", "s2", "s3"))

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.tuples(st.just("give"), servers, mails),
    st.tuples(st.just("answer"), servers, codes),
    st.tuples(st.just("shadow"), servers, servers, mails, ids, codes, rarely, st.one_of(st.just(()), some)),
    st.tuples(st.just("vain"), servers, servers),
    st.tuples(
        st.just("pass"), servers, st.sampled_from(("mbx1-store", "mbx2-store", "outside", *SERVERS)), mails, some,
        st.sampled_from(("250", "250", "451 4.3.0 later", "taken, unheard")), rarely,
    ),
    st.tuples(st.just("query"), servers, servers, st.lists(ids, max_size=2, unique=True).map(tuple)),
    st.tuples(st.just("report"), servers, mails, st.sampled_from(RECIPIENTS), st.sampled_from(("failed", "delayed"))),
    st.tuples(st.just("wipe"), servers),
    st.tuples(st.just("wait"), st.sampled_from((10, 700, 4000, 90000))),
    st.tuples(st.just("again"), servers),
)  # fmt: skip

CORRECT_ACTIONS: tuple[Action, ...] = (
    ("give", "mbx1", "m"),
    ("shadow", "mbx1", "mbx2", "m", "s1", "250", False, ()),
    ("answer", "mbx1", "250"),
    ("pass", "mbx1", "mbx1-store", "m", ("bob@corp.test",), "250", False),
    ("pass", "mbx1", "outside", "m", ("victor@outside.test",), "250", False),
    ("query", "mbx2", "mbx1", ("s1",)),
)
"""The actions of a correct history; generated ones leave some out and insert others."""

GIVEN, SHADOWED, ANSWERED, STORED, PASSED, QUERIED = CORRECT_ACTIONS
INCORRECT_ACTIONS: dict[str, tuple[Action, ...]] = {
    "nothing-acknowledged-is-lost": (GIVEN, SHADOWED, ANSWERED),
    "two-copies-at-acknowledgement": (GIVEN, ANSWERED, STORED, PASSED, QUERIED),
    "shadow-inside-boundary": (*CORRECT_ACTIONS, ("shadow", "mbx1", "mbx3", "m", "s2", "250", False, ())),
    "no-discard-before-delivery": (GIVEN, SHADOWED, ANSWERED, QUERIED, STORED, PASSED),
    "no-duplicate-in-mailbox": (GIVEN, SHADOWED, ANSWERED, STORED, STORED, PASSED, QUERIED),
    "one-final-reply": (*CORRECT_ACTIONS, ("again", "mbx1")),
    "content-unchanged": (GIVEN, SHADOWED, ANSWERED, STORED, (*PASSED[:-1], True), QUERIED),
}
"""Invariant -> the actions of the correct history with a change that violates it."""


@dataclass(frozen=True)
class GeneratedHistory:
    """A history and the parameters under which it is judged."""

    actions: tuple[Action, ...]
    mandatory: bool
    attempts: int
    window: int
    twins: bool


@st.composite
def generated_histories(draw: st.DrawFn) -> GeneratedHistory:
    left_out = draw(st.sets(st.integers(0, len(CORRECT_ACTIONS) - 1), max_size=3))
    actions = [action for number, action in enumerate(CORRECT_ACTIONS) if number not in left_out]
    for action in draw(st.lists(ACTIONS, max_size=6)):
        actions.insert(draw(st.integers(0, len(actions))), action)
    return GeneratedHistory(
        tuple(actions), draw(st.booleans()), draw(st.integers(0, 3)), draw(st.sampled_from((60, 3600, 50 * 86400))),
        draw(st.booleans()),
    )  # fmt: skip


def build_history(made: GeneratedHistory) -> History:
    """Return the history of the actions; replies without a transaction, and servers that dial themselves, are left out."""
    history = History(TOPOLOGY)
    twin = "m@x" if made.twins else ""
    history.add_message(Mail("m", ("bob@corp.test", "victor@outside.test")))
    history.add_message(Mail("n", ("bob@corp.test", "dave@corp.test"), message_id=twin))
    waiting: set[str] = set()
    for number, action in enumerate(made.actions):
        match action:
            case ("give", via, name) if via not in waiting:
                waiting.add(via)
                add_lines(history, f"outside > {via}  {name}")
            case ("answer", via, code) if via in waiting:
                waiting.remove(via)
                add_lines(history, f"outside < {via}  {code}")
            case ("shadow", primary, holder, name, shadow_id, code, altered, to) if primary != holder:
                words = f" for {', '.join(to)}" if to else ""
                add_lines(
                    history, f"{primary} > {holder}  {name} as shadow {shadow_id}{words}{' altered' * altered}: {code}"
                )
            case ("vain", client, server) if client != server:
                add_lines(history, f"{client} >< {server}")
            case ("pass", client, server, name, to, code, altered) if client != server:
                text = "nothing" if code == "taken, unheard" and server in SERVERS else code
                add_lines(history, f"{client} > {server}  {name} for {', '.join(to)}{' altered' * altered}: {text}")
            case ("query", by, at, ids_listed) if by != at:
                add_lines(history, f"{by} ? {at}: {', '.join(ids_listed) or 'nothing'}")
            case ("report", server, name, who, action):
                add_lines(
                    history, f"{server} > outside  report on {name}, {action} for {who}, to alice@outside.test: 250"
                )
            case ("wipe", server):
                add_lines(history, f"{server} killed\n{server} wiped")
            case ("wait", seconds):
                history.t += seconds
            case ("again", server) if any(
                isinstance(e, ev.Connected) and (e.client, e.server) == ("outside", server) for e in history.events
            ):
                add_lines(history, f"outside > {server}  hears 250 2.6.0 queued {number}")
            case _:
                continue
    add_lines(history, "drained")
    return history


def opinions(made: GeneratedHistory, name: str) -> tuple[bool, bool]:
    """Return whether the judge, and whether the oracle, finds an invariant violated."""
    parameters = {
        "RejectMessageOnShadowFailure": made.mandatory,
        "MaxRetriesForLocalSiteShadow": made.attempts,
        "DuplicateTrackingWindow": made.window,
    }
    history = build_history(made)
    topology = TOPOLOGY.model_copy(update={"transport": parameters})
    cell = Cell(
        scenario="story", title="a story", path="", line=1, axes={}, requirements=("RL-ACK-01",), needs=(),
        topology=topology, drain=1, steps=(), sha256=sha("story"),
    )  # fmt: skip
    finding = RULES[f"invariant.{name}"].check(Facts(CheckContext(cell, Trace(history.events), 0.0, CLAIMS)))
    return bool(finding.violations), ORACLE[name](World(history.events, topology, parameters))


@pytest.mark.parametrize("name", sorted(ORACLE))
@settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(made=generated_histories())
def test_the_judge_and_the_oracle_agree(name: str, made: GeneratedHistory) -> None:
    judged, second = opinions(made, name)
    assert judged is second


@pytest.mark.parametrize("name", sorted(ORACLE))
@pytest.mark.parametrize("violated", [True, False])
def test_generated_histories_include_violations_and_their_absence(name: str, violated: bool) -> None:
    """Agreement is worth something only where both verdicts come up."""
    wanted: Callable[[GeneratedHistory], bool] = lambda made: opinions(made, name)[1] is violated  # noqa: E731
    options = settings(max_examples=500, derandomize=True, phases=[Phase.generate], database=None)
    assert find(generated_histories(), wanted, settings=options)


@pytest.mark.parametrize("name", sorted(ORACLE))
def test_a_correct_history_is_no_violation_for_either(name: str) -> None:
    for mandatory, attempts in itertools.product((True, False), range(3)):
        assert opinions(GeneratedHistory(CORRECT_ACTIONS, mandatory, attempts, 3600, twins=False), name) == (
            False,
            False,
        )
    changed = GeneratedHistory(INCORRECT_ACTIONS[name], mandatory=True, attempts=1, window=3600, twins=False)
    assert opinions(changed, name) == (True, True), "with one change"
