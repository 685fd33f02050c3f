"""The kind `python`: a node in this process, made by a factory."""

from pydantic import Field

from conformance.candidates.fields import KindFields
from conformance.candidates.kind import Kind
from conformance.clocks import IN_PROCESS


class PythonFields(KindFields):
    """What only this kind has in its description."""

    factory: str | None = Field(None, description="python: `package.module:factory`")


class Python(Kind):
    """A node on this process's loop."""

    name = "python"
    needs = "factory"
    fields = PythonFields
    features = frozenset({IN_PROCESS})
