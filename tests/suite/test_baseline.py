"""Baselines: drafts need a comment, known failures end as xfail, stale entries fail."""

import re
from pathlib import Path

import pytest

import conformance
from conformance import __version__, paths
from conformance.commands.run import PLUGIN
from conformance.suite.baseline import (
    Baseline,
    BaselineError,
    BaselineResult,
    DraftCell,
    KnownFailure,
    compare_with_baseline,
    draft_entries,
    read_baselines,
)
from conformance.suite.selection import read_id
from conformance.verdicts import Outcome, Verdict

pytest_plugins = ["pytester"]

DEFECT = "reference+acknowledges-before-shadow"
SCENARIO = "creation/inbound.scenario.yaml"

KNOWN = """
candidate: {candidate}
known:
  - scenario: {scenario}
    check: expect.delivered
    requirement: RL-ACK-01
    comment: it is only a test, and made up
"""


def failed(check: str, requirement: str) -> Verdict:
    return Verdict(check=check, outcome=Outcome.FAIL, requirements=(requirement,), sentence="seen: nothing")


def draft_cell(axes: dict[str, str], *verdicts: Verdict, outcome: Outcome | None = None) -> DraftCell:
    return DraftCell("mine", "sends", axes, outcome or (Outcome.FAIL if verdicts else Outcome.PASS), verdicts)


def test_a_failure_of_all_cells_of_a_scenario_is_one_entry():
    wrong = failed("expect.delivered", "RL-ACK-01")
    others = [
        DraftCell(*names, {"at": "RCPT"}, Outcome.PASS, ()) for names in (("mine", "other"), ("another", "sends"))
    ]
    (entry,) = draft_entries([*others, draft_cell({"at": "RCPT"}, wrong), draft_cell({"at": "DATA"}, wrong)])["mine"]
    assert "axes" not in entry
    found = (entry["scenario"], entry["check"], entry["requirement"])
    assert found == ("sends", "expect.delivered", "RL-ACK-01")


def test_a_failure_of_some_cells_is_one_entry_for_each_of_them():
    wrong = failed("expect.delivered", "RL-ACK-01")
    entries = draft_entries(
        [draft_cell({"at": "RCPT"}, wrong), draft_cell({"at": "DATA"}), draft_cell({"at": "dot"}, wrong)]
    )["mine"]
    assert [entry["axes"] for entry in entries] == [{"at": "RCPT"}, {"at": "dot"}]


def test_a_cell_that_could_not_be_judged_is_not_drafted():
    wrong = failed("expect.delivered", "RL-ACK-01")
    others = [outcome for outcome in Outcome if outcome not in (Outcome.PASS, Outcome.FAIL)]
    unjudged = [draft_cell({"at": f"{outcome}"}, wrong, outcome=outcome) for outcome in others]
    assert draft_entries(unjudged) == {}
    (entry,) = draft_entries([*unjudged, draft_cell({"at": "dot"}, wrong)])["mine"]
    assert entry["axes"] == {"at": "dot"}


@pytest.mark.parametrize(
    ("check", "before", "now"),
    [
        ("invariant.content-unchanged", "SR-CRE-06", "RL-CNT-01"),
        ("invariant.one-final-reply", "SR-CRE-05", "RL-RPL-01"),
        ("invariant.replies-well-formed", "SR-WIR-03", "RL-RPL-02"),
    ],
)
def test_an_entry_of_version_0_1_matches_a_check_whose_requirement_was_renumbered(check: str, before: str, now: str):
    entry = KnownFailure(scenario="sends", check=check, requirement=before, comment="it is only a test")
    assert entry.matches(failed(check, now))
    assert entry.matches(failed(check, before))
    assert not entry.matches(failed(check, "RL-ACK-01"))


def test_an_entry_matches_a_check_in_which_its_requirement_is_not_the_first() -> None:
    entry = KnownFailure(scenario="sends", check="expect.report", requirement="RL-RCP-01", comment="it is only a test")
    rows = ("RL-DSN-01", "RL-RCP-01")
    verdict = failed("expect.report", "RL-DSN-01").model_copy(update={"requirements": rows})
    assert entry.matches(verdict)
    assert not entry.matches(verdict.model_copy(update={"requirements": rows[:1]}))


