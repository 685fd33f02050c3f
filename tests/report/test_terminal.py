"""The end of a run in the terminal, in GitHub's annotations and in its step summary."""

from dataclasses import replace

from conformance.report.root_causes import find_root_causes
from conformance.report.terminal import github_annotations, github_step_summary, terminal_summary
from conformance.requirements.catalogue import catalogue
from conformance.verdicts import Outcome, Verdict
from tests.report.samples import REFERENCE, cell_view, good, judged, passed, run_summary


def test_plain_text_has_no_escapes_and_stays_within_its_width() -> None:
    """Every text of a cell has an escape; in less than 24 columns two candidates have no room for the matrix."""
    red = "\x1b[31mword "
    verdict = Verdict(check="expect.x", outcome=Outcome.FAIL, requirements=("SR-CRE-01",), sentence=red * 60)
    remark = passed("expect.y", "SR-WIR-05").model_copy(update={"remark": True, "sentence": red})
    names = {"candidate": f"{red}server", "scenario": f"{red}story", "axes": {f"{red}a": red + "v" * 90}}
    cell = cell_view(verdicts=(verdict, remark), **names)
    known = replace(cell, known=f"{red}since May")
    for width in (23, 61, 80, 133):
        text = terminal_summary(run_summary(good(), cell, known), width=width, colour=False)
        shown = "".join(text.split())
        assert shown.count(r"\x1b[31mword") > 20
        assert all(rf"\x1b[31mword{word}" in shown for word in ("server", "story", "vvv", "sinceMay"))
        assert all(line.isprintable() and len(line) <= width for line in text.splitlines())
        assert max(map(len, text.splitlines())) > width - 12, "the width is used"
        assert "2 fail, 1 pass" in text


def test_colour_is_used_on_request() -> None:
    assert "\x1b[" in terminal_summary(run_summary(good()), width=80, colour=True)
    assert "\x1b[" not in terminal_summary(run_summary(good()), width=80, colour=False)


def test_a_matrix_without_room_for_every_candidate_gives_way_to_their_sums() -> None:
    cells = [good(candidate=f"mta{number}", scenario=name) for number in range(7) for name in ("one", "other")]
    run = run_summary(*cells, judged(Outcome.FAIL, "SR-CRE-01", candidate="mta6", scenario="third"))
    narrow = terminal_summary(run, width=80, colour=False).splitlines()
    assert narrow[0].split() == ["candidate", "cells", "of", "all", "scenarios"]
    assert [" ".join(line.split()) for line in narrow[1:8]] == [*(f"mta{n} ✓ 2" for n in range(6)), "mta6 ✗ 1 ✓ 2"]
    assert terminal_summary(run, width=83, colour=False).splitlines()[0].split() == narrow[0].split()
    wide = terminal_summary(run, width=84, colour=False).splitlines()
    assert wide[0].split() == ["scenario", *(f"mta{n}" for n in range(7))]


def test_square_brackets_of_a_name_are_printed_as_they_are() -> None:
    wrong = Verdict(check="expect.x", outcome=Outcome.FAIL, requirements=("SR-CRE-01",), sentence="it is fail")
    remark = passed("expect.y", "SR-WIR-05").model_copy(update={"remark": True, "sentence": "broken"})
    cell = cell_view(scenario="[bold]", candidate="[red]", axes={"a": "[red]"}, verdicts=(wrong, remark))
    run = run_summary(good(), cell)
    wide, narrow = (
        [" ".join(line.split()) for line in terminal_summary(run, width=width, colour=False).splitlines()]
        for width in (80, 20)
    )
    assert wide[:2] == ["scenario reference [red]", "[bold] not run ✗ 1"]
    assert "[red]: SR-CRE-01 is violated (1 cell)" in wide
    assert [line for line in wide if "[a=" in line] == ["✗ [bold][a=[red]] [red]", "! [bold][a=[red]] [red]"]
    assert "[red] ✗ 1" in narrow, "the sums of the candidates"


def test_annotations_are_errors_for_violations_and_warnings_for_inconclusive_cells() -> None:
    lines = list(
        github_annotations(
            run_summary(cell_view(candidate=REFERENCE), judged(Outcome.INCONCLUSIVE, "SR-CRE-01"), good())
        )
    )
    assert [line.split(" ")[0] for line in lines] == ["::error", "::warning"]
    assert "file=scenarios/creation/inbound.scenario.yaml,line=5," in lines[0]


def test_the_step_summary_has_the_matrix_and_the_sentences() -> None:
    cells = (
        good(scenario="fine"),
        good(scenario="fine", candidate="mta"),
        judged(Outcome.FAIL, "SR-CRE-01", scenario="other"),
        judged(Outcome.INCONCLUSIVE, "SR-CRE-01", scenario="third", candidate="mta"),
    )
    text = github_step_summary(run_summary(*cells))
    matrix = (
        "| scenario | reference | mta |\n|---|---|---|\n"
        "| fine | ✓ 1 | ✓ 1 |\n| other | ✗ 1 | not run |\n| third | not run | ? 1 |"
    )
    assert f"\n\n{matrix}\n\n" in text
    assert "\n- ✗ **other\\[messages=1\\]** (reference): it is fail\n" in text
    assert "\n- ? **third\\[messages=1\\]** (mta): it is inconclusive\n" in text


def test_both_summaries_say_how_many_root_causes_are_left_out() -> None:
    rows = [row.id for row in catalogue().requirements]
    run = run_summary(*(judged(Outcome.FAIL, row, scenario=f"about-{row.lower()}") for row in rows))
    more = len(find_root_causes(run.cells)) - 10
    assert more > 0
    terminal, step = terminal_summary(run, width=200, colour=False), github_step_summary(run)
    assert f"\n... and {more} more rows\n" in terminal
    assert f"\n- ... and {more} more rows\n" in step
    assert (terminal.count(" is violated ("), step.count(" is violated \\(")) == (10, 10)


def test_the_note_about_remarks_counts_cells_of_every_outcome_and_names_the_rows() -> None:
    remark = passed("expect.y", "SR-WIR-05").model_copy(update={"remark": True, "sentence": "broken"})
    wrong = Verdict(check="expect.x", outcome=Outcome.FAIL, requirements=("SR-CRE-01",), sentence="it is fail")
    other = remark.model_copy(update={"requirements": ("SR-WIR-04",)})
    failed, well = cell_view(verdicts=(wrong, remark)), cell_view(verdicts=(other, remark))
    rows = [catalogue()[row].clause for row in ("SR-WIR-04", "SR-WIR-05")]
    assert run_summary(failed, good()).notes() == ("1 cell has a remark: a `should` row is broken there", rows[1])
    assert run_summary(failed, well).notes() == ("2 cells have a remark: a `should` row is broken there", *rows)
    assert run_summary(good()).notes() == ()
    others = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.PASS)
    remarked = [cell_view(verdicts=(wrong.model_copy(update={"outcome": one}), remark)) for one in others]
    assert [cell.outcome for cell in remarked] == list(others)
    assert run_summary(*remarked).notes() == ("4 cells have a remark: a `should` row is broken there", rows[1])
