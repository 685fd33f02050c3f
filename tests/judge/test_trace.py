"""The trace of a history: transactions, recipients, identified messages, shadow copies; and verdicts of whole cells."""

import importlib
from dataclasses import replace
from typing import get_args

import pytest

from conformance import invariants as declared
from conformance import model, paths
from conformance.history.events import AnyEvent, Command, Connected, Content, Delivered, FaultFired, Reply
from conformance.history.values import Operation, OperationName
from conformance.judge.cell import JudgeSettings, judge_cell
from conformance.judge.incremental import IncrementalJudge
from conformance.registry import RegistryError
from conformance.scenarios.document import Cell
from conformance.scenarios.expectations import EXPECTATIONS
from conformance.scenarios.fixtures import load_topology
from conformance.scenarios.steps import ACTIONS
from conformance.scenarios.steps.action import Expect, Step
from conformance.trace.trace import Trace
from conformance.verdicts import Outcome, Verdict, worst_in_cell
from tests.judge.history import History, Mail
from tests.judge.lines import add_lines

TOPOLOGY = load_topology(paths.fixtures() / "topologies" / "two-servers-one-dag.yaml")


def history(text: str, *mails: Mail) -> History:
    made = History(TOPOLOGY)
    for mail in mails or (Mail("m"),):
        made.add_message(mail)
    add_lines(made, text)
    return made


def cell(*steps: Step) -> Cell:
    return Cell(
        scenario="s", title="t", path="", line=1, axes={}, requirements=("SR-CRE-01",), needs=(), topology=TOPOLOGY,
        drain=1, steps=steps, sha256="0",
    )  # fmt: skip


def step(verb: str, path: str = "1", **fields: object) -> Step:
    return Step(path=path, line=3, verb=verb, action=ACTIONS[verb].model_validate(fields))


def expect(verb: str, **fields: object) -> Step:
    action = Expect(verb=verb, expectation=EXPECTATIONS[verb].model_validate(fields))
    return Step(path="1", line=3, verb="expect", action=action)


def verdicts(one: Cell, made: History, *, complete: bool = True) -> dict[str, Verdict]:
    setting = JudgeSettings("virtual", 0.0, frozenset({"shadow-2013"}), complete)
    return {verdict.check: verdict for verdict in judge_cell(one, made.events, setting)}


@pytest.mark.parametrize(
    ("check", "name"),
    [
        ("model.RL-DOT-03", "model.RL-DOT-03"),
        ("model.RL-DOT-03", "RL-DOT-03"),
        ("invariant.one-final-reply", "invariant.one-final-reply"),
        ("invariant.one-final-reply", "one-final-reply"),
    ],
)
def test_a_rule_is_waived_by_the_name_of_its_check_with_and_without_prefix(check: str, name: str) -> None:
    made = history("outside > mbx1  m: 250")
    waiving = cell().model_copy(update={"waive": {name: "a server may do so"}})
    assert verdicts(cell(), made).keys() - verdicts(waiving, made).keys() == {check}


def test_a_refused_recipient_is_not_part_of_the_transaction() -> None:
    made = history("mbx1 > outside  m for a@x, b@x refusing c@x deferring d@x: 250")
    (sent,) = Trace(made.events).transactions_of("m#1")
    assert (sent.recipients, sent.refused) == (["a@x", "b@x"], ["c@x", "d@x"])
    assert sent.accepted_recipients == ["a@x", "b@x"]


@pytest.mark.parametrize("name", get_args(OperationName))
def test_mail_begins_a_transaction_whatever_operation_a_damaged_history_gives_it(name: OperationName) -> None:
    asked = Operation(name=name, server="mbx1", database="x")
    events = [
        Connected(n=0, t=0, session="s1", client="outside", server="mbx1", listener="frontend"),
        Command(n=1, t=0, session="s1", verb="MAIL", line="MAIL FROM:<a@b.test>", operation=asked),
    ]
    assert [transaction.sender for transaction in Trace(events).transactions] == ["a@b.test"]