class _Cell:
    scenario = "sends"
    axes = {"at": "RCPT"}  # noqa: RUF012
    waive = {"content-unchanged": "a server may do so"}  # noqa: RUF012


@pytest.mark.parametrize(
    ("check", "rows", "known"),
    [
        ("model.RL-DSN-01", ("RL-DSN-01",), True),
        ("model.RL-RTY-01", ("RL-RTY-01", "RL-DSN-01"), True),
        ("model.RL-RTY-01", ("RL-RTY-01",), False),
        ("expect.mailbox", ("RL-DSN-01",), False),
    ],
)
def test_an_entry_explains_a_rule_of_the_model_about_the_same_requirement(
    check: str, rows: tuple[str, ...], known: bool
) -> None:
    entry = KnownFailure(scenario="sends", check="expect.report", requirement="RL-DSN-01", comment="it is only a test")
    verdict = failed(check, rows[0]).model_copy(update={"requirements": rows})
    assert entry.explains(verdict) is known
    assert not entry.matches(verdict)


def test_the_text_of_a_failure_that_a_rule_of_the_model_alone_sees_is_the_comment_of_the_entry_that_explains_it() -> (
    None
):
    race = KnownFailure(
        scenario="sends",
        check="expect.report",
        requirement="RL-DSN-01",
        comment="it is only a test",
        sometimes="whether the kill comes between two files",
    )
    other = race.model_copy(update={"requirement": "RL-X", "comment": "about another row"})
    baseline = Baseline(candidate="mine", known=(other, race))
    result = compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (failed("model.RL-DSN-01", "RL-DSN-01"),))
    assert (result.known, result.text) == (True, "it is only a test")


@pytest.mark.parametrize(
    ("check", "waived"),
    [
        ("invariant.content-unchanged", "content-unchanged"),
        ("invariant.content-unchanged", "invariant.content-unchanged"),
        ("model.SR-DUP-01", "model.SR-DUP-01"),
        ("model.SR-DUP-01", "SR-DUP-01"),
    ],
)
def test_an_entry_for_a_check_that_the_scenario_waives_is_not_stale(check: str, waived: str):
    entry = KnownFailure(scenario="sends", check=check, requirement="SR-CRE-06", comment="it is only a test")
    baseline, waives_it, judges_it = Baseline(candidate="mine", known=(entry,)), _Cell(), _Cell()
    waives_it.waive = {waived: "a server may do so"}
    assert compare_with_baseline(baseline, waives_it, Outcome.PASS, ()).outcome is Outcome.PASS
    judges_it.waive = {}
    assert compare_with_baseline(baseline, judges_it, Outcome.PASS, ()).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("verdicts", "outcome", "known", "text"),
    [
        ([failed("expect.delivered", "RL-ACK-01")], Outcome.FAIL, True, "only a test"),
        ([failed("expect.delivered", "RL-ACK-02")], Outcome.FAIL, False, "stale baseline"),
        ([failed("expect.mailbox", "RL-ACK-01")], Outcome.FAIL, False, "stale baseline"),
        ([failed("expect.delivered", "RL-ACK-01"), failed("expect.mailbox", "RL-X")], Outcome.FAIL, False, ""),
        ([], Outcome.PASS, False, "stale baseline"),
        ([failed("expect.delivered", "RL-ACK-01")], Outcome.INCONCLUSIVE, False, ""),
        ([failed("expect.delivered", "RL-ACK-01")], Outcome.ERROR, False, ""),
        ([], Outcome.NOT_APPLICABLE, False, ""),
    ],
)
def test_only_a_cell_that_fails_for_the_listed_reason_is_known(
    tmp_path: Path, verdicts: list[Verdict], outcome: Outcome, known: bool, text: str
):
    (tmp_path / "mine.yaml").write_text(KNOWN.format(candidate="mine", scenario="sends"), "utf-8")
    baseline: Baseline = read_baselines([str(tmp_path)])["mine"]
    result = compare_with_baseline(baseline, _Cell(), outcome, tuple(verdicts))
    assert result.known is known
    assert text in result.text
    assert bool(result.text) is bool(text)
    assert result.outcome is (Outcome.FAIL if text == "stale baseline" else outcome)
    (entry,) = baseline.known
    for where, expected in (
        (entry.model_copy(update={"axes": {"at": "RCPT"}}), result),
        (entry.model_copy(update={"axes": {"at": "DATA"}}), BaselineResult(outcome=outcome)),
        (entry.model_copy(update={"scenario": "another"}), BaselineResult(outcome=outcome)),
    ):
        listed = baseline.model_copy(update={"known": (where,)})
        assert compare_with_baseline(listed, _Cell(), outcome, tuple(verdicts)) == expected, where


