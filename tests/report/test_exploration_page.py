"""The page of an exploration, from a summary made by hand."""

import re

from conformance.report.exploration_page import coverage_curve, exploration_page, percentage
from tests.report.exploration_samples import FILE, FILES, HOSTILE, ORIGINAL, finding, header, summary


def test_the_reduced_plan_and_the_plan_as_it_was_run_come_before_all_other_sections() -> None:
    page = exploration_page(header(), summary(finding()), FILES)
    order = [
        "The reduced plan: 2 steps, 1 fault, 1 message, 1 server", "id: lost-1\n", "conformance run found/lost-1.scenario.yaml",
        "The plan as it was run: 30 steps, 4 faults, 6 messages, 5 servers", "random plan 7 of seed 5", "id: lost-1-original\n",
        'id="states"', 'id="sometimes"', 'id="faults"', 'id="left-out"', 'id="how"',
    ]  # fmt: skip
    places = [page.find(text) for text in order]
    assert places == sorted(places)
    assert -1 not in places
    sections = re.findall(r'<h2 id="([^"]+)"', page)
    assert sections == ["findings", "states", "sometimes", "faults", "left-out", "how"]
    assert f'href="{FILE}"' in page
    assert f'href="{ORIGINAL}"' in page
    assert "<b>RL-ACK-01</b> A message acknowledged with 250 after its final dot" in page


def test_the_commands_that_repeat_it_name_its_clock_and_the_scale_of_one_that_has_it() -> None:
    scaled = header().model_copy(update={"clock": "scaled", "scale": 60.0})
    for made, words in ((header(), "--clock virtual"), (scaled, "--clock scaled --scale 60")):
        page = exploration_page(made, summary(finding()), FILES)
        assert re.search(rf"conformance explore [^<]* {words} --seed", page)
        assert re.search(rf"conformance run [^<]* {words}(?! --)", page)
    assert "--scale" not in exploration_page(header(), summary(finding()), FILES)


def test_what_a_server_may_have_written_is_escaped() -> None:
    candidate = header().candidate.model_copy(update={"version": HOSTILE})
    summed_up = summary(finding(), unfinished={"<b>\x1b": 1}, pruned={"<i>": 2})
    page = exploration_page(header(candidate=candidate), summed_up, FILES)
    assert page.count("<script>") == 1
    # in the sentence, in the plan and in the candidate's version
    assert page.count(r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b[2J\u202e") == page.count("alert(1)") == 3
    assert not set("\x1b\u202e") & set(page)
    assert "&lt;b&gt;" in page
    assert "&lt;i&gt;" in page


def test_the_page_loads_nothing() -> None:
    page = exploration_page(header(), summary(finding()), FILES)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = dict(directive.split(" ", 1) for directive in policy[1].split("; "))
    for own in (allowed.pop("style-src"), allowed.pop("script-src")):
        assert re.fullmatch("'sha256-[^' ]+'", own)
    assert allowed == {"default-src": "'none'", "img-src": "'self'", "base-uri": "'none'", "form-action": "'none'"}
    assert not re.search(r'(src|srcset)="|@import|url\(|<(?:link|img|image|use|iframe|object|embed)\b|style="', page)


def test_the_curve_goes_from_nothing_to_all_plans_and_states() -> None:
    curve = coverage_curve(((0, 0), (30, 400), (60, 500)))
    assert curve is not None
    assert (curve.points, curve.plans, curve.states) == ("0.0,180.0 240.0,36.0 480.0,0.0", 60, 500)
    assert f'points="{curve.points}"' in exploration_page(
        header(), summary(curve=((0, 0), (30, 400), (60, 500)), states=500), {}
    )
    assert coverage_curve(()) is None
    assert "<polyline" not in exploration_page(header(), summary(curve=((0, 0),)), {})


def test_what_was_never_seen_stands_first_and_shares_are_those_of_all_plans() -> None:
    page = exploration_page(header(), summary(), {})
    never, seldom = page.index("two servers were down at once"), page.index("a shadow copy was promoted")
    assert never < page.index("never seen") < seldom < page.index("20.0 %")
    assert "<b>1 of 2</b>" in page
    assert "<b>97.6 %</b>" in page
    assert percentage(0, 0) == "none"


def test_a_sweep_says_what_was_left_out_and_why_the_most_frequent_first() -> None:
    swept = summary(enumerated=100, not_run=10, pruned={"as drop": 10, "of the same class": 20})
    page = exploration_page(header(method="sweep-1", scenarios=("one", "two")), swept, {})
    assert "100 plans are possible: 60 were run, 10 were not run" in page
    left_out = page[page.index('<h2 id="left-out">') :]
    reasons = re.findall(r'<th scope="row">([^<]+)</th><td class="figure">(\d+)</td>', left_out)
    assert reasons == [("of the same class", "20"), ("as drop", "10")]
    assert (
        "conformance explore --sweep 1 one two --candidate reference --clock virtual --seed 5 --plans 60 --out found-again"
        in page
    )
    assert "plans are possible" not in exploration_page(header(), summary(), {})


def test_a_campaign_without_findings_says_so() -> None:
    page = exploration_page(header(), summary(), {})
    assert "no check failed in 60 plans" in page
    assert "<article" not in page
    failed = exploration_page(header(), summary(finding()), FILES)
    assert "1 check failed in 60 plans" in failed
    assert failed.count("<article") == 1
    assert "no check failed" not in failed
    assert "No rule of the model was violated" in page
    assert "No rule of the model was violated" not in failed
