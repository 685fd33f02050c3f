"""kill -9 of `run`, `report` and `aggregate` at random moments: `python -m tests.hostile.kills_try --run 100 --report 30 --aggregate 30`.

Each kill has a number, and its moment comes from that number alone. What holds after each: every cell that was reported as
finished is whole, what is there can be read, the run that was read is as it was, and the same command into the same place
works. Goes on where it was ended; `--one run:17` does one again. What a kill with a defect left is kept in `kept/run-17`.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import conformance
from conformance.results.reader import read_run
from tests.hostile.forks import run_command

ROOT = Path(conformance.__file__).parents[1]
SEED = 34
WORDS = ["run", str(ROOT / "scenarios/creation/inbound.scenario.yaml"), "-v", "-p", "no:cacheprovider"]
_PASSED = re.compile(r"(\S+\.scenario\.yaml::\S+) PASSED|PASSED (\S+\.scenario\.yaml::\S+)")
OUTER = 300
"""Seconds after which a command that should have ended is a defect."""


SAID, LAST = "said.txt", "last.txt"
"""What the command said that was killed, and the last one that was not."""


UNTOUCHED = "untouched"
"""Where both runs are aggregated without a kill."""


class Failed(Exception):
    """Something that must hold did not."""


def command(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """Run a command to its end and return its exit code and what it said."""
    last = folder / LAST
    status, _ = run_command(words, folder, last, seconds=OUTER, environment=_environment(folder))
    said = last.read_bytes().decode("utf-8", "replace")
    if os.WIFSIGNALED(status):
        raise Failed(f"{words[0]}: ended by signal {os.WTERMSIG(status)} (SIGALRM: not after {OUTER} s): {said[-600:]}")
    code = os.WEXITSTATUS(status)
    if "Traceback (most recent call last)" in said or "INTERNALERROR" in said:
        raise Failed(f"{words[0]}: exit {code}: {said[-600:]}")
    return code, said


def killed(words: Sequence[str], folder: Path, after: float) -> tuple[bool, str]:
    """Run a command, kill it `after` seconds; return whether that was before its end, and what it had said."""
    with (folder / SAID).open("w+b") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "conformance", *words], cwd=folder, env=_environment(folder), stdout=file, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(after)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _end_group(process.pid)
        file.seek(0)
        return process.returncode == -signal.SIGKILL, file.read().decode("utf-8", "replace")


def _end_group(group: int) -> None:
    """End what the command left: Java ends by itself, but not at once."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _environment(folder: Path) -> dict[str, str]:
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
        "COLUMNS": "400",
        "NO_COLOR": "1",
        "TMPDIR": str(temporary),
    }


def moment(kind: str, number: int, length: float) -> float:
    """Return when the n-th kill of a kind comes, in a command that takes about `length` seconds."""
    return random.Random(f"{SEED} {kind} {number}").uniform(0.05, 1.05) * length


