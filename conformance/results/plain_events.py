"""Most events are rows as they stand in their line: Arrow reads those by the thousand, without an object for each.

Which ones: those of a kind whose every field has the same type in its column. The lines of others (`line` of a step is a
number, and text of a command) are read one by one, and so is whatever is not written exactly as this harness writes it.
"""

import io
import re
from dataclasses import fields
from typing import get_args, get_type_hints

import pyarrow as pa
import pyarrow.json

from conformance.history.events import AnyEvent
from conformance.results.columns import EVENT

_BLOCK = 1 << 20
"""Octets that Arrow parses at a time, unless a line is longer."""


def _is_plain(kind: type) -> bool:
    columns = {column.name: column.type for column in EVENT}
    hints = get_type_hints(kind)
    return all(columns[field.name] != "json" or hints[field.name] is str for field in fields(kind))


PLAIN_KINDS = tuple(
    get_args(get_type_hints(kind)["kind"])[0] for kind in get_args(get_args(AnyEvent)[0]) if _is_plain(kind)
)
"""The kinds of events that are rows as they stand."""

PLAIN_LINES = re.compile(
    rb'(?>\{"record":"event","n":\d+,"t":[-+.e\d]+,"kind":"(?:%b)"[^\n]*\}\n)++' % "|".join(PLAIN_KINDS).encode()
)
"""Lines that follow one another and are such events."""


def parse_plain_lines(lines: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of such lines, in the columns of `schema` (those of the table of events).

    Raises pyarrow.ArrowInvalid when one of them is no such row.
    """
    if not lines:
        return schema.empty_table()
    longest = max(map(len, lines.split(b"\n")))
    read = pyarrow.json.read_json(
        io.BytesIO(lines),
        read_options=pyarrow.json.ReadOptions(block_size=max(_BLOCK, 2 * longest)),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=schema.append(pa.field("record", pa.string())), unexpected_field_behavior="error"
        ),
    )
    return read.drop_columns(["record"])
