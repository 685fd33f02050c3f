"""`conformance site`: a site with the results of many runs, from the tables that Spark makes of them.

A *warehouse* is a folder of tables that a later call adds its runs to. The work is that of `conformance aggregate`,
with other pages.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from conformance.commands.aggregate import aggregate_runs, write_page

if TYPE_CHECKING:
    from conformance.report.tables_page import TableRows
    from conformance.spark.tables.table import Table

DATA = "data"
"""The folder of a site with the tables, their page, and the warehouse to which a later call adds its runs."""


def build_results_site(runs: list[Path], out: Path, master: str, conf: list[str]) -> int:
    """Add runs to the tables of a site in `out`, and write its pages, feed and badges anew. Blocks until Spark is done.

    `master` is Spark's master URL, `conf` has settings as `key=value`. Returns 2 when runs or options cannot be used, or without
    Spark or Java, else 0.
    """
    return aggregate_runs(runs, out / DATA, master, conf, "", write=partial(_write_site, out))


def _write_site(
    out: Path, tables: Sequence["Table"], rows: Mapping[str, "TableRows"], write: Callable[[Path, bytes], None]
) -> Path:
    """Write the page of the tables and the site, and return the path of the site's first page. Raises OSError.

    `rows` are those of each table by its name; `write` writes one file: (path, content).
    """
    from conformance.report.results_site.pages import write_results_site
    from conformance.requirements.catalogue import catalogue

    write_page(out / DATA, tables, rows, write)
    return write_results_site(out, rows, catalogue(), write)
