"""The tables of an aggregation, made by DuckDB of the same files: a speed to compare with, and an oracle for Spark.

The queries are the project's own, translated by sqlglot; `REPLACED` has what sqlglot cannot translate.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import sqlglot
from sqlglot import exp

from benchmarks.layers_in_sql import layers
from conformance.results.layout import PARQUET_FOLDER
from conformance.spark.aggregation import CROSS_RUN_TABLES, PER_RUN_TABLES
from conformance.spark.explorations import explored_rows, found_rows, read_explorations
from conformance.spark.ingest import candidate_rows, find_directories, read_headers, run_rows
from conformance.spark.schemas import RUN_TABLES_DDL
from conformance.spark.tables import explorations
from conformance.spark.tables.table import Table
from conformance.spark.topologies import extract_topologies
from conformance.spark.views import CACHED_VIEWS, view_queries

MACROS = """
CREATE MACRO xxhash64(a, b) AS hash(a, b);
CREATE MACRO array_union(a, b) AS list_distinct(list_concat(a, b));
"""

REPLACED: tuple[tuple[str, str], ...] = (
    (r"ZIP_WITH\(asked, said, LAMBDA a, s : ", "LIST_TRANSFORM(asked, LAMBDA a, i : "),
    (r"'code': s\.code", "'code': said[i].code"),
    (r"EXISTS\(finals\)", "LEN(LIST_FILTER(finals, LAMBDA one : one.recipient IS NOT NULL)) > 0"),
    (r"\bLAST\((\w+)\) OVER passed", r"LAST_VALUE(\1 IGNORE NULLS) OVER passed"),
    (r"\bQUANTILE\(", "QUANTILE_CONT("),
    (r"FROM_JSON\(changes, '[^']*'\)", "CAST(CAST(changes AS JSON) AS MAP(TEXT, TEXT))"),
)
"""Pattern and replacement, applied to the translated query."""


def translated(query: str) -> str:
    """Translate a query from Spark's SQL to DuckDB's."""
    tree = sqlglot.parse_one(query, read="spark").transform(_empty_list_for_null).transform(_zero_for_null_count)
    text = tree.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.IGNORE)
    for pattern, words in REPLACED:
        text = re.sub(pattern, words, text, flags=re.DOTALL)
    return text


def _empty_list_for_null(node: exp.Expression) -> exp.Expression:
    """Make an aggregated list without elements empty, as in Spark, instead of null."""
    if isinstance(node, exp.ArraySort) and node.find(exp.ArrayAgg):
        return exp.Coalesce(this=node.copy(), expressions=[exp.Array()])
    return node


def _zero_for_null_count(node: exp.Expression) -> exp.Expression:
    """Make a conditional count over nulls 0, as in Spark, instead of null."""
    if isinstance(node, exp.CountIf):
        return exp.Count(this=exp.Case().when(node.this.copy(), "1"))
    return node


def tables_of(paths: Sequence[Path], threads: int) -> dict[str, pa.Table]:
    """Return every table of finished runs, as an aggregation of them from nothing gives it."""
    directories = find_directories(paths)
    found = read_headers(directories.runs)
    explored = read_explorations(directories.explorations).explorations.values()
    with duckdb.connect() as database:
        database.execute(f"SET threads = {threads}")
        database.execute(MACROS)
        for table in RUN_TABLES_DDL:
            files = [f"{run.path}/{PARQUET_FOLDER}/{table}.parquet" for run in found.runs.values()]
            database.execute(f"CREATE VIEW raw_{table} AS FROM read_parquet({files!r})")
        cells = pq.read_table([f"{run.path}/{PARQUET_FOLDER}/cells.parquet" for run in found.runs.values()])
        database.execute("DROP VIEW raw_cells")
        cells, topologies = extract_topologies(cells)
        database.register("raw_cells", cells)
        database.register("topologies", topologies)
        database.register("runs", run_rows(found.runs))
        database.register("candidates", candidate_rows(found.runs))
        for name, query in {**layers(), **view_queries()}.items():
            kind = "TABLE" if name in (*CACHED_VIEWS, "exchanges", "single_events") else "VIEW"
            database.execute(f"CREATE {kind} {name} AS {translated(query)}")
        made = {table.name: _made(database, table) for table in PER_RUN_TABLES}
        for name in ("outcomes", "row_outcomes"):
            database.register(name, made[name])
        database.register("explored", explored_rows(explored))
        database.register("found", found_rows(explored))
        across = (*CROSS_RUN_TABLES, *explorations.TABLES)
        return {**made, **{table.name: _made(database, table) for table in across}}


def _made(database: duckdb.DuckDBPyConnection, table: Table) -> pa.Table:
    return table.conform(database.sql(translated(table.query)).to_arrow_table())


def difference(table: Table, one: pa.Table, other: pa.Table) -> str:
    """Return where two tables differ, '' when they hold the same; numbers may differ in their last digits."""
    if one.num_rows != other.num_rows:
        return f"{table.name}: {one.num_rows} rows and {other.num_rows}"
    for place, (left, right) in enumerate(zip(one.to_pylist(), other.to_pylist(), strict=True)):
        if not _same(left, right):
            return f"{table.name}, row {place}: {left} and {right}"
    return ""


def _same(left: Mapping[str, object], right: Mapping[str, object]) -> bool:
    return all(
        abs(one - other) <= 1e-6 if isinstance(one, float) and isinstance(other, float) else one == other
        for one, other in ((left[name], right[name]) for name in left)
    )
