"""The kind `python`: a node in this process, made by a factory."""

from pydantic import Field

from conformance.candidates.kind import Kind
from conformance.candidates.parts import OwnFields
from conformance.clocks import IN_PROCESS


class PythonFields(OwnFields):
    """What only this kind has in its description."""

    factory: str | None = Field(None, description="python: `package.module:factory`")


class Python(Kind):
    """A node on this process's loop."""

    name = "python"
    needs = "factory"
    fields = PythonFields
    means = frozenset({IN_PROCESS})