def test_a_known_failure_that_could_not_be_judged_makes_the_cell_inconclusive_unless_another_check_fails(
    tmp_path: Path,
):
    entry = "  - {{scenario: {scenario}, check: expect.reply, requirement: RL-X, comment: made up as well}}\n"
    (tmp_path / "mine.yaml").write_text((KNOWN + entry).format(candidate="mine", scenario="sends"), "utf-8")
    baseline: Baseline = read_baselines([str(tmp_path)])["mine"]
    late = failed("expect.delivered", "RL-ACK-01").model_copy(update={"outcome": Outcome.INCONCLUSIVE})
    result = compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (late, failed("expect.reply", "RL-X")))
    assert (result.outcome, result.known) == (Outcome.INCONCLUSIVE, False)
    assert result.text == "known to fail, and could not be judged: expect.delivered of RL-ACK-01"
    news = compare_with_baseline(
        baseline, _Cell(), Outcome.FAIL, (late, failed("expect.reply", "RL-X"), failed("more", "RL-Y"))
    )
    assert news.outcome is Outcome.FAIL


def test_an_entry_about_a_race_is_not_stale_when_the_cell_passes(tmp_path: Path):
    race = "    sometimes: whether the kill comes between two files\n"
    (tmp_path / "mine.yaml").write_text(KNOWN.format(candidate="mine", scenario="sends") + race, "utf-8")
    baseline: Baseline = read_baselines([str(tmp_path)])["mine"]
    wrong = failed("expect.delivered", "RL-ACK-01")
    assert compare_with_baseline(baseline, _Cell(), Outcome.PASS, ()).outcome is Outcome.PASS
    always = baseline.model_copy(update={"known": (baseline.known[0].model_copy(update={"sometimes": None}),)})
    assert compare_with_baseline(always, _Cell(), Outcome.PASS, ()).outcome is Outcome.FAIL, "no race: it is stale"
    assert compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (wrong,)).known
    assert not compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (wrong, failed("more", "RL-Y"))).known


def test_an_entry_about_a_race_is_kept_when_another_cell_fails_for_the_same_reason(tmp_path: Path):
    race = "    axes: {at: RCPT}\n    sometimes: whether the kill comes between two files\n"
    (tmp_path / "mine.yaml").write_text(KNOWN.format(candidate="mine", scenario="sends") + race, "utf-8")
    wrong = failed("expect.delivered", "RL-ACK-01")
    cells = [draft_cell({"at": "RCPT"}), draft_cell({"at": "DATA"}, wrong), draft_cell({"at": "dot"})]
    entries = draft_entries(cells, read_baselines([str(tmp_path)]))["mine"]
    assert [(entry["axes"], "sometimes" in entry) for entry in entries] == [
        ({"at": "DATA"}, False),
        ({"at": "RCPT"}, True),
    ]


