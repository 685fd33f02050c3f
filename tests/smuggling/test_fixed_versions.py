"""What a fix has changed shows: servers from before it end a message early, those of today and those with the protection do not."""

from pathlib import Path

import pytest

from conformance.cli import main
from conformance.history.events import Talked
from conformance.results.reader import read_run
from conformance.verdicts import Outcome
from tests.smuggling.test_matrix import passages

pytestmark = [pytest.mark.integration, pytest.mark.slow]  # the servers are downloaded

FIXED = {
    "haraka-3.0.0": ("haraka", {"crlf-dot-lf", "lf-dot-crlf", "lf-dot-lf", "cr-nul-lf-dot"}),  # haraka/Haraka#3268
    "aiosmtpd-1.4.4": ("aiosmtpd", {"lf-dot-crlf", "cr-nul-lf-dot"}),  # CVE-2024-27305
    "postfix": (
        "postfix-normalize",  # smtpd_forbid_bare_newline, CVE-2023-51764
        {"crlf-dot-lf", "lf-dot-crlf", "lf-dot-lf", "crlf-dot-cr-crlf", "cr-crlf-dot-cr-crlf", "cr-nul-lf-dot"},
    ),
}
"""Unfixed server -> the fixed one, and the variants at which the unfixed one ends a message."""


@pytest.mark.parametrize("unfixed", FIXED)
def test_a_message_ends_early_at_the_unfixed_server_only(unfixed: str, tmp_path: Path) -> None:
    fixed, variants = FIXED[unfixed]
    with pytest.raises(SystemExit) as left:
        main(["smuggling", unfixed, fixed, "--out", str(tmp_path)])
    assert left.value.code == 1
    pairs = passages(tmp_path)
    assert set(pairs) == {(relay, receiver) for relay in (unfixed, fixed) for receiver in (unfixed, fixed)}
    assert [pair for pair, found in pairs.items() if "one" not in found.values()] == [], "nothing came through"
    for (relay, _), found in pairs.items():
        split = {variant for variant, passage in found.items() if passage == "split-by-relay"}
        assert split == (variants if relay == unfixed else set())


@pytest.mark.parametrize(
    ("server", "outcome", "answered"),
    [
        ("aiosmtpd-1.4.4", Outcome.FAIL, {"NOOP": 250, "MAIL": 503}),
        ("aiosmtpd", Outcome.PASS, {"NOOP": 221, "MAIL": 221}),
    ],
)
def test_plaintext_behind_starttls_is_run_by_the_unfixed_server_only(
    server: str, outcome: Outcome, answered: dict[str, int], tmp_path: Path
) -> None:
    """CVE-2024-34083, fixed in 1.4.6. `answered`: what is behind STARTTLS -> the first reply within TLS."""
    scenario = "scenarios/relay/tls.scenario.yaml::plaintext-behind-starttls-is-dropped"
    with pytest.raises(SystemExit) as left:
        main(["run", scenario, "--candidate", server, "--run-dir", str(tmp_path / "run")])
    assert (left.value.code == 0) is (outcome is Outcome.PASS)
    cells = {cell.header.axes["behind"]: cell for cell in read_run(tmp_path / "run").cells()}
    assert {behind: cell.footer and cell.footer.outcome for behind, cell in cells.items()} == dict.fromkeys(
        answered, outcome
    )
    for behind, code in answered.items():
        (talked,) = [event for event in cells[behind].events if isinstance(event, Talked)]
        assert [one.code for one in talked.exchanges[-2:]] == [220, code], "to STARTTLS, and within TLS"
