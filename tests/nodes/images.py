"""Images without a registry: a base made of this machine's own Python and its shared libraries, and what is built on it."""

import importlib.metadata
import io
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path

import docker

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "fixtures" / "containers" / "reference"
WAITS = """\
id: waits
title: A server that is there for a long time
requirements: [RL-ACK-01]
needs: [relay]
topology: relay
steps:
  - advance: 30d
"""

_SKIPPED = {
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "site-packages",
    "dist-packages",
    "pydoc_data",
    "EXTERNALLY-MANAGED",
}


def base_tar() -> bytes:
    """Return the root of an image that has `python3`, its pip, and what the reference needs."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    binary = Path(sys.executable).resolve()
    stdlib = Path(sysconfig.get_path("stdlib"))
    objects = {binary}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        _add(tar, binary, f"usr/local/bin/{version}")
        link = tarfile.TarInfo("usr/local/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, version
        tar.addfile(link)
        for path in _files(stdlib):
            _add(tar, path, f"usr/local/lib/{version}/{path.relative_to(stdlib)}")
            objects |= {path} if ".so" in path.suffixes else set()
        # Beside the standard library: where a Python looks for packages is its packager's to say.
        for inside, path in _installed(["pip", *_required()]):
            _add(tar, path, f"usr/local/lib/{version}/{inside}")
            objects |= {path} if ".so" in path.suffixes else set()
        for name, path in _libraries(objects).items():
            _add(tar, path, name.removeprefix("/") if name.startswith("/") else f"usr/local/lib/{name}")
        for place, mode in (("tmp", 0o1777), ("node", 0o755), ("app", 0o755)):
            directory = tarfile.TarInfo(place)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
    return made.getvalue()


def import_base(client: docker.DockerClient, tag: str) -> None:
    """Have the engine take the base in as an image: `FROM scratch`, and one layer."""
    changes = ["ENV PATH=/usr/local/bin", "ENV LD_LIBRARY_PATH=/usr/local/lib", "ENV PIP_NO_INDEX=1"]
    client.api.import_image_from_data(base_tar(), repository=tag, changes=changes)


def build_reference(client: docker.DockerClient, tag: str, base: str) -> None:
    """Build the reference's image with its own Dockerfile, out of what .dockerignore lets through of the repository."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as tar:
        for path in (*_files(ROOT / "conformance"), *_files(REFERENCE)):
            if "__pycache__" not in path.parts:
                _add(tar, path, str(path.relative_to(ROOT)))
    context.seek(0)
    client.images.build(
        fileobj=context,
        custom_context=True,
        dockerfile=str((REFERENCE / "Dockerfile").relative_to(ROOT)),
        buildargs={"BASE": base},
        tag=tag,
        network_mode="none",
        rm=True,
        forcerm=True,
    )


def _required() -> list[str]:
    return [re.split(r"[<>=]", line)[0] for line in (REFERENCE / "requirements.txt").read_text("utf-8").split()]


def _files(directory: Path) -> Iterator[Path]:
    """Yield the files below a directory, sorted, but for what nobody needs at run time."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not _SKIPPED & set(path.relative_to(directory).parts):
            yield path


def _installed(names: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the files of distributions and of all that they require: path in site-packages, path here."""
    seen: set[str] = set()
    while names:
        name = re.sub(r"[-_.]+", "-", names.pop().lower())
        if name in seen:
            continue
        seen.add(name)
        distribution = importlib.metadata.distribution(name)
        names += [
            re.split(r"[^A-Za-z0-9_.-]", line)[0]
            for line in distribution.requires or ()
            if "extra ==" not in line and needed(line)
        ]
        for file in distribution.files or ():
            if not file.parts[0].startswith("..") and Path(distribution.locate_file(file)).is_file():
                yield str(file), Path(distribution.locate_file(file))


def needed(requirement: str) -> bool:
    """Whether a requirement of a distribution is installed here: one that is for another Python or system is not."""
    try:
        importlib.metadata.distribution(re.split(r"[^A-Za-z0-9_.-]", requirement)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _libraries(objects: set[Path]) -> dict[str, Path]:
    """Return the shared libraries that the objects load: name -> path; the loader under its whole path."""
    told = subprocess.run(["ldd", *map(str, sorted(objects))], capture_output=True, text=True, check=False).stdout
    found = {name: Path(path) for name, path in re.findall(r"^\s+(\S+) => (/\S+)", told, re.MULTILINE)}
    return {**found, **{path: Path(path) for path in re.findall(r"^\s+(/\S+) \(0x", told, re.MULTILINE)}}


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file that everybody may read, whoever may here."""
    info = tar.gettarinfo(str(path.resolve()), name)
    info.type, info.linkname = tarfile.REGTYPE, ""
    info.size = path.stat().st_size
    info.mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
    info.uid = info.gid = 0
    with path.open("rb") as file:
        tar.addfile(info, file)
