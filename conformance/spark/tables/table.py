"""What a table is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its name in files, its title for people, its query; the query says the order of its rows."""

    name: str
    title: str
    query: str
