"""The shape of what a node's `inspect` prints, as far as checks read it: more keys than these, and fewer, are welcome.

The whole shape is the node contract's (`conformance schema inspect`).
"""

from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    message_id: Any = None


class _Queue(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: str
    next_hop: str | None = None
    items: list[_Item]


class _State(BaseModel):
    model_config = ConfigDict(extra="ignore")

    queues: list[_Queue]
    delivered_to: int | list[Any] = 0


_READ: TypeAdapter[_State] = TypeAdapter(_State)


def inspection_problem(state: object) -> str:
    """Return why no check can read what a node printed, in words; '' where they can."""
    try:
        _READ.validate_python(state)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        return f"{'.'.join(map(str, first['loc']))[:80]}: {first['msg']}".removeprefix(": ")
    return ""
