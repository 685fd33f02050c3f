"""The page of an aggregation's tables, from rows made by hand."""

import base64
import hashlib
import re
from typing import Any

import pytest
from markupsafe import escape

pytest.importorskip("pyspark")

from conformance.report.tables_page import MAX_TEXT, TableOnPage, label_of, tables_page, trend_lines, value_text
from conformance.spark.aggregation import TABLES

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e'\""


def page_rows() -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in TABLES}
    rows["runs"] = [{"run": "r1", "started": "2026", "cells": 2, "failed": 1, "damaged": 0}]
    cell = {"run": "r1", "candidate": HOSTILE, "passed": 1, "failed": 1, "cells": 2, "outcome": "fail"}
    rows["matrix"] = [{**cell, "scenario": HOSTILE}]
    rows["requirements"] = [{**cell, "requirement": "RL-ACK-01"}]
    failure = {"requirement": "RL-ACK-01", "check": "x", "sentence": HOSTILE, "nodeid": HOSTILE, "event": 7}
    rows["failures"] = [{"run": "r1", "candidate": HOSTILE, "scenario": HOSTILE, "repeat": HOSTILE, **failure}]
    return rows


def page_of(rows: dict[str, list[dict[str, Any]]]) -> str:
    columns = {table.name: tuple((column.name, column.meaning) for column in table.columns) for table in TABLES}
    return tables_page(
        [TableOnPage(table.name, table.title, columns[table.name], rows[table.name]) for table in TABLES]
    )


def test_hostile_values_are_shown_escaped() -> None:
    page = page_of(page_rows())
    assert page.count("<script>") == 1
    assert "\x1b" not in page
    assert "\u202e" not in page
    escaped = page.count(r"&lt;script&gt;alert(1)&lt;/script&gt;\x1b[2J\u202e&#39;&#34;")
    assert escaped == page.count("alert(1)") > 0


def test_the_page_permits_its_own_style_and_script_local_images_and_nothing_else() -> None:
    page = page_of(page_rows())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    allowed = {"default-src": "'none'", "img-src": "'self'", "base-uri": "'none'", "form-action": "'none'"}
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        expected = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        allowed[f"{tag}-src"] = f"'sha256-{expected}'"
    assert dict(directive.split(" ", 1) for directive in policy[1].split("; ")) == allowed


def test_columns_have_labels_units_and_meanings() -> None:
    rows = page_rows()
    rows["flaky"] = [{"candidate": "c", "nodeid": "n", "rate": 0.25, "scenario_sha256": "a" * 64}]
    for table in TABLES:
        rows[table.name] = rows[table.name] or [dict.fromkeys(column.name for column in table.columns)]
    page = page_of(rows)
    assert '<th scope="col" title="how often it fails">Failure rate (%)</th>' in page
    assert '<td class="figure">25</td>' in page
    assert f"<td>{'a' * 12}</td>" in page
    for table in TABLES:
        for column in table.columns:
            head = f'title="{escape(column.meaning.replace("`", ""))}">{escape(label_of(column.name))}</th>'
            assert column.meaning
            assert head in page, column.name
    heads = {label_of(column.name) for table in TABLES for column in table.columns}
    assert {"Wall time (s)", "95 % within (s)", "Cell", "Message-ID"} <= heads
    assert not [head for head in heads if "_" in head or not (head[0].isupper() or head[0].isdigit())]


def test_trend_lines_are_in_the_order_of_runs_and_in_percent() -> None:
    runs = [{"run": name} for name in ("b", "c", "a")]
    matrix = [
        {"run": run, "candidate": HOSTILE, "passed": 4 - bad, "failed": bad}
        for run, bad in (("c", 2), ("a", 1), ("b", 0))
    ]
    (one,) = trend_lines({"runs": runs, "matrix": matrix, "latency": [{"run": "a", "candidate": "x", "p95": 1.0}]})
    assert one.points == "0.0,80.0 180.0,0.0 360.0,40.0"
    assert (one.runs, one.first, one.last, one.least, one.most) == (3, 0, 25, 0, 50)


def test_the_page_plots_a_trend_from_two_runs_on() -> None:
    rows = page_rows()
    assert "<polyline" not in page_of(rows)
    rows["runs"].append({**rows["runs"][0], "run": "r2"})
    rows["matrix"].append({**rows["matrix"][0], "run": "r2"})
    rows["failures"] = []
    page = page_of(rows)
    assert '<polyline points="0.0,80.0 360.0,80.0">' in page
    rows["runs"].append({**rows["runs"][0], "run": "r3"})
    rows["matrix"].append({**rows["matrix"][0], "run": "r3"})
    assert '<polyline points="0.0,80.0 180.0,80.0 360.0,80.0">' in page_of(rows)
    assert page.count("<script>") == 1


def test_values_are_cut_at_the_limit_and_lists_are_joined() -> None:
    assert value_text("x" * MAX_TEXT) == "x" * MAX_TEXT
    assert value_text("x" * (MAX_TEXT + 9)) == "x" * MAX_TEXT + "… (+9 characters)"
    assert len(value_text(["x"] * MAX_TEXT)) < MAX_TEXT + 40
    assert value_text(None) == ""
    assert value_text(["a", "b"]) == "a, b"
