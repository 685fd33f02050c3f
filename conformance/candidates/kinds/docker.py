"""The kind `docker`: a server in a container of an image."""

from typing import Annotated, Any

from pydantic import Field

from conformance.candidates.kind import Kind
from conformance.candidates.parts import Closed, Described, Door, OwnFields
from conformance.candidates.presence import Presence, engine_missing


class Container(Closed):
    """What the `docker` kind needs beside the image."""

    image: str = Field(description="an image that the engine has already; nothing is pulled")
    memory: str = Field("512m", description="memory limit, as Docker writes it")
    pids: int = Field(256, ge=8, description="most processes and threads")
    ports: dict[Door, Annotated[int, Field(ge=1, le=65535)]] = Field(
        {"frontend": 2525, "transport": 2526, "delivery": 2527},
        description="where its doors are in there, for a server that has ports of its own",
    )
    writable: tuple[str, ...] = Field(
        (), description="directories of the image that need a tmpfs: the root is read-only"
    )


class DockerFields(OwnFields):
    """What only this kind has in its description."""

    container: Container | None = Field(None, description="docker: the image, and what it needs")


class Docker(Kind):
    """A container on a network of its own."""

    name = "docker"
    needs = "container"
    fields = DockerFields
    word = "docker:IMAGE"
    sees_files = False
    at_once = 6

    def described(self, what: str, name: str) -> dict[str, Any]:
        """See Kind."""
        if not name:
            raise ValueError(what)
        return {"name": name, "argv": ("--config", "{config}"), "container": Container(image=what)}

    def look_for(self, candidate: Described) -> Presence:
        """See Kind; an engine to run its image."""
        return Presence(missing=engine_missing())
