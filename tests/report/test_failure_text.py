"""The failure text: its parts in order, at most 100 columns, with hostile text escaped."""

import dataclasses

from conformance.history.events import Content, Reply
from conformance.report.evidence_location import locate_evidence
from conformance.report.failure_text import failure_text
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import cell_view, digest, early_acknowledgement


def test_the_text_has_verdict_clause_step_exchange_and_repeat_command_in_order() -> None:
    cell = cell_view()
    text = failure_text(cell)
    parts = [
        "✗ VIOLATION  inbound-acknowledged-after-shadow[messages=1]",
        "Message m#1 was acknowledged",
        "expected  a shadow of m#1 stored on mbx2 before the final reply",
        "seen      the final reply 250",
        "violates  SR-CRE-01 (must, EX2016 creation",
        "message   m#1, Message-ID <m1@outside.test>",
        "by        event #",
        "step 3  creation/inbound.scenario.yaml:5",
        "- expect: {shadow: {of: m, on: mbx2, by: mbx1, stored: before-acknowledgement}}",
        "  > #",
        "repeat    conformance run",
        "history   reports/r1/cells/inbound.jsonl",
    ]
    exchange = text[text.index("the exchange") :]
    assert "250 2.6.0 Queued mail for delivery" in exchange
    assert "250 2.6.0 Queued mail for redundancy" in exchange
    places = [text.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)


def test_the_offending_events_are_marked_and_no_others() -> None:
    cell = cell_view()
    shown = [line for line in failure_text(cell).splitlines() if line[2:5] in ("> #", "  #")]
    marked = [int(line.split("#")[1].split()[0]) for line in shown if line.startswith("  > #")]
    assert sorted(marked) == sorted(cell.verdicts[0].evidence)
    assert len(shown) > len(marked), "others are shown too"


def test_sentences_values_and_replies_are_at_most_a_hundred_columns_wide() -> None:
    words = ["word " * 60, "wanted " * 60, "found " * 60]
    texts = dict(zip(("sentence", "expected", "seen"), words, strict=True))
    cell = cell_view(hostile="said " * 60)
    reply = next(event.n for event in cell.events if event.kind == "reply" and "said" in event.lines[0])
    verdict = cell.verdicts[0].model_copy(update=texts | {"evidence": (reply,)})
    lines = failure_text(dataclasses.replace(cell, verdicts=(verdict,))).splitlines()
    assert all(any(word in line for line in lines) for word in ("word", "wanted", "found", "said"))
    assert [line.split()[0] for line in lines if len(line) > 100] == ["repeat"]


def test_hostile_replies_are_shown_escaped_on_one_line() -> None:
    cell = cell_view(hostile="\x1b[2J\u202e\r\nfake: PASS")
    reply = next(event for event in cell.events if event.kind == "reply" and "fake" in event.lines[0])
    verdict = Verdict(check="expect.reply", outcome=Outcome.FAIL, sentence="wrong", evidence=(reply.n,))
    text = failure_text(dataclasses.replace(cell, verdicts=(verdict,)))
    assert all(line.isprintable() for line in text.splitlines())
    assert r"2.1.0 \x1b[2J\u202e\r\nfake: PASS" in text


def test_evidence_outside_the_session_is_shown_with_its_neighbours() -> None:
    cell = cell_view()
    killed = next(event.n for event in cell.events if event.kind == "node" and event.action == "killed")
    verdict = Verdict(check="invariant.nothing-lost", outcome=Outcome.FAIL, sentence="gone", evidence=(killed,))
    text = failure_text(cell_view(verdicts=(verdict,)))
    exchange = text[text.index("the exchange") :]
    assert f"  > #{killed}      30.048s       node mbx1 killed: SIGKILL\n" in exchange
    before, after = exchange.split("node mbx1 killed")
    assert "outside -> mbx1  QUIT" in before
    assert "mbx2 <- mbx2-store  220 mbx2-store ESMTP" in after


def test_evidence_that_the_history_lacks_is_skipped() -> None:
    verdict = Verdict(check="invariant.nothing-lost", outcome=Outcome.FAIL, sentence="gone", evidence=(10**6,))
    assert "the exchange" not in failure_text(cell_view(verdicts=(verdict,)))
    known = cell_view().verdicts[0].evidence[0]
    both = verdict.model_copy(update={"evidence": (10**6, known)})
    assert f"  > #{known} " in failure_text(cell_view(verdicts=(both,)))


def test_an_inconclusive_cell_names_no_violated_requirement() -> None:
    verdict = Verdict(
        check="expect.mailbox",
        outcome=Outcome.INCONCLUSIVE,
        requirements=("SR-CRE-01",),
        sentence="vacuous: no message was sent",
    )
    text = failure_text(cell_view(verdicts=(verdict,)))
    assert text.startswith("? INCONCLUSIVE")
    assert "  about     SR-CRE-01" in text
    assert "violates" not in text


def test_evidence_about_a_message_is_located_with_its_name_and_id() -> None:
    """Of two messages; the only delivery is of the first one, and comes after both were sent."""
    cell, located = cell_view(messages=2), set()
    second = [event.n for event in cell.events if event.kind == "message"][1]
    lmtp = next(event.session for event in cell.events if event.kind == "delivered")
    for event in cell.events:
        if event.kind in ("attempt", "delivered", "content") or (event.kind == "reply" and event.to == "CONTENT"):
            verdict = Verdict(check="c", outcome=Outcome.FAIL, sentence="s", evidence=(event.n,))
            location = locate_evidence(verdict, cell)
            assert location is not None
            number = 2 if event.n > second and event.session != lmtp else 1
            assert location.message == f"m#{number}, Message-ID <m{number}@outside.test>"
            assert location.exchange.startswith(f"event #{event.n} at ")
            located.add((event.kind, number))
    assert located == {(kind, number) for kind in ("attempt", "content", "reply") for number in (1, 2)} | {
        ("delivered", 1)
    }


def test_a_reply_is_about_the_content_of_its_own_session() -> None:
    """Two sessions overlap: each content comes before the other session's reply."""
    history, *_ = early_acknowledgement(messages=2)
    sessions = [history.session("outside", "mbx1", "frontend") for _ in range(2)]
    for number, session in enumerate(sessions, 1):
        history.put(Content, session=session, digest=digest(f"m{number}"))
    replies = [history.put(Reply, session=session, to="CONTENT", code=250, lines=("OK",)) for session in sessions]
    cell = dataclasses.replace(cell_view(), events=tuple(history.recorder.events))
    verdicts = [Verdict(check="c", outcome=Outcome.FAIL, sentence="s", evidence=(reply,)) for reply in replies]
    located = [location for verdict in verdicts if (location := locate_evidence(verdict, cell)) is not None]
    assert [location.message.partition(",")[0] for location in located] == ["m#1", "m#2"]
