"""Images without a registry: a base image of this machine's Python and its shared libraries, and images built on it."""

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
    binaries = {binary}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        _add(tar, binary, f"usr/local/bin/{version}")
        link = tarfile.TarInfo("usr/local/bin/python3")
        link.type, link.linkname = tarfile.SYMTYPE, version
        tar.addfile(link)
        for path in _files(stdlib):
            _add(tar, path, f"usr/local/lib/{version}/{path.relative_to(stdlib)}")
            binaries |= {path} if ".so" in path.suffixes else set()
        # Packages go beside the standard library: site-packages has another path in each distribution.
        for inside, path in _installed(["pip", *_required()]):
            _add(tar, path, f"usr/local/lib/{version}/{inside}")
            binaries |= {path} if ".so" in path.suffixes else set()
        for name, path in libraries(binaries).items():
            _add(tar, path, name.removeprefix("/") if name.startswith("/") else f"usr/local/lib/{name}")
        for place, mode in (("tmp", 0o1777), ("node", 0o755), ("app", 0o755)):
            directory = tarfile.TarInfo(place)
            directory.type, directory.mode = tarfile.DIRTYPE, mode
            tar.addfile(directory)
    return made.getvalue()


def import_base(client: docker.DockerClient, tag: str) -> None:
    """Import the base into the engine as an image with one layer."""
    changes = ["ENV PATH=/usr/local/bin", "ENV LD_LIBRARY_PATH=/usr/local/lib", "ENV PIP_NO_INDEX=1"]
    client.api.import_image_from_data(base_tar(), repository=tag, changes=changes)


def build_reference(client: docker.DockerClient, tag: str, base: str) -> None:
    """Build the reference's image with its own Dockerfile, from the files of the repository that .dockerignore admits."""
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
    """Yield the files below a directory, sorted, without those that are not needed at run time."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not _SKIPPED & set(path.relative_to(directory).parts):
            yield path


def _installed(names: list[str]) -> Iterator[tuple[str, Path]]:
    """Yield the files of distributions and of their requirements: the path in site-packages, and the path here."""
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
            if "extra ==" not in line and is_installed(line)
        ]
        for file in distribution.files or ():
            if not file.parts[0].startswith("..") and Path(distribution.locate_file(file)).is_file():
                yield str(file), Path(distribution.locate_file(file))


def is_installed(requirement: str) -> bool:
    """Return whether a requirement of a distribution is installed here; one for another Python or system is not."""
    try:
        importlib.metadata.distribution(re.split(r"[^A-Za-z0-9_.-]", requirement)[0])
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def libraries(binaries: set[Path]) -> dict[str, Path]:
    """Return the shared libraries that the binaries load: name -> path; the loader under its whole path."""
    output = subprocess.run(["ldd", *map(str, sorted(binaries))], capture_output=True, text=True, check=False).stdout
    found = {name: Path(path) for name, path in re.findall(r"^\s+(\S+) => (/\S+)", output, re.MULTILINE)}
    return {**found, **{path: Path(path) for path in re.findall(r"^\s+(/\S+) \(0x", output, re.MULTILINE)}}


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    """Add a file, readable for every user whatever its mode is here."""
    info = tar.gettarinfo(str(path.resolve()), name)
    info.type, info.linkname = tarfile.REGTYPE, ""
    info.size = path.stat().st_size
    info.mode = 0o755 if path.stat().st_mode & 0o111 else 0o644
    info.uid = info.gid = 0
    with path.open("rb") as file:
        tar.addfile(info, file)
