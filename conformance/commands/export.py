"""`conformance export`: one cell of a run, in the format of a tool that people have."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import typer
from pydantic import ValidationError

from conformance.report.escaping import visible
from conformance.results.layout import RunDirectoryError, cell_file, cell_files, slug_of
from conformance.results.reader import StoredCell, read_cell, read_header

Format = Literal["pcapng", "perfetto", "scenario"]

_SHOWN = 5
"""Names of cells that a message offers."""


def export_cell(run_dir: Path, cell: str, wanted: Format, out: Path) -> int:
    """Write the cell to a file; 2 when there is no such cell, or when it cannot be read or written so.

    `cell` is the name of its file in `cells/`, or the beginning of one name alone.
    """
    try:
        read_header(run_dir)
        stored = read_cell(_find(run_dir, cell))
        octets = _writer(wanted)(stored)
        out.write_bytes(octets)
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is missing: pip install 'smtp-conformance[traces]'", err=True)
        return 2
    except (RunDirectoryError, LookupError, OSError, ValidationError, ValueError) as error:
        typer.echo(visible(str(error.args[0] if isinstance(error, LookupError) else error), 300), err=True)
        return 2
    for damage in stored.damage[:_SHOWN]:
        typer.echo(visible(str(damage)), err=True)
    typer.echo(f"{wanted:<10} {out}")
    return 0


def _find(run_dir: Path, cell: str) -> Path:
    """Return the file of a cell. Raises LookupError."""
    if (exact := cell_file(run_dir, cell)) is not None:
        return exact
    found = [path for path in cell_files(run_dir) if slug_of(path).startswith(cell)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise LookupError(f"no cell of {run_dir} has a name that begins with {cell!r}: the names are those of cells/")
    names = ", ".join(slug_of(path) for path in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise LookupError(f"{cell!r} is the beginning of {len(found)} cells: {names}{more}")


def _writer(wanted: Format) -> Callable[[StoredCell], bytes]:
    """Return what makes the file. Raises ModuleNotFoundError where an optional package is missing."""
    match wanted:
        case "pcapng":
            from conformance.export.pcapng import as_pcapng

            return as_pcapng
        case "perfetto":
            from conformance.export.perfetto import as_perfetto

            return as_perfetto
        case "scenario":
            from conformance.export.scenario import as_scenario

            return as_scenario