def test_the_final_reply_answers_the_last_chunk_whether_or_not_it_ends_a_transaction() -> None:
    made = history(
        "outside > mbx1  m in chunks: 250\n"
        "outside > mbx1  also says BDAT 3 LAST: 503 5.5.1 MAIL first\noutside > mbx1  also says BDAT 2: 503 5.5.1 no"
    )
    trace = Trace(made.events)
    (sent,) = trace.transactions_of("m#1")
    assert [reply.code for reply in sent.replies] == [250]
    chunks = [x for session in trace.sessions.values() for x in session.exchanges if x.command.verb == "BDAT"]
    assert [(x.command.line, x.reply and x.reply.code) for x in chunks] == [
        ("BDAT 300 LAST", 250),
        ("BDAT 3 LAST", 503),
        ("BDAT 2", 503),
    ]


@pytest.mark.parametrize("line", ["RSET", "EHLO mbx1", "HELO mbx1", "LHLO mbx1"])
def test_rset_and_a_greeting_end_a_transaction(line: str) -> None:
    """What follows belongs to no transaction before the next MAIL, even if the server accepts it."""
    made = history("mbx1 > outside  says MAIL FROM:<a@x>: 250 ok\nmbx1 > outside  says RCPT TO:<b@x>: 250 ok")
    add_lines(made, f"mbx1 > outside  says {line}: 250 ok\nmbx1 > outside  says RCPT TO:<d@x>: 250 ok")
    made.add(Content, session=made.session("mbx1", "outside").name, digest=made.mails["m"].digest())
    add_lines(made, "mbx1 > outside  also m for c@x: 250")
    broken_off, whole = Trace(made.events).transactions
    assert (broken_off.recipients, broken_off.dot_n) == (["b@x"], None)
    assert (whole.recipients, whole.message) == (["c@x"], "m#1")


@pytest.mark.parametrize(
    ("reply", "ended"), [("550 5.7.1 no", True), ("451 4.3.0 later", True), ("250 2.1.0 ok", False)]
)
def test_a_refused_mail_command_ends_the_transaction(reply: str, ended: bool) -> None:
    """What follows belongs to no transaction, even if the server accepts it."""
    made = history(f"mbx1 > outside  says MAIL FROM:<a@x>: {reply}\nmbx1 > outside  says RCPT TO:<b@x>: 250 ok")
    made.add(Content, session=made.session("mbx1", "outside").name, digest=made.mails["m"].digest())
    (transaction,) = Trace(made.events).transactions
    assert transaction.recipients == ([] if ended else ["b@x"])
    assert (transaction.dot_n is None) is ended


@pytest.mark.parametrize(
    ("codes", "sender"),
    [
        ((250, 250, 250), "c@x"),
        ((250, 503, 250), "c@x"),
        ((250, 250, 503), "b@x"),
        ((503, 250, 503), "b@x"),
        ((250, 503, 503), "a@x"),
        ((503, 503, 503), None),
    ],
)
@pytest.mark.parametrize("grouped", [False, True], ids=["in turn", "in a group"])
def test_a_content_belongs_to_the_last_mail_that_was_accepted(
    codes: tuple[int, int, int], sender: str | None, grouped: bool
) -> None:
    made = history("")
    one = made.session("mbx1", "outside")
    for who, code in zip("abc", codes, strict=True):
        made.say(one, f"MAIL FROM:<{who}@x>", None if grouped else code, "x")
    for code in codes if grouped else ():
        made.reply_to(one, "MAIL", code, "x")
    made.say(one, "RCPT TO:<d@x>", 250, "ok")
    made.add(Content, session=one.name, digest=made.mails["m"].digest())
    sent = [(t.sender, t.recipients) for t in Trace(made.events).transactions if t.dot_n is not None]
    assert sent == ([] if sender is None else [(sender, ["d@x"])])


