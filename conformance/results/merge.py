"""Merging of several run directories into one: the shards of a run that several machines ran.

A *cell* is one scenario with one value for each of its axes, run with one candidate. Its history is in a file in the folder `cells`;
that of a first attempt, which did not count, in `late`. The *slug* of a cell is the name of its file without suffixes.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.results.atomic_write import write_atomically
from conformance.results.compression import gzip_member, read_history
from conformance.results.fingerprints import suite_sha256
from conformance.results.layout import (
    CELLS_FOLDER,
    GZIP_SUFFIX,
    LATE_FOLDER,
    PLAIN_SUFFIX,
    RunDirectoryError,
    archive_path,
    attachments_folder,
    cell_file,
    cell_files,
    slug_of,
)
from conformance.results.reader import StoredRun, parse_lines, read_cell_end, read_cell_ends, read_run
from conformance.results.schema import SCHEMA, CandidateRecord, CellHeader, RunFooter, RunHeader
from conformance.results.writer import begin_run, delete_run, finish_run, json_line

_SHARED = ("seed", "clock", "scale", "grid", "environment_sha256")
"""The fields of `run.json` in which the shards of one run agree."""


def merge_runs(sources: Sequence[Path], out: Path) -> RunFooter:
    """Merge run directories into a new run directory `out` and return its footer.

    The order of the sources does not matter. A cell that two sources hold must be equal in both, octet by octet except for
    the run's name. The wall time is that of the longest source, since shards run at the same time. The merged run counts as
    interrupted where a source was interrupted or has not ended. Raises RunDirectoryError where the sources are not parts of one
    run, a cell's file cannot be unpacked or its header not be read, two copies of a cell differ, or `out` holds another run or
    one that has ended; pydantic.ValidationError for a cell's header that lacks a field. After an error while cells are copied,
    a directory `out` that did not exist before is deleted.
    """
    if not sources:
        raise RunDirectoryError("nothing to merge: name at least one run directory")
    runs = sorted((read_run(source) for source in sources), key=lambda run: (run.header.started, run.header.run))
    for run in runs[1:]:
        for name in _SHARED:
            if getattr(run.header, name) != getattr(runs[0].header, name):
                raise RunDirectoryError(
                    f"{runs[0].path} and {run.path} differ in {name}: they are not parts of one run"
                )
    existed = out.exists()
    begin_run(out, _merged_header(runs, out.name))
    try:
        for run in runs:
            for folder in (CELLS_FOLDER, LATE_FOLDER):
                for path in cell_files(run.path, folder):
                    _copy_cell(path, out, folder)
    except Exception:
        if not existed:  # half of a merged run would look like a run that was killed
            delete_run(out)
        raise
    footers = [run.footer for run in runs]
    return finish_run(
        out,
        wall_seconds=max(footer.wall_seconds if footer else 0.0 for footer in footers),
        interrupted=any(footer is None or footer.interrupted for footer in footers),
    )


def _merged_header(runs: Sequence[StoredRun], name: str) -> RunHeader:
    """Return the header of the merged run: the first run's, with all candidates, the joint suite hash and the planned cells.

    A cell that two runs have is counted once. `name` is the merged run's. It counts as filtered only where all runs are. Raises
    RunDirectoryError where two runs have different candidates of one name.
    """
    candidates: dict[str, CandidateRecord] = {}
    for run in runs:
        for candidate in run.header.candidates:
            if candidates.setdefault(candidate.name, candidate).sha256 != candidate.sha256:
                raise RunDirectoryError(
                    f"{run.path}: its candidate {candidate.name!r} is not the one of that name in another run"
                )
    cells = [header for run in runs for header, _ in read_cell_ends(run.path).ends]
    held_twice = len(cells) - len({(cell.nodeid, cell.candidate) for cell in cells})
    return runs[0].header.model_copy(
        update={
            "schema_number": SCHEMA,
            "run": name,
            "candidates": tuple(candidates[key] for key in sorted(candidates)),
            "suite_sha256": suite_sha256(cell.scenario_sha256 for cell in cells),
            "filtered": all(run.header.filtered for run in runs),
            "cells_planned": sum(run.header.cells_planned for run in runs) - held_twice,
        }
    )


def _copy_cell(path: Path, out: Path, folder: str) -> None:
    """Copy a cell's file, with the new run's name in its header, and its nodes' directories; a cell that `out` has already stays.

    `folder` is `cells` or `late`. A finished cell is compressed. Raises RunDirectoryError where the file cannot be read to its
    end or `out` has the cell with another content; pydantic.ValidationError where the header lacks a field.
    """
    _, first = next(parse_lines(path), (0, None))  # None for an empty file; Damage for a line that cannot be read
    if not isinstance(first, dict):
        raise RunDirectoryError(f"{path}:1: the cell's header cannot be read")
    header = CellHeader.model_validate(first).model_copy(update={"schema_number": SCHEMA, "run": out.name})
    octets, problem = read_history(path)
    if problem:
        raise RunDirectoryError(f"{path}: {problem}")
    content = json_line(header) + octets.partition(b"\n")[2]
    (out / folder).mkdir(exist_ok=True)
    if (existing := cell_file(out, slug_of(path), folder)) is not None:
        if read_history(existing)[0] != content:
            raise RunDirectoryError(f"{path}: another source holds this cell with different content")
        return
    finished = read_cell_end(path)[1] is not None
    target = out / folder / f"{slug_of(path)}{GZIP_SUFFIX if finished else PLAIN_SUFFIX}"
    write_atomically(target, gzip_member(content) if finished else content)
    attachments = attachments_folder(path)
    if attachments.is_dir():
        shutil.copytree(attachments, out / folder / attachments.name)
    if (archive := archive_path(attachments)).is_file():
        target = archive_path(out / folder / attachments.name)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(archive, target)