def test_an_entry_about_a_race_is_drafted_once_when_its_requirement_is_not_the_first(tmp_path: Path):
    race = "    sometimes: whether the kill comes between two files\n"
    (tmp_path / "mine.yaml").write_text(KNOWN.format(candidate="mine", scenario="sends") + race, "utf-8")
    wrong = failed("expect.delivered", "RL-X").model_copy(update={"requirements": ("RL-X", "RL-ACK-01")})
    (entry,) = draft_entries([draft_cell({}, wrong)], read_baselines([str(tmp_path)]))["mine"]
    assert (entry["requirement"], "sometimes" in entry) == ("RL-X", True)


def test_two_baselines_of_one_candidate_are_refused(tmp_path: Path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(KNOWN.format(candidate="mine", scenario="sends"), "utf-8")
    for words in ([str(tmp_path)], [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]):
        with pytest.raises(BaselineError, match="there is another for mine"):
            read_baselines(words)


def test_the_shipped_baselines_name_existing_candidates_and_scenarios():
    scenarios = "\n".join(path.read_text("utf-8") for path in paths.corpus().rglob("*.scenario.yaml"))
    ids = set(re.findall(r"^id: (\S+)$", scenarios, re.MULTILINE))
    baselines = read_baselines([str(paths.fixtures() / "baselines")])
    assert baselines
    for name, baseline in baselines.items():
        assert (paths.fixtures() / "candidates" / f"{name}.yaml").is_file()
        assert set() < {entry.scenario for entry in baseline.known} <= ids
        assert {read_id(cell).scenario for cell in baseline.cells or ()} <= ids


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(conformance.__file__).parents[1]))

    def run(candidate: str, *more: str) -> pytest.RunResult:
        where = [str(paths.corpus() / SCENARIO), "-k", "acknowledgement-waits", "-p", "no:cacheprovider"]
        directory = ["--run-dir", str(pytester.path / "run"), "--fresh"]
        return pytester.runpytest_subprocess(*PLUGIN, *where, "--candidate", candidate, *directory, *more)

    return run


@pytest.mark.long
@pytest.mark.integration
def test_a_draft_is_refused_until_it_is_explained_and_then_its_failures_are_expected(pytester: pytest.Pytester, run):
    assert run(DEFECT, "--baseline", "write").ret == pytest.ExitCode.TESTS_FAILED
    path = pytester.path / "run" / "baselines" / f"{DEFECT}.yaml"
    kept = path.rename(pytester.path / "mine.yaml")

    refused = run(DEFECT, "--baseline", str(kept))
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*a draft's comment: say why it fails*"])

    kept.write_text(kept.read_text("utf-8").replace("say why:", "it acknowledges first:"), "utf-8")
    known = run(DEFECT, "--baseline", str(kept))
    assert known.ret == pytest.ExitCode.OK
    known.assert_outcomes(xfailed=1)

    kept.write_text(kept.read_text("utf-8").replace(f"candidate: {DEFECT}", "candidate: reference"), "utf-8")
    stale = run("reference", "--baseline", str(kept))
    assert stale.ret == pytest.ExitCode.TESTS_FAILED
    stale.stdout.fnmatch_lines(["*stale baseline: known to fail, and did not*"])


LISTED = """
candidate: mine
harness: 0.1.0
known:
  - scenario: sends
    check: expect.delivered
    requirement: RL-ACK-01
    comment: it is only a test, and made up
cells: ["sends[at=DATA]"]
"""


def test_a_failure_in_a_cell_that_the_baseline_does_not_list_is_new(tmp_path: Path):
    (tmp_path / "mine.yaml").write_text(LISTED, "utf-8")
    baseline = read_baselines([str(tmp_path)])["mine"]
    wrong = failed("expect.mailbox", "RL-X")
    result = compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (wrong,))
    assert (result.outcome, result.known, result.text) == (Outcome.FAIL, True, "new since 0.1.0")
    assert not compare_with_baseline(baseline, _Cell(), Outcome.FAIL, (wrong,), new_cells_fail=True).known
    assert compare_with_baseline(baseline, _Cell(), Outcome.PASS, ()).outcome is Outcome.PASS, (
        "no entry speaks of it: none is stale"
    )
    listed = baseline.model_copy(update={"cells": frozenset(["sends[at=RCPT]"])})
    assert compare_with_baseline(listed, _Cell(), Outcome.PASS, ()).outcome is Outcome.FAIL, "stale"