def test_recipients_behind_a_nested_mail_that_is_refused_belong_to_the_transaction_that_goes_on() -> None:
    made = history("mbx1 > outside  says MAIL FROM:<a@x>: 250 ok\nmbx1 > outside  says RCPT TO:<b@x>: 250 ok")
    add_lines(made, "mbx1 > outside  says MAIL FROM:<c@x>\nmbx1 > outside  says RCPT TO:<d@x>")
    add_lines(made, "mbx1 > outside  says RCPT TO:<e@x>")
    one = made.session("mbx1", "outside")
    for to, code in (("MAIL", 503), ("RCPT", 250), ("RCPT", 550)):
        made.reply_to(one, to, code, "x")
    made.add(Content, session=one.name, digest=made.mails["m"].digest())
    whole, nested = Trace(made.events).transactions
    assert (whole.recipients, whole.refused, whole.message) == (["b@x", "d@x"], ["e@x"], "m#1")
    assert (nested.recipients, nested.refused, nested.dot_n) == ([], [], None)


@pytest.mark.parametrize("line", ["RSET", "EHLO mbx1"])
def test_a_transaction_that_was_ended_does_not_go_on_when_a_nested_mail_is_refused(line: str) -> None:
    made = history(f"mbx1 > outside  says MAIL FROM:<a@x>: 250 ok\nmbx1 > outside  says {line}: 250 ok")
    add_lines(made, "mbx1 > outside  says MAIL FROM:<b@x>: 250 ok\nmbx1 > outside  says MAIL FROM:<c@x>")
    add_lines(made, f"mbx1 > outside  says {line}\nmbx1 > outside  hears MAIL: 503 5.5.1 nested")
    made.add(Content, session=made.session("mbx1", "outside").name, digest=made.mails["m"].digest())
    assert [transaction.dot_n for transaction in Trace(made.events).transactions] == [None, None, None]


def test_a_reply_to_rcpt_outside_of_any_transaction_decides_about_no_recipient() -> None:
    """All commands first, then all replies."""
    made = history("mbx1 > outside  says RCPT TO:<a@x>\nmbx1 > outside  says MAIL FROM:<a@x>")
    add_lines(made, "mbx1 > outside  says RCPT TO:<b@x>")
    one = made.session("mbx1", "outside")
    for to, code in (("RCPT", 503), ("MAIL", 250), ("RCPT", 250)):
        made.reply_to(one, to, code, "x")
    (sent,) = Trace(made.events).transactions
    assert (sent.recipients, sent.refused) == (["b@x"], [])


def test_pipelined_replies_are_paired_with_their_commands() -> None:
    """All commands first, then all replies: the second recipient is the refused one."""
    made = history("mbx1 > outside  says MAIL FROM:<a@x>")
    add_lines(made, "mbx1 > outside  says RCPT TO:<b@x>\nmbx1 > outside  says RCPT TO:<c@x>")
    one = made.session("mbx1", "outside")
    for to, code in (("MAIL", 250), ("RCPT", 250), ("RCPT", 550)):
        made.reply_to(one, to, code, "x")
    trace = Trace(made.events)
    (sent,) = trace.transactions
    assert (sent.recipients, sent.refused) == (["b@x"], ["c@x"])
    _, *pairs = [(x.command.line, x.reply and x.reply.code) for x in trace.sessions[one.name].exchanges]
    assert pairs == [("MAIL FROM:<a@x>", 250), ("RCPT TO:<b@x>", 250), ("RCPT TO:<c@x>", 550)], "behind EHLO"


@pytest.mark.parametrize(("codes", "accepted"), [((250, 451), (["a@x"], ["a@x"])), ((451, 250), ([], ["b@x"]))])
def test_an_lmtp_reply_accepts_the_message_for_its_recipient_only(
    codes: tuple[int, int], accepted: tuple[list[str], list[str]]
) -> None:
    made = history("mbx1 > mbx1-store  m for a@x, b@x")
    one = made.session("mbx1", "mbx1-store")
    for recipient, code, so_far in zip(("a@x", "b@x"), codes, accepted, strict=True):
        made.reply_to(one, "CONTENT", code, recipient=recipient)
        (sent,) = Trace(made.events).transactions_of("m#1")
        assert sent.accepted_recipients == so_far, f"after the reply for {recipient}"


