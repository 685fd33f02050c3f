"""`conformance aggregate`: the Spark job, and the page with its tables.

`conformance.spark` reads runs and makes tables of them; this module starts it and prints what came out. The page shows
each table.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from conformance.commands.missing_package import report_missing_package
from conformance.results.layout import RunDirectoryError

if TYPE_CHECKING:
    from conformance.report.tables_page import TableRows
    from conformance.spark.aggregation import WritePage
    from conformance.spark.tables.table import Table


def aggregate_runs(
    runs: list[Path],
    out: Path,
    master: str,
    conf: list[str],
    fail_on: str,
    *,
    make_jvm_cache: bool = False,
    write: "WritePage | None" = None,
) -> int:
    """Aggregate runs and explorations into tables and a page in `out`, and print a summary. Blocks until Spark is done.

    `master` is Spark's master URL, `conf` has settings as `key=value`, `fail_on` is a list such as `regression,flaky`.
    `make_jvm_cache` also caches the classes that Java loads, for later calls.
    `write` writes the pages and returns the path of the first; None: the page with all tables.
    Returns 1 when there is anything that `fail_on` names; 2 when the runs or options cannot be used, Spark fails, or Spark or Java
    is missing; else 0. Raises OSError.
    """
    try:
        from conformance.spark.aggregation import aggregate, parse_fail_on
        from conformance.spark.find_java import JavaMissing
        from conformance.spark.gateway import JavaEnded
        from conformance.spark.master import MasterUnreachable
        from conformance.spark.session import SparkFailed
    except ModuleNotFoundError as error:
        return report_missing_package(error.name, "spark")
    if find_spec("pyspark") is None:  # importing it takes a second, and is done while Java starts
        return report_missing_package("pyspark", "spark")
    settings = dict(pair.partition("=")[::2] for pair in conf)
    if invalid := [pair for pair in conf if "=" not in pair]:
        typer.echo(f"--conf {invalid[0]}: write key=value", err=True)
        return 2
    try:
        summary = aggregate(
            runs,
            out,
            master=master,
            conf=settings,
            fail_on=parse_fail_on(fail_on),
            make_jvm_cache=make_jvm_cache,
            write_page=write or partial(write_page, out),
        )
    except (RunDirectoryError, JavaMissing, JavaEnded, MasterUnreachable, SparkFailed, ValueError) as error:
        typer.echo(error, err=True)
        return 2
    typer.echo(
        f"{summary.runs} runs ({summary.added} new), {summary.cells} cells, {summary.cut_short} of them cut short, "
        f"{summary.damaged} damaged lines"
    )
    if summary.explorations:
        typer.echo(f"{summary.explorations} explorations, {summary.findings} findings")
    typer.echo(", ".join(f"{name}: {count}" for name, count in summary.found.items()))
    typer.echo(f"page       {summary.page}")
    return summary.exit_code


def write_page(
    out: Path, tables: Sequence["Table"], rows: Mapping[str, "TableRows"], write: Callable[[Path, bytes], None]
) -> Path:
    """Write the page with the tables of an aggregation into the folder `out`, and return its path. Raises OSError.

    `rows` are those of each table by its name; `write` writes one file of the page: (path, content).
    """
    from conformance.report.tables_page import TableOnPage, write_tables_page

    shown = [
        TableOnPage(
            name=table.name,
            title=table.title,
            columns=tuple((column.name, column.meaning) for column in table.columns),
            rows=rows[table.name],
        )
        for table in tables
    ]
    return write_tables_page(out, shown, write)