def test_a_rewritten_baseline_keeps_the_comments(tmp_path: Path):
    known = KNOWN.format(candidate="mine", scenario="sends") + (
        "  - {scenario: elsewhere, check: expect.reply, requirement: RL-X, comment: of what was not run}\n"
        "  - {scenario: sends, check: expect.race, requirement: RL-X, comment: it is a race, sometimes: on the disk}\n"
    ).replace("it is a race, sometimes: on the disk", "'it is a race', sometimes: 'it depends on the disk'")
    (tmp_path / "mine.yaml").write_text(known, "utf-8")
    baselines = read_baselines([str(tmp_path)])
    old, new = failed("expect.delivered", "RL-ACK-01"), failed("expect.mailbox", "RL-ACK-01")
    entries = draft_entries([draft_cell({"at": "RCPT"}, old, new), draft_cell({"at": "DATA"}, old)], baselines)["mine"]
    comments = {(one["scenario"], one["check"]): one["comment"] for one in entries}
    assert comments["sends", "expect.delivered"] == "it is only a test, and made up"
    assert str(comments["sends", "expect.mailbox"]).startswith("say why:")
    assert comments["elsewhere", "expect.reply"] == "of what was not run"
    race = next(one for one in entries if one["check"] == "expect.race")
    assert (race["comment"], race["sometimes"]) == ("it is a race", "it depends on the disk")


@pytest.mark.parametrize("second", ["only at DATA", None], ids=["another comment", "no comment"])
def test_a_rewritten_baseline_keeps_the_comments_of_cells_of_one_scenario_apart(second: str | None):
    """Every cell fails for the same reason, of which one entry would do otherwise."""
    entry = KnownFailure(
        scenario="sends", axes={"at": "RCPT"}, check="expect.delivered", requirement="RL-ACK-01", comment="only at RCPT"
    )
    other = entry.model_copy(update={"axes": {"at": "DATA"}, "comment": second})
    baseline = Baseline(candidate="mine", known=(entry, other) if second else (entry,))
    wrong = failed("expect.delivered", "RL-ACK-01")
    cells = [draft_cell({"at": at}, wrong) for at in ("RCPT", "DATA")]
    comments = [(one["axes"], one["comment"]) for one in draft_entries(cells, {"mine": baseline})["mine"]]
    assert comments == [({"at": "RCPT"}, "only at RCPT"), ({"at": "DATA"}, second or "say why: seen: nothing")]


@pytest.mark.long
@pytest.mark.integration
def test_one_command_rewrites_a_baseline_and_failures_of_new_cells_are_listed(pytester: pytest.Pytester, run):
    assert run(DEFECT, "--baseline", "write").ret == pytest.ExitCode.TESTS_FAILED
    written = pytester.path / "run" / "baselines" / f"{DEFECT}.yaml"
    kept = pytester.path / "mine.yaml"
    kept.write_text(written.read_text("utf-8").replace("say why:", "it acknowledges first:"), "utf-8")
    anew = run(DEFECT, "--baseline", str(kept), "--baseline", "write")
    assert anew.ret == pytest.ExitCode.OK
    assert read_baselines([str(written)]) == read_baselines([str(kept)])
    other = kept.read_text("utf-8").replace("  - inbound-acknowledgement-waits-for-the-shadow\n", "  - another\n")
    assert other != kept.read_text("utf-8")
    kept.write_text(other, "utf-8")
    reported = run(DEFECT, "--baseline", str(kept))
    assert reported.ret == pytest.ExitCode.OK
    reported.stdout.fnmatch_lines(
        [f"new since {__version__}: 1 cell fails", f"  inbound-acknowledgement-waits*{DEFECT}"]
    )
    assert run(DEFECT, "--baseline", str(kept), "--new-cells", "fail").ret == pytest.ExitCode.TESTS_FAILED
