"""Poisoned runs in a real browser: `python -m tests.hostile.pages_try --runs 20`.

Each seed puts scripts, handlers, frames, links and styles into the texts of a run's files (names, titles, sentences, lines of
the wire), where no node and no scenario could. Every page that `report` makes of it (run, cells, statements, badges) is opened:
no script of it runs, no dialog opens, no request leaves, and the poison is there as text. `--one 3` does one again.
"""

import argparse
import contextlib
import gzip
import io
import json
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from conformance.commands.report import build_report, print_diff
from conformance.report.cell_pages import PageSelection
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MARK = "pOisoned"
RUNS = "window.alarm=1"
OUT = "http://192.0.2.1/x"
POISON = (
    f"<script>{RUNS}</script>",
    f"<img src=x onerror={RUNS}>",
    f'"><svg onload={RUNS}>',
    f"' onmouseover='{RUNS}' autofocus onfocus='{RUNS}",
    f"<iframe src={OUT}></iframe><link rel=stylesheet href={OUT}><img src={OUT}>",
    f"</style><style>@import '{OUT}';*{{background:url({OUT})}}</style>",
    f"</script><script>{RUNS}</script><!--",
    f"]]><script>{RUNS}</script>",
    f"</title></svg></text><script>{RUNS}</script>",
    f"javascript:{RUNS}",
    f"{{{{7*7}}}}{{% set x %}}<base href={OUT}><meta http-equiv=refresh content='0;url={OUT}'>",
    f'<a href="javascript:{RUNS}" ping={OUT}>x</a><form action={OUT}><input autofocus onfocus={RUNS}>',
    "\u202e\u2066\u200b\x1b[2J",
)
KEPT = {"record", "kind", "outcome", "started", "finished", "clock", "level", "listener", "action", "phase", "by", "how", "protocol", "schema", "grid", "role", "generation", "generations", "check", "requirements", "scenario_sha256", "should"}  # fmt: skip
"""What has to be a word of a list: anything else there is damage, and reported as such."""


def poisoned(value: Any, rng: random.Random, share: float) -> Any:
    """Return a value in which some texts have poison behind them; keys that must be words stay."""
    if isinstance(value, dict):
        return {key: one if key in KEPT else poisoned(one, rng, share) for key, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, rng, share) for one in value]
    return f"{value}{MARK}{rng.choice(POISON)}" if isinstance(value, str) and rng.random() < share else value


def make(seed: int, folder: Path) -> Path:
    """Make a run with violations and poison it by a seed; the same text always gets the same poison."""
    rng = random.Random(seed)
    shutil.rmtree(folder, ignore_errors=True)
    cells = [MadeCell("fine"), *(MadeCell(name, name) for name in DEFECTS[:4])]
    run = make_run(folder / "run", cells, whole=False)
    share = rng.choice((0.2, 0.5, 1.0))
    header = json.loads((run / "run.json").read_text("utf-8"))
    for one in header["candidates"]:
        one["name"] = one["version"] = f"{one['name']}{MARK}{rng.choice(POISON)}"
    header["command"] = [f"{MARK}{rng.choice(POISON)}"]
    (run / "run.json").write_text(json.dumps(header), "utf-8")
    name = header["candidates"][0]["name"]
    for path in sorted((run / "cells").glob("*.gz")):
        lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        lines = [poisoned(line, rng, share) for line in lines]
        lines[0]["candidate"] = name
        path.write_bytes(gzip.compress(b"".join(json.dumps(line).encode() + b"\n" for line in lines)))
    return run


def try_one(seed: int, work: Path, browser: Browser) -> tuple[int, list[str]]:
    """Return how many pages were opened, and what is wrong with them."""
    run, site = make(seed, work), work / "site"
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = build_report(run, site, selection=PageSelection(every=True))
        compared = print_diff(run, run)
    wrong = [f"report: exit {code}: {said.getvalue()[-300:]}"] if code else []
    wrong += [f"diff: exit {compared}"] if compared else []
    wrong += ["the terminal gets control characters"] if any(one in said.getvalue() for one in "\x1b\u202e") else []
    pages = sorted(page for page in site.rglob("*") if page.suffix in (".html", ".svg"))
    marked = 0
    for path in pages:
        alarms: list[str] = []
        page = browser.new_page()
        page.on("dialog", lambda dialog, alarms=alarms: (alarms.append("a dialog"), dialog.dismiss()))
        page.on(
            "request",
            lambda asked, alarms=alarms: alarms.append(asked.url) if not asked.url.startswith("file:") else None,
        )
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
        if page.evaluate("window.alarm") is not None:
            alarms.append("a script of it ran")
        if path.suffix == ".html":
            for key in ("Tab",) * 5:
                page.keyboard.press(key)
            if page.evaluate("window.alarm") is not None:
                alarms.append("a script of it ran when it got the focus")
        if not page.url.startswith(path.as_uri()):
            alarms.append(f"it went to {page.url}")
        marked += MARK in (page.evaluate("document.documentElement.textContent") or "")
        wrong += [f"{path.relative_to(work)}: {alarm}" for alarm in alarms]
        page.close()
    if not marked:
        wrong.append("the poison is on no page: nothing was tried")
    return len(pages), wrong


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when there is a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("reports/hostile-pages"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--one", type=int, help="this seed alone")
    options = parser.parse_args(arguments)
    opened, defects = 0, []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for seed in range(options.runs) if options.one is None else [options.one]:
            pages, wrong = try_one(seed, options.work.resolve(), browser)
            opened += pages
            defects += [f"{seed}: {one}" for one in wrong]
        browser.close()
    print(f"{opened} pages opened, {len(defects)} defects", *defects, sep="\n")
    return 1 if defects else 0


if __name__ == "__main__":
    sys.exit(main())
