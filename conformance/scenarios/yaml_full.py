"""Parse YAML 1.2 with anchors, aliases, merge keys and the standard tags, which descriptions and baselines may use.

The limit on depth is that of scenarios; the caller may raise that on values. The value of an alias counts each time that it is used.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from ruamel.yaml.events import AliasEvent, Event, NodeEvent, ScalarEvent

from conformance.scenarios.errors import Mark, ProblemReport, short_repr
from conformance.scenarios.yaml_nodes import (
    MAX_DEPTH,
    MAX_NODES,
    Chunk,
    Composer,
    Entry,
    Node,
    Scalar,
    compose_with,
    read_text,
    resolve_plain_scalar,
    split_documents,
)

_STANDARD = "tag:yaml.org,2002:"
_SCALARS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "null": (type(None),),
}
_COLLECTIONS = ("map", "seq", "!")


def read_full_yaml(path: Path, report: ProblemReport, *, max_octets: int, max_values: int = MAX_NODES) -> Node | None:
    """Return the root node of a file's only document; None after reporting why there is none.

    `max_octets` limits the file and `max_values` the number of values in the document. A problem that does not end the reading, such
    as an unknown anchor, is reported too, and the node is returned.
    """
    text = read_text(path, report, max_octets)
    if text is None:
        return None
    chunks = [chunk for chunk in split_documents(text) if not _is_directives(chunk)]
    if len(chunks) != 1:
        mark = Mark(chunks[1].line if chunks else 1, 1)
        report.add(mark, f"expected one document, not {len(chunks)}")
        return None
    return compose_with(partial(_FullComposer, max_values=max_values), chunks[0], report)


def _is_directives(chunk: Chunk) -> bool:
    """Return whether a chunk has only directives and comments, as before the first `---`; they have no effect here."""
    return all(not line.strip() or line.startswith(("%", "#")) for line in chunk.text.splitlines())


class _FullComposer(Composer):
    """Resolves aliases and merge keys, and checks values against their tags.

    `Composer` refuses these. `max_values` limits the number of values in the document.
    """

    def __init__(self, chunk: Chunk, report: ProblemReport, max_values: int) -> None:
        super().__init__(chunk, report, max_values)
        self._by_anchor: dict[str, Node | None] = {}
        """Anchor -> its node; None while that is being built."""

    def _build_node(self, event: Event, depth: int) -> Node:
        """Return the node that begins with an event, and keep it for aliases if it has an anchor. Raises as `Composer` does."""
        anchor = event.anchor if isinstance(event, NodeEvent) and not isinstance(event, AliasEvent) else None
        if anchor is not None:
            self._by_anchor[anchor] = None  # until its value is complete
        node = super()._build_node(event, depth)
        if anchor is not None:
            self._by_anchor[anchor] = node
        return node

    def _resolve_alias(self, event: AliasEvent, mark: Mark, depth: int) -> Node:
        """Return the node of an anchor, at the alias's place; null after reporting an unknown or recursive alias.

        Raises _Unreadable where the document exceeds its limit of values or depth by this.
        """
        name = short_repr(event.anchor)
        if event.anchor not in self._by_anchor:
            self._report.refuse(mark, f"there is no anchor {name} before this alias")
            return Node(mark, None)
        node = self._by_anchor[event.anchor]
        if node is None:
            self._report.refuse(mark, f"the alias {name} is used inside its own value")
            return Node(mark, None)
        self._count_values(event, node.count())  # nested aliases could stand for billions of values
        if depth + _depth(node) - 1 > MAX_DEPTH:
            raise self._unreadable(event, f"nested deeper than {MAX_DEPTH} levels")
        return Node(mark, node.value)

    def _merged_entries(self, mark: Mark, node: Node) -> dict[str, Entry]:
        """Return the entries of the mappings that a merge key names; of equal keys the first counts.

        {} after reporting a value that is no mapping. The keys get the place of the merge key.
        """
        merged: dict[str, Entry] = {}
        for source in node.items or (node,):
            if not isinstance(source.value, dict):
                self._report.add(mark, "a merge key (<<) takes a mapping, or a list of mappings")
                return {}
            for key, entry in source.value.items():
                merged.setdefault(key, Entry(mark, entry.node))
        return merged

    def _check_properties(self, event: Event, mark: Mark) -> None:
        """Report a tag that is not one of the standard ones; anchors are allowed."""
        tag = _tag(event)
        allowed = _SCALARS if isinstance(event, ScalarEvent) else _COLLECTIONS
        if tag is not None and tag not in allowed:
            self._report.refuse(mark, f"the tag {short_repr(tag)} is not used here; take it away")

    def _convert_scalar(self, event: ScalarEvent, mark: Mark) -> Scalar:
        """Return the value of a scalar as its tag demands; None after reporting that it does not fit the tag."""
        tag = _tag(event)
        if tag is None or tag not in _SCALARS:
            return super()._convert_scalar(event, mark)
        if tag == "str":
            return super()._convert_scalar(ScalarEvent(None, None, event.implicit, event.value, style="'"), mark)
        try:
            value = resolve_plain_scalar(event.value)
        except ValueError as error:
            self._report.refuse(mark, str(error))
            return None
        if type(value) not in _SCALARS[tag]:
            self._report.refuse(mark, f"{short_repr(event.value)} is not a valid !!{tag}")
            return None
        return value


def _tag(event: Event) -> str | None:
    """Return the tag of a node, a standard one by its short name such as 'int'; 'str' for `!` of a scalar; None without a tag."""
    tag = getattr(event, "tag", None)
    if tag is None:
        return None
    return "str" if str(tag) == "!" and isinstance(event, ScalarEvent) else str(tag).removeprefix(_STANDARD)


def _depth(node: Node) -> int:
    """Return the number of levels at and below a node."""
    below = (*node.items, *(entry.node for entry in node.entries.values()))
    return 1 + max(map(_depth, below), default=0)
