"""Mutated files of each kind, read in bounded processes and by the command line: `python -m tests.hostile.files_try`.

Goes on where it was ended (the state file in `--work`). A defect names its file: `--one scenario:4711` makes that
file again and says what comes of it, `--one scenario:4711 --command` gives it to the command line.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tests.hostile.files_kinds import KINDS, Kind, make
from tests.hostile.files_recorded import WANTED
from tests.hostile.files_workers import Tally, one_read, read_batch, run_one
from tests.hostile.files_written import ROOT

BATCH = 50
"""Files that one forked process reads."""
TURN = 500
"""Files of a kind that are read before the next kind has its turn."""


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when there is a defect."""
    options = _options(arguments)
    work: Path = options.work.resolve()
    prepare(work)
    if options.one:
        return _one(work, options.one, command=options.command)
    state = _State(work / "files.json")
    until = time.monotonic() + options.seconds if options.seconds else float("inf")
    examples = {}
    left = list(options.kind or KINDS)
    while left and time.monotonic() < until:  # each kind in its turn: what was ended early has some of each
        name = left.pop(0)
        folder = work / name
        folder.mkdir(exist_ok=True)
        examples.setdefault(name, KINDS[name].examples(folder))
        if _turn(KINDS[name], folder, examples[name], state, options, until):
            left.append(name)
    print(state.page())
    if left:
        print(f"out of time: more of {', '.join(left)} with the same --work")
    return 1 if state.defects else 0


def _turn(
    kind: Kind, folder: Path, examples: Sequence[bytes], state: "_State", options: argparse.Namespace, until: float
) -> bool:
    """Read some files of a kind, and give some to the command line; return whether there are more."""
    read, given = state.tally(f"{kind.name}.read"), state.tally(f"{kind.name}.command")
    last = min(read.files + TURN, options.files)
    while read.files < last and time.monotonic() < until:
        first = options.first + read.files
        read_batch(kind, range(first, min(first + BATCH, options.first + last)), folder, examples, read)
        state.save()
    last = min(given.files + TURN // 50, options.commands)
    while given.files < last and time.monotonic() < until:
        run_one(kind, options.first + given.files, folder, examples, given)
        state.save()
    return read.files < options.files or given.files < options.commands


def prepare(work: Path) -> None:
    """Make the run whose histories are damaged, once."""
    if (work / "run/footer.json").is_file():
        return
    work.mkdir(parents=True, exist_ok=True)
    words = [
        str(ROOT / "scenarios/creation"),
        str(ROOT / "scenarios/relay"),
        "-k",
        WANTED,
        "-q",
        "--run-dir",
        str(work / "run"),
    ]
    subprocess.run(
        [sys.executable, "-m", "conformance", "run", *words, "--fresh"], check=True, cwd=ROOT, stdout=subprocess.DEVNULL
    )


def _one(work: Path, word: str, *, command: bool) -> int:
    name, _, seed = word.partition(":")
    kind: Kind = KINDS[name]  # type: ignore[index]  # argparse has no say in it
    folder = work / name
    folder.mkdir(exist_ok=True)
    examples = kind.examples(folder)
    if command:
        tally = Tally()
        run_one(kind, int(seed), folder, examples, tally)
        print(f"conformance {' '.join(kind.words(folder))}   (in {folder})")
        print("\n".join(tally.defects) or "no defect")
        return 1 if tally.defects else 0
    result = one_read(kind, int(seed), folder, examples)
    print(f"{make(kind, int(seed), folder, examples)}: {result}")
    return 0 if result in ("good", "refused") else 1


class _State:
    """The tallies, in a file that is written after each batch."""

    def __init__(self, file: Path) -> None:
        self._file = file
        found = json.loads(file.read_text("utf-8")) if file.is_file() else {}
        self._tallies = {name: Tally(**values) for name, values in found.items()}

    def tally(self, name: str) -> Tally:
        return self._tallies.setdefault(name, Tally())

    def save(self) -> None:
        scratch = self._file.with_suffix(".new")
        scratch.write_text(json.dumps({name: one.to_json() for name, one in self._tallies.items()}, indent=1), "utf-8")
        scratch.replace(self._file)

    @property
    def defects(self) -> list[str]:
        return [defect for tally in self._tallies.values() for defect in tally.defects]

    def page(self) -> str:
        lines = [f"{'':20} {'files':>6} {'good':>6} {'refused':>7} {'slowest s':>10} {'MB':>6} {'defects':>8}"]
        for name, one in self._tallies.items():
            lines.append(
                f"{name:20} {one.files:6} {one.good:6} {one.refused:7} {one.slowest:10} {one.megabytes:6.0f} {len(one.defects):8}"
            )
        return "\n".join([*lines, *self.defects])


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--work", type=Path, default=Path("reports/hostile"), help="where files, runs and the state are"
    )
    parser.add_argument("--files", type=int, default=10_000, help="files of each kind that are read")
    parser.add_argument("--commands", type=int, default=200, help="files of each kind for the command line")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; the state goes on from there")
    parser.add_argument("--kind", action="append", choices=tuple(KINDS), help="only these; repeatable")
    parser.add_argument("--one", metavar="KIND:SEED", help="this file alone")
    parser.add_argument("--command", action="store_true", help="with --one: by the command line")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
