"""Damaged Parquet files through Spark: `python -m tests.hostile.parquet_try --files 300`.

Of each seed one file is damaged: a table of a run (with the hash in its manifest, or as an older version left it, without),
the manifest, or a file of the warehouse. `aggregate` ends with 0 or 2 and a sentence, and what it says it has is what an
aggregation of the undamaged run has. Goes on where it was ended; `--one 17` does one again.
"""

import argparse
import contextlib
import hashlib
import io
import json
import random
import resource
import shutil
import sys
import time
from pathlib import Path

from conformance.commands.aggregate import aggregate_runs
from conformance.results.parquet import write_parquet
from conformance.spark.session import open_session
from tests.hostile.files_mutators import cut_out, flip_bits, shuffle, truncate
from tests.spark.synthetic import DEFECTS, MadeCell, make_run

MUTATORS = (flip_bits, flip_bits, flip_bits, truncate, cut_out, shuffle)
SECONDS = 180
"""Of one aggregation, in a Java that is warm; measured beside others."""
_BROKEN = ("Traceback", "the harness itself broke")


def main(arguments: list[str] | None = None) -> int:
    """Return 1 when there is a defect."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("reports/hostile-parquet"))
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time; the state goes on from there")
    parser.add_argument("--one", type=int, help="this seed alone")
    options = parser.parse_args(arguments)
    work = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    file = work / "parquet.json"
    state = (
        json.loads(file.read_text("utf-8"))
        if file.is_file()
        else {"files": 0, "codes": {}, "slowest": 0.0, "defects": []}
    )
    began = time.monotonic()
    with open_session("local[2]"):
        wanted = prepare(work)
        if options.one is not None:
            print(try_one(options.one, work, wanted))
            return 0
        while state["files"] < options.files and (not options.seconds or time.monotonic() - began < options.seconds):
            started = time.monotonic()
            code, problem = try_one(state["files"], work, wanted)
            state["slowest"] = max(state["slowest"], round(time.monotonic() - started, 1))
            state["codes"][str(code)] = state["codes"].get(str(code), 0) + 1
            if problem or state["slowest"] > SECONDS:
                state["defects"].append(f"{state['files']}: exit {code}: {problem or 'too slow'}")
            state["files"] += 1
            state["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            file.write_text(json.dumps(state, indent=1), "utf-8")
    print(json.dumps(state, indent=1))
    return 1 if state["defects"] else 0


def prepare(work: Path) -> dict[str, str]:
    """Make a run and a warehouse that has it, and return the hashes of the tables of both."""
    if not (work / "whole/run.json").is_file():
        run = make_run(work / "whole", [MadeCell("fine"), MadeCell("bad", DEFECTS[0]), MadeCell("worse", DEFECTS[1])])
        write_parquet(run)
    if not (work / "tables/index.html").is_file():
        shutil.rmtree(work / "tables", ignore_errors=True)
        code, said = _aggregate([work / "whole"], work / "tables")
        assert code == 0, said
    wanted = _tables(work / "tables")
    assert wanted, "there is something to compare with"
    return wanted


def try_one(seed: int, work: Path, wanted: dict[str, str]) -> tuple[int, str]:
    """Damage one file by a seed and aggregate; return the exit code, and what is wrong with that."""
    rng = random.Random(seed)
    folder = work / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    run, out = folder / "whole", folder / "tables"
    shutil.copytree(work / "whole", run)
    kind = ("hashed", "plain", "warehouse")[seed % 3]
    if kind == "warehouse":
        shutil.copytree(work / "tables", out)
        files = [*(out / "warehouse").rglob("*.parquet"), *(out / "warehouse").rglob("catalog.json")]
    else:
        files = [*(run / "parquet").glob("*.parquet"), run / "parquet/manifest.json"]
        manifest = json.loads((run / "parquet/manifest.json").read_bytes())
        if kind == "plain":
            del manifest["tables"]
            (run / "parquet/manifest.json").write_text(json.dumps(manifest), "utf-8")
    file = rng.choice(sorted(files))
    octets = file.read_bytes()
    file.write_bytes(rng.choice(MUTATORS)(rng, octets))
    same = file.read_bytes() == octets
    code, said = _aggregate([run], out)
    where = f"{kind}, {file.relative_to(folder)}: {' '.join(said.split())[-300:]}"
    if code not in (0, 2) or any(word in said for word in _BROKEN):
        return code, where
    if code == 2 and (same or "damaged" not in said) and "version" not in said and "schema" not in said:
        return code, where
    # Without a hash a bit that changes a number cannot be seen; nor in a warehouse.
    differing = {name for name, sha256 in _tables(out).items() if wanted.get(name) != sha256} if code == 0 else set()
    damage = {"runs.json"}  # how many lines and files could not be read
    return code, f"other tables {sorted(differing)}: {where}" if kind == "hashed" and differing - damage else ""


def _aggregate(runs: list[Path], out: Path) -> tuple[int, str]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            code = aggregate_runs(runs, out, "local[2]", [], "")
        except Exception as error:  # noqa: BLE001  # the command line would say that the harness broke
            return 3, f"the harness itself broke: {type(error).__name__}: {error}"
    return code, said.getvalue()


def _tables(out: Path) -> dict[str, str]:
    """Return the hash of each table that a page is made of."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted((out / "tables").glob("*.json"))
    }


if __name__ == "__main__":
    sys.exit(main())
