"""The kind `docker`: a server in a container of an image."""

from typing import Annotated, Any

from pydantic import Field

from conformance.candidates.availability import Availability, engine_missing
from conformance.candidates.fields import ClosedModel, CommonFields, KindFields, ListenerName
from conformance.candidates.kind import Kind


class Container(ClosedModel):
    """What the `docker` kind needs beside the image."""

    image: str = Field(description="an image that the engine has already; nothing is pulled")
    memory: str = Field("512m", description="memory limit, as Docker writes it")
    pids: int = Field(256, ge=8, description="most processes and threads")
    ports: dict[ListenerName, Annotated[int, Field(ge=1, le=65535)]] = Field(
        {"frontend": 2525, "transport": 2526, "delivery": 2527},
        description="where its doors are in there, for a server that has ports of its own",
    )
    writable: tuple[str, ...] = Field(
        (), description="directories of the image that need a tmpfs: the root is read-only"
    )


class DockerFields(KindFields):
    """What only this kind has in its description."""

    container: Container | None = Field(None, description="docker: the image, and what it needs")


class Docker(Kind):
    """A container on a network of its own."""

    name = "docker"
    needs = "container"
    fields = DockerFields
    word = "docker:IMAGE"
    sees_host_files = False
    parallel_claims = 6

    def parse_word(self, what: str, name: str) -> dict[str, Any]:
        """See Kind."""
        if not name:
            raise ValueError(what)
        return {"name": name, "argv": ("--config", "{config}"), "container": Container(image=what)}

    def check_availability(self, candidate: CommonFields) -> Availability:
        """See Kind; an engine to run its image."""
        return Availability(missing=engine_missing())
