"""What descriptions are made of: closed models, doors, addresses."""

import ipaddress
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

Door = Literal["frontend", "transport", "delivery"]


class Closed(BaseModel):
    """Takes no key that it does not know, and does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class OwnFields(Closed):
    """The fields of a description that one kind has alone: every candidate has them, and only that kind reads them."""

    @classmethod
    def of(cls, candidate: Closed) -> Self:
        """Return a candidate as what has these fields."""
        assert isinstance(candidate, cls)
        return candidate


class Address(Closed):
    """Where a server answers or dials."""

    host: str = "127.0.0.1"
    port: int = Field(ge=1, le=65535)

    @property
    def at(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port


def is_loopback(host: str) -> bool:
    """Whether a host is this machine as nobody else sees it. Of names only `localhost` is: no name is looked up."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
