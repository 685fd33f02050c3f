"""The published tables: their columns, their documentation, and their export as JSON and CSV."""

import csv
import io
import json
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from conformance.spark.export import export_table
from conformance.spark.generate_docs import BEGIN, END, update_page
from conformance.spark.tables.verdicts import MATRIX


def test_a_table_drops_unknown_columns_and_requires_its_own() -> None:
    rows = [{name.name: None for name in MATRIX.columns} | {"run": "r", "more": 1}]
    assert MATRIX.conform(pa.Table.from_pylist(rows)).schema == MATRIX.schema
    for own in MATRIX.schema.names:
        with pytest.raises(KeyError, match=f'"{own}"'):
            MATRIX.conform(pa.Table.from_pylist(rows).drop_columns([own]))


def test_the_generated_tables_of_the_data_page_are_up_to_date() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text("utf-8")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    assert update_page(f"{before}{BEGIN}{END}{after}") == page


def test_json_and_csv_hold_the_same_rows_and_csv_no_formula(tmp_path: Path) -> None:
    rows = [{"a": "=cmd()", "b": 1, "c": None}, {"a": 'x,"y"\n', "b": 2, "c": True}]
    export_table(pa.Table.from_pylist(rows), tmp_path, "t")
    assert json.loads((tmp_path / "t.json").read_text()) == rows
    with (tmp_path / "t.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c"], ["'=cmd()", "1", ""], ['x,"y"\n', "2", "True"]]


EVIL = [
    "=1+1",
    "+1",
    "-1",
    "@x",
    "\t=1",
    "\r=1",
    "\n=1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20x",
    "a;=1+1",
    "a|@x",
    "a\t=1",
    "a\n=1",
]


def test_no_field_is_a_formula_with_comma_semicolon_bar_or_tab_as_delimiter(tmp_path: Path):
    texts = [*EVIL, "plain", "a-b", "x=1", 'say "=1"', "a,=1"]
    rows = export_table(pa.table({"text": texts, "number": list(range(len(texts)))}), tmp_path, "t")
    assert [row["text"] for row in rows] == texts
    content = (tmp_path / "t.csv").read_text("utf-8")
    read = [row[0] for row in csv.reader(io.StringIO(content, newline=""))][1:]
    assert len(read) == len(texts)
    assert read[len(EVIL) :] == texts[len(EVIL) :]
    start = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
    assert not [text for text in read if text.startswith(start)]
    assert not [line for line in content.splitlines() if line.startswith(start)], "another delimiter hides the quotes"
    for delimiter in ";|\t":  # a spreadsheet of another country, or one that was set so
        fields = [one for row in csv.reader(io.StringIO(content, newline=""), delimiter=delimiter) for one in row]
        assert not [field for field in fields if field.startswith(start)]
