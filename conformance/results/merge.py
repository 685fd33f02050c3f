"""Puts several run directories together into one: the shards of a run that several machines did."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from conformance.results.identity import suite_sha256
from conformance.results.layout import (
    CELLS,
    LATE,
    PACKED,
    PLAIN,
    RunDirectoryError,
    archive_of,
    attachments_of,
    cell_file,
    cell_files,
    cell_name,
)
from conformance.results.packed import octets_of, packed
from conformance.results.reader import StoredRun, numbered, read_end, read_ends, read_run
from conformance.results.schema import SCHEMA, CandidateRecord, CellHeader, RunFooter, RunHeader
from conformance.results.whole import write_whole
from conformance.results.writer import begin_run, finish_run, line_of

_SHARED = ("seed", "clock", "scale", "grid", "environment_sha256")
"""What shards must agree in: else they are not parts of one run."""


def merge_runs(sources: Sequence[Path], out: Path) -> RunFooter:
    """Merge runs into a new run directory and return its footer.

    The order of the sources does not matter. A cell that two of them hold must be the same in both, octet by octet but
    for the run's name. Wall time is that of the longest source: they ran beside each other. Raises RunDirectoryError
    when they are not parts of one run, or `out` holds one already.
    """
    if not sources:
        raise RunDirectoryError("nothing to merge: name at least one run directory")
    runs = sorted((read_run(source) for source in sources), key=lambda run: (run.header.started, run.header.run))
    for run in runs[1:]:
        for name in _SHARED:
            if getattr(run.header, name) != getattr(runs[0].header, name):
                raise RunDirectoryError(f"{runs[0].path} and {run.path} differ in {name}: they are no parts of one run")
    begin_run(out, _header(runs, out.name))
    for run in runs:
        for folder in (CELLS, LATE):
            for path in cell_files(run.path, folder):
                _copy_cell(path, out, folder)
    footers = [run.footer for run in runs]
    return finish_run(
        out,
        wall_seconds=max(footer.wall_seconds if footer else 0.0 for footer in footers),
        interrupted=any(footer is None or footer.interrupted for footer in footers),
    )


def _header(runs: Sequence[StoredRun], name: str) -> RunHeader:
    candidates: dict[str, CandidateRecord] = {}
    for run in runs:
        for candidate in run.header.candidates:
            if candidates.setdefault(candidate.name, candidate).sha256 != candidate.sha256:
                raise RunDirectoryError(f"{run.path}: another candidate of the name {candidate.name!r} than elsewhere")
    hashes = (header.scenario_sha256 for run in runs for header, _ in read_ends(run.path).ends)
    return runs[0].header.model_copy(
        update={
            "schema_number": SCHEMA,
            "run": name,
            "candidates": tuple(candidates[key] for key in sorted(candidates)),
            "suite_sha256": suite_sha256(hashes),
            "filtered": all(run.header.filtered for run in runs),
            "cells_planned": sum(run.header.cells_planned for run in runs),
        }
    )


def _copy_cell(path: Path, out: Path, folder: str) -> None:
    _, first = next(numbered(path), (0, None))
    if not isinstance(first, dict):
        raise RunDirectoryError(f"{path}:1: the cell's header cannot be read")
    header = CellHeader.model_validate(first).model_copy(update={"schema_number": SCHEMA, "run": out.name})
    octets, trouble = octets_of(path)
    if trouble:
        raise RunDirectoryError(f"{path}: {trouble}")
    content = line_of(header) + octets.partition(b"\n")[2]
    (out / folder).mkdir(exist_ok=True)
    if (there := cell_file(out, cell_name(path), folder)) is not None:
        if octets_of(there)[0] != content:
            raise RunDirectoryError(f"{path}: another source holds this cell with another content")
        return
    whole = read_end(path)[1] is not None
    target = out / folder / f"{cell_name(path)}{PACKED if whole else PLAIN}"
    write_whole(target, packed(content) if whole else content)
    attachments = attachments_of(path)
    if attachments.is_dir():
        shutil.copytree(attachments, out / folder / attachments.name)
    if (archive := archive_of(attachments)).is_file():
        target = archive_of(out / folder / attachments.name)
        target.parent.mkdir(exist_ok=True)
        shutil.copy2(archive, target)
