"""`conformance export`: one cell of a run in the format of another tool.

Each format has a module of `conformance.export`, which is imported only when it is asked for.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import typer
from pydantic import ValidationError

from conformance.commands.missing_package import report_missing_package
from conformance.report.escaping import visible
from conformance.results.layout import RunDirectoryError, cell_file, cell_files, slug_of
from conformance.results.reader import StoredCell, read_cell, read_header

Format = Literal["pcapng", "perfetto", "scenario"]

_MAX_LISTED = 5
"""How many names of cells, or damaged lines, are printed."""


def export_cell(run_dir: Path, cell: str, export_format: Format, out: Path) -> int:
    """Write a cell to the file `out` in a format, and print up to five damaged lines of its history.

    `cell` is the name of its file in `cells/`, or the beginning of exactly one name. Returns 2 when there is no such cell, when
    it cannot be read or written, when it cannot be expressed in the format, or when a package for the format is missing; else 0.
    """
    try:
        read_header(run_dir)
        stored = read_cell(_find_cell_file(run_dir, cell))
        octets = _exporter(export_format)(stored)
        out.write_bytes(octets)
    except ModuleNotFoundError as error:
        return report_missing_package(error.name, "traces")
    except (RunDirectoryError, LookupError, OSError, ValidationError, ValueError) as error:
        typer.echo(visible(str(error.args[0] if isinstance(error, LookupError) else error), 300), err=True)
        return 2
    for damage in stored.damage[:_MAX_LISTED]:
        typer.echo(visible(str(damage)), err=True)
    typer.echo(f"{export_format:<10} {out}")
    return 0


def _find_cell_file(run_dir: Path, cell: str) -> Path:
    """Return the file in `cells/` whose name without suffix is `cell`, else the only one whose name begins so.

    Raises LookupError, whose text lists names, where none or several do.
    """
    if (exact := cell_file(run_dir, cell)) is not None:
        return exact
    found = [path for path in cell_files(run_dir) if slug_of(path).startswith(cell)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise LookupError(f"no cell of {run_dir} has a name that begins with {cell!r}: the names are those of cells/")
    names = ", ".join(slug_of(path) for path in found[:_MAX_LISTED])
    more = f" and {len(found) - _MAX_LISTED} more" if len(found) > _MAX_LISTED else ""
    raise LookupError(f"{cell!r} is the beginning of {len(found)} cells: {names}{more}")


def _exporter(export_format: Format) -> Callable[[StoredCell], bytes]:
    """Return the function that returns a cell's content in a format. Raises ModuleNotFoundError without its package."""
    match export_format:
        case "pcapng":
            from conformance.export.pcapng import as_pcapng

            return as_pcapng
        case "perfetto":
            from conformance.export.perfetto import as_perfetto

            return as_perfetto
        case "scenario":
            from conformance.export.scenario import as_scenario

            return as_scenario