def content(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a run, but of Allure's trend, to which a report adds its run."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "allure-history" not in path.name]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def kill_run(number: int, work: Path, length: float) -> bool:
    """Kill a run; return whether it struck. Every third has workers of xdist."""
    more = ["-n", "2"] if number % 3 == 2 else []
    words = [*WORDS, *more, "--run-dir", "killed"]
    struck, said = killed([*words, "--fresh"], work, moment("run", number, length))
    reported = {one[0] or one[1] for one in _PASSED.findall(said)}
    run = work / "killed"
    if (run / "run.json").is_file():
        damage: list[object] = []
        cells = list(read_run(run).cells(damage))  # type: ignore[arg-type]
        whole = {cell.header.nodeid for cell in cells if not cell.cut_short and not cell.damage}
        lost = [one for one in reported if not any(node.endswith(one) or one.endswith(node) for node in whole)]
        if lost:
            raise Failed(f"{len(lost)} of {len(reported)} cells that were reported are not whole: {lost[0]}")
        if number % 5 == 0 and (code := command(["judge", "killed"], work)[0]) not in (0, 3):
            raise Failed(f"judge: exit {code}")
        if number % 5 == 1 and (code := command(["report", "killed", "--out", "site"], work)[0]) != 0:
            raise Failed(f"report: exit {code}")
        code, said = command(words, work)
        if code != 2 or "holds a run already" not in said:
            raise Failed(f"without --fresh: exit {code}: {said[-300:]}")
    elif reported:
        raise Failed("cells were reported, and there is no run")
    code, said = command([*words, "--fresh"], work)
    again = read_run(run)
    if code or again.footer is None or again.footer.cut_short or again.footer.missing:
        raise Failed(f"the run after it: exit {code}: {said[-600:]}")
    return struck


def kill_report(number: int, work: Path, length: float) -> bool:
    """Kill a report; return whether it struck."""
    before = content(work / "run")
    struck, _ = killed(["report", "run", "--out", "report"], work, moment("report", number, length))
    if content(work / "run") != before:
        raise Failed("the run is not as it was")
    code, said = command(["report", "run", "--out", "report"], work)
    if code or not (work / "report/index.html").read_text("utf-8").rstrip().endswith("</html>"):
        raise Failed(f"the report after it: exit {code}: {said[-300:]}")
    return struck


def kill_aggregate(number: int, work: Path, length: float) -> bool:
    """Kill an aggregation; return whether it struck. Every second adds a run to a warehouse that has one."""
    out = work / "tables"
    before = content(work / "run")
    if number % 2 and not (out / "warehouse/catalog.json").is_file():
        command(["aggregate", "run", "--out", "tables"], work)
    runs = ["run", "second"] if number % 2 else ["run"]
    if not number % 2:
        subprocess.run(["rm", "-rf", str(out)], check=True)  # noqa: S607
    struck, _ = killed(["aggregate", *runs, "--out", "tables"], work, moment("aggregate", number, length))
    if content(work / "run") != before:
        raise Failed("the run is not as it was")
    code, said = command(["aggregate", "run", "second", "--out", "tables"], work)
    wanted = tables(work / UNTOUCHED)
    assert wanted, "there is something to compare with"
    if code or tables(out) != wanted:
        raise Failed(f"the aggregation after it: exit {code}, or other tables: {said[-300:]}")
    return struck


def tables(out: Path) -> dict[str, str]:
    """Return the hash of each table of an aggregation."""
    files = sorted((out / "tables").glob("*.json"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


KINDS: dict[str, Callable[[int, Path, float], bool]] = {
    "run": kill_run,
    "report": kill_report,
    "aggregate": kill_aggregate,
}


def keep(kind: str, number: int, work: Path) -> None:
    """Copy what a kill with a defect left, since the next kill would overwrite it."""
    kept = work / "kept" / f"{kind}-{number}"
    shutil.rmtree(kept, ignore_errors=True)
    for name in ("killed", "report", "tables", SAID, LAST):
        if (found := work / name).is_dir():
            shutil.copytree(found, kept / name, symlinks=True)
        elif found.is_file():
            kept.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(found, kept / name)


def prepare(work: Path, aggregate: bool) -> dict[str, float]:
    """Make the runs that are reported and aggregated, and return how long each command takes here, in seconds."""
    file = work / "lengths.json"
    lengths: dict[str, float] = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    work.mkdir(parents=True, exist_ok=True)
    todo = {"run": [*WORDS, "--run-dir", "run", "--fresh"], "report": ["report", "run", "--out", "report"]}
    if aggregate:
        todo |= {
            "second": [*WORDS, "--run-dir", "second", "--fresh", "--seed", "2"],
            "aggregate": ["aggregate", "run", "second", "--out", UNTOUCHED],
        }
    for name, words in todo.items():
        if name not in lengths:
            began = time.monotonic()
            code, said = command(words, work)
            if code:
                raise Failed(f"{words}: exit {code}: {said[-600:]}")
            lengths[name] = time.monotonic() - began
    file.write_text(json.dumps(lengths), "utf-8")
    return lengths


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when there is a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("reports/hostile-kills"))
    for kind in KINDS:
        parser.add_argument(f"--{kind}", type=int, default=0, metavar="N", help=f"kills of `{kind}`, in all")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; the state goes on from there")
    parser.add_argument("--one", metavar="KIND:NUMBER", help="this kill alone")
    options = parser.parse_args(arguments)
    work = options.work.resolve()
    wanted = {kind: getattr(options, kind) for kind in KINDS}
    lengths = prepare(work, bool(options.aggregate) or (options.one or "").startswith("aggregate"))
    if options.one:
        kind, _, number = options.one.partition(":")
        print(f"struck: {KINDS[kind](int(number), work, lengths[kind])}")
        return 0
    file = work / "kills.json"
    state = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    until = time.monotonic() + options.seconds if options.seconds else float("inf")
    for kind, count in wanted.items():
        one = state.setdefault(kind, {"done": 0, "struck": 0, "defects": []})
        while one["done"] < count and time.monotonic() < until:
            try:
                one["struck"] += KINDS[kind](one["done"], work, lengths[kind])
            except (Failed, subprocess.TimeoutExpired) as error:
                keep(kind, one["done"], work)
                one["defects"].append(f"{kind}:{one['done']}: {error}")
            one["done"] += 1
            file.write_text(json.dumps(state, indent=1), "utf-8")
    for kind, one in state.items():
        print(
            f"{kind:10} {one['done']:4} times, {one['struck']:4} of them before its end, {len(one['defects'])} defects"
        )
        print("".join(f"  {defect}\n" for defect in one["defects"]), end="")
    if left := [
        f"{count - state[kind]['done']} of {kind}" for kind, count in wanted.items() if state[kind]["done"] < count
    ]:
        print(f"out of time: {', '.join(left)} more with the same --work")
    return 1 if any(one["defects"] for one in state.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
