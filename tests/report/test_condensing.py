"""Repeated exchanges are folded before a diagram is drawn, exchanges that matter never are, and the page size is bounded."""

import dataclasses
import re
from collections.abc import Iterator
from itertools import pairwise

from conformance.history.events import AnyEvent, Closed, Command, Connected, Reply
from conformance.report.cell_page import MAX_PAGE_OCTETS, cell_page
from conformance.report.cell_view import CellView
from conformance.report.diagram.condensing import condense_rows
from conformance.report.diagram.rows import DiagramRow, diagram_rows
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import cell_view

EVERY = 900.0


def refused_attempts(count: int, code: int = 451, text: str = "try later") -> Iterator[AnyEvent]:
    """Yield the events of this number of sessions, every 15 minutes, in each of which the server refuses MAIL."""
    for number in range(count):
        session, n, t = f"s{number + 1}", number * 4, number * EVERY
        yield Connected(n=n, t=t, session=session, client="mbx1", server="outside", listener="smtp")
        yield Command(n=n + 1, t=t, session=session, verb="MAIL", line=f"MAIL FROM:<a@outside.test> SIZE={number}")
        yield Reply(n=n + 2, t=t, session=session, to="MAIL", code=code, lines=(f"4.2.1 {text}",))
        yield Closed(n=n + 3, t=t, session=session, by="client", how="fin")


def cell(events: list[AnyEvent], verdicts: tuple[Verdict, ...] = ()) -> CellView:
    return dataclasses.replace(cell_view(verdicts=verdicts), events=events)


def numbers(rows: tuple[DiagramRow, ...]) -> list[int]:
    return [number for row in rows for number in row.numbers]


def test_repeated_exchanges_are_one_row_with_their_number_and_duration() -> None:
    rows = diagram_rows(cell(list(refused_attempts(1000))))
    drawn = condense_rows(rows)
    assert len(rows) > 3000
    assert len(drawn) < 25
    (folded,) = [row for row in drawn if row.text.startswith("…") and "like those above" in row.text]
    assert folded.text == "… 2,988 exchanges like those above, 10 d 8 h …"
    assert sorted(numbers(drawn)) == sorted(numbers(rows))
    assert all(one.t <= later.t for one, later in pairwise(drawn))


def test_a_different_reply_among_a_thousand_is_drawn() -> None:
    events = list(refused_attempts(1000))
    other = next(event for event in events if isinstance(event, Reply) and event.n > 2000)
    events[other.n] = dataclasses.replace(other, code=550)
    alone = [row.numbers[0] for row in condense_rows(diagram_rows(cell(events))) if len(row.numbers) == 1]
    assert other.n in alone
    assert not {other.n - 400, other.n + 400} & set(alone), "the equal ones are not"


def test_evidence_of_a_violation_is_drawn_among_a_thousand_equal_exchanges() -> None:
    verdict = Verdict(check="c", outcome=Outcome.FAIL, sentence="too often", evidence=(2402,))
    drawn = condense_rows(diagram_rows(cell(list(refused_attempts(1000)), (verdict,))))
    assert [row.numbers for row in drawn if row.marked] == [(2402,)]
    assert len(drawn) < 100


def test_evidence_of_an_inconclusive_check_has_its_own_row() -> None:
    verdict = Verdict(check="c", outcome=Outcome.INCONCLUSIVE, sentence="late", evidence=(2402,))
    assert 'id="e2402"' in cell_page(cell(list(refused_attempts(1000)), (verdict,)))
    assert 'id="e2402"' not in cell_page(cell(list(refused_attempts(1000))))


def test_few_exchanges_are_left_as_they_are() -> None:
    for one, alike in ((cell_view(), 0), (cell(list(refused_attempts(6))), 6)):
        rows = diagram_rows(one)
        assert len([row for row in rows if row.text.endswith("try later")]) == alike
        assert condense_rows(rows) == rows


def test_a_diagram_that_is_too_long_is_drawn_at_its_ends_and_around_its_marks() -> None:
    events = [event for at, word in enumerate(words(900)) for event in renumbered(refused_attempts(1, text=word), at)]
    verdict = Verdict(check="c", outcome=Outcome.FAIL, sentence="no", evidence=(1802,))
    drawn = condense_rows(diagram_rows(cell(events, (verdict,))))
    assert len(drawn) <= 410
    alone = {row.numbers[0] for row in drawn if len(row.numbers) == 1}
    assert {2, 1798, 1802, 1806, len(events) - 2} <= alone
    assert not {1002, 2602} & alone, "half way between an end and the mark"
    assert any("are not drawn here" in row.text for row in drawn)
    assert sorted(numbers(drawn)) == sorted(numbers(diagram_rows(cell(events, (verdict,)))))


def test_a_page_with_many_events_and_findings_stays_within_the_limit() -> None:
    hostile = "<&" * 140
    events = [
        event
        for at, word in enumerate(words(900))
        for event in renumbered(refused_attempts(1, text=word + hostile), at)
    ]
    verdicts = tuple(
        Verdict(check=f"c{n}", outcome=Outcome.FAIL, sentence=f"{n} {hostile}"[:300], evidence=(n * 4 + 2,))
        for n in range(800)
    )
    page = cell_page(cell(events, verdicts))
    assert len(page.encode()) <= MAX_PAGE_OCTETS
    for drawn, rest in (
        (page.count('aria-label="Finding '), r"and (\d+) more findings"),
        (page.count('<th scope="row" class="mono">c'), r"(\d+) more verdicts are in the history"),
    ):
        left_out = re.search(rest, page)
        assert left_out is not None
        assert 0 < drawn == len(verdicts) - int(left_out[1])


def words(count: int) -> Iterator[str]:
    """Yield different words without digits."""
    for number in range(count):
        yield "".join(chr(ord("a") + int(digit)) for digit in str(number))


def renumbered(events: Iterator[AnyEvent], place: int) -> Iterator[AnyEvent]:
    for event in events:
        changed = {"n": place * 4 + event.n, "t": place * EVERY, "session": f"s{place}"}
        yield dataclasses.replace(event, **changed)  # type: ignore[arg-type]
