"""Combines what cells vary with the reasons why others do not, and formats docs/coverage.md.

A *dimension* is something in which scenarios can differ, such as a second message; a *group* is one of the catalogue of requirements.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from ruamel.yaml import YAML

from conformance.requirements.catalogue import Catalogue
from conformance.scenarios.coverage import mail_dimensions, server_dimensions, value_dimensions
from conformance.scenarios.coverage.detection import DETECTORS, groups_by_dimension
from conformance.scenarios.document import Cell

_REGISTERED = (mail_dimensions, server_dimensions, value_dimensions)
"""The modules with the detectors, which importing registers."""

_FILE = Path(__file__).with_name("dimensions.yaml")


class Dimensions(BaseModel):
    """The content of dimensions.yaml: the meaning of each dimension, and why it cannot matter to the rows of some groups."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimensions: dict[str, str]
    no_occasion: dict[str, dict[str, str]]


def read_dimensions() -> Dimensions:
    """Return the dimensions. Raises ValueError if they are not those that can be detected."""
    read = Dimensions.model_validate(YAML(typ="safe").load(_FILE.read_text("utf-8")))
    if unknown := {*read.dimensions, *read.no_occasion} ^ DETECTORS.keys():
        raise ValueError(f"dimensions.yaml and detection.py differ in {', '.join(sorted(unknown))}")
    return read


@dataclass(frozen=True, slots=True)
class Pair:
    """A dimension and a group of requirements: whether a cell that judges one of its rows varies the dimension.

    `reason` says why that can show no mistake in the group; such a pair is not covered, also where a cell happens to vary it.
    """

    dimension: str
    group: str
    is_covered: bool
    reason: str


def pairs(catalogue: Catalogue, dimensions: Dimensions, cells: Iterable[Cell]) -> list[Pair]:
    """Return every pair of a dimension and a group of the catalogue, covered by these cells or not."""
    group_of = {row.id: row.group for row in catalogue.requirements if row.retired is None}
    covered: set[tuple[str, str]] = set()
    for cell in cells:
        judged = {group_of[row] for row in cell.judged_requirements & group_of.keys()}
        covered |= {(one, group) for one, groups in groups_by_dimension(cell).items() for group in groups & judged}
    found = []
    for dimension in dimensions.dimensions:
        for group in catalogue.groups:
            reason = dimensions.no_occasion.get(dimension, {}).get(group, "")
            found.append(Pair(dimension, group, is_covered=not reason and (dimension, group) in covered, reason=reason))
    return found


def page(catalogue: Catalogue, dimensions: Dimensions, cells: Iterable[Cell]) -> str:
    """Return the text of docs/coverage.md, with the coverage by these cells."""
    return "\n".join(_lines(catalogue, dimensions, pairs(catalogue, dimensions, cells))) + "\n"


def _lines(catalogue: Catalogue, dimensions: Dimensions, found: list[Pair]) -> Iterator[str]:
    """Yield the lines of the page."""
    gaps = sum(not pair.is_covered and not pair.reason for pair in found)
    reasons = sum(bool(pair.reason) for pair in found)
    yield "# What the corpus varies\n"
    yield "For each dimension and each group of [requirements](requirements.md): whether a cell that judges a row of the group varies the"
    yield "dimension, found from the steps, the topology and the axes of the cells. `yes` says that there is an occasion, not that every"
    yield "mistake shows in it: [what each check catches](defects.md) measures that. `-` stands for a dimension that can show no mistake in the"
    yield "group, for a reason that is listed below; **gap** for one that is not varied and has no reason.\n"
    yield f"{len(found) - gaps - reasons} of {len(found)} pairs are covered, {reasons} have a reason, {gaps} are gaps.\n"
    yield "This page is written by `python -m conformance.scenarios.coverage docs/coverage.md`.\n"
    groups = list(catalogue.groups)
    yield f"| dimension | {' | '.join(groups)} |"
    yield f"|---|{'---|' * len(groups)}"
    for dimension in dimensions.dimensions:
        row = [pair for pair in found if pair.dimension == dimension]
        yield f"| `{dimension}` | {' | '.join(map(_entry, row))} |"
    yield "\n## Dimensions\n"
    yield "| dimension | what is varied |"
    yield "|---|---|"
    for dimension, meaning in dimensions.dimensions.items():
        yield f"| `{dimension}` | {meaning} |"
    yield "\n## Why a dimension cannot matter to a group\n"
    yield "| dimension | group | reason |"
    yield "|---|---|---|"
    for pair in found:
        if pair.reason:
            yield f"| `{pair.dimension}` | {pair.group} | {pair.reason} |"


def _entry(pair: Pair) -> str:
    """Return the table's entry for a pair: `yes` where it is covered, `-` where it has a reason, else `**gap**`."""
    return "yes" if pair.is_covered else "-" if pair.reason else "**gap**"