def test_a_message_is_identified_by_its_body_before_its_message_id() -> None:
    first, second = Mail("m", message_id="one@x"), Mail("n", message_id="one@x")
    trace = Trace(history("mbx1 > outside  n: 250", first, second).events)
    assert [len(trace.deliveries_of(name)) for name in ("m#1", "n#1")] == [0, 1]
    strange = replace(second.digest(), body_sha256="another")
    assert trace.identify_message(strange) == "m#1"


def test_a_shadow_is_kept_by_the_server_and_in_2010_by_the_client() -> None:
    (copy,) = Trace(history("mbx1 > mbx2  m as shadow s1: 250").events).copies
    assert (copy.primary, copy.holder, copy.shadow_id) == ("mbx1", "mbx2", "s1")
    hubs = History(load_topology(paths.fixtures() / "topologies" / "hubs-one-site.yaml"))
    hubs.add_message(Mail("m"))
    add_lines(hubs, "hub1 > hub2  m as shadow s1: 250")
    (copy,) = Trace(hubs.events).copies
    assert (copy.primary, copy.holder) == ("hub2", "hub1")


def test_the_incremental_judge_reads_each_event_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = history("mbx1 > outside  m: 250")
    made.step("reached", "1", "expect")
    taken: list[int] = []
    add = Trace.add
    monkeypatch.setattr(Trace, "add", lambda self, event: (taken.append(event.n), add(self, event))[1])
    waiting, wanted = IncrementalJudge(), expect("delivered", of="m", copies=1)
    whole = len(made.events)
    sizes = (1, 1, *range(4, whole + 1), whole)  # at a call there may be no new event, or several
    asked = [waiting(cell(wanted), wanted, made.events[:size]) for size in sizes]
    assert taken == list(range(whole))
    assert asked[-2:] == [True, True]
    assert not any(asked[:-2])


def test_an_invariant_without_a_check_is_an_error_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "INVARIANTS", (*declared.INVARIANTS, "nothing-is-read-twice"))
    with pytest.raises(
        RegistryError, match="'nothing-is-read-twice' is declared in conformance/invariants.py, and nothing"
    ):
        importlib.reload(model)


@pytest.mark.parametrize(
    ("line", "check", "words"),
    [
        ("mbx1 exited signal 11", "harness.node-alive", "mbx1 exited unexpectedly: signal 11; see its log"),
        ("mbx1 failed no port", "harness.node-alive", "mbx1 could not be started: no port; see its log"),
        ("mbx1 refused A=1", "harness.node-alive", "mbx1 could not be started: A=1; see its log"),
        ("mbx1 fails at resubmit DB1: no", "harness.node-did", "mbx1 did not do resubmit DB1: no"),
    ],
)
def test_a_node_that_fails_makes_the_cell_inconclusive(line: str, check: str, words: str) -> None:
    alive = verdicts(cell(), history("drained"))
    assert check not in alive
    assert worst_in_cell(verdict.outcome for verdict in alive.values()) is not Outcome.INCONCLUSIVE
    found = verdicts(cell(), history(f"{line}\ndrained"))
    assert (found[check].outcome, found[check].sentence) == (Outcome.INCONCLUSIVE, words)
    assert worst_in_cell(verdict.outcome for verdict in found.values()) is Outcome.INCONCLUSIVE


ARMED = (
    step("fault", **{"as": "f", "from": "mbx1", "to": "mbx2", "does": "drop"}),
    step("kill", node="mbx1", at={"after": "dot"}),
    step("disk", node="mbx1", **{"is": "full"}),
)


@pytest.mark.parametrize("armed", ARMED, ids=["fault", "moment", "disk"])
def test_a_fault_that_never_fired_makes_the_cell_inconclusive(armed: Step) -> None:
    made = history("drained")
    made.add(FaultFired, fault="another", action="drop", client="mbx1", server="mbx2")
    found = verdicts(cell(armed), made)
    assert "never" in found["harness.fault-fired"].sentence
    assert worst_in_cell(verdict.outcome for verdict in found.values()) is Outcome.INCONCLUSIVE
    assert "harness.fault-fired" not in verdicts(cell(armed), made, complete=False)
    name = armed.action.occasion if armed.verb == "kill" else armed.action.name
    made.add(FaultFired, fault=name, action="drop", client="mbx1", server="mbx2")
    found = verdicts(cell(armed), made)
    assert "harness.fault-fired" not in found
    assert worst_in_cell(verdict.outcome for verdict in found.values()) is not Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("copies", "seen"),
    [(0, "1 copies reached"), (1, "0 copies reached"), (2, "0 copies reached")],
    ids=["all but the first", "all but the second", "all but the last"],
)
def test_an_expectation_inside_a_repeat_fails_wherever_it_is_violated(copies: int, seen: str) -> None:
    """There are 0, 1 and 2 copies at the ends of its step: the expectation is violated at all of them but one."""
    made = history("outside > mbx1  m: 250")
    for n in range(3):
        made.step("reached", "1", "expect")
        made.step("ended", "1", "expect")
        if n < 2:
            add_lines(made, "mbx1 > mbx1-store  m: 250")
    found = verdicts(cell(expect("mailbox", of="m", who="bob@corp.test", copies=copies)), made)["expect.mailbox"]
    assert found.outcome is Outcome.FAIL
    assert seen in found.sentence


@pytest.mark.parametrize(
    ("before_each_end", "worst"),
    [
        (("", "made", "delivered"), Outcome.FAIL),
        (("", "delivered"), Outcome.INCONCLUSIVE),
        (("delivered", ""), Outcome.PASS),
    ],
)
def test_an_expectation_inside_a_repeat_gets_its_worst_outcome(
    before_each_end: tuple[str, ...], worst: Outcome
) -> None:
    """It has no occasion before the message is made, is violated then, and holds once the message is delivered."""
    made = History(TOPOLOGY)
    for happened in before_each_end:
        if happened and "m" not in made.mails:
            made.add_message(Mail("m"))
        if happened == "delivered":
            add_lines(made, "mbx1 > mbx1-store  m: 250")
        made.step("reached", "1", "expect")
        made.step("ended", "1", "expect")
    one = cell(expect("mailbox", of="m", who="bob@corp.test", copies=1))
    assert verdicts(one, made)["expect.mailbox"].outcome is worst


def test_an_expectation_is_judged_on_the_events_before_its_end() -> None:
    made = history("outside > mbx1  m: 250")
    made.step("reached", "1", "expect")
    add_lines(made, "mbx1 > mbx1-store  m: 250")  # it counts
    made.step("ended", "1", "expect")
    add_lines(made, "mbx1 > mbx1-store  m: 250")  # it does not
    assert sum(isinstance(event, Delivered) for event in made.events) == 2
    for copies in (0, 1, 2):
        found = verdicts(cell(expect("mailbox", of="m", who="bob@corp.test", copies=copies)), made)["expect.mailbox"]
        assert (found.outcome is Outcome.PASS) is (copies == 1)


def test_an_empty_history_makes_every_invariant_not_applicable_and_gives_no_other_verdict() -> None:
    events: list[AnyEvent] = []
    found = judge_cell(cell(), events, JudgeSettings("virtual", 0.0, frozenset(), complete=True))
    assert {verdict.outcome for verdict in found} == {Outcome.NOT_APPLICABLE}
    assert {verdict.check for verdict in found} == {f"invariant.{name}" for name in declared.INVARIANTS}
    assert not Trace(events).events_of(Reply)
