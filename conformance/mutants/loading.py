"""Makes this process import files of the reference from code that is compiled in memory, and not from the files themselves.

Called in a forked process, before it imports the reference; it cannot be undone there. Nothing is written to disk.
"""

from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

from conformance.mutants.operators import Site, mutate


def load_mutant(site: Site, root: Path) -> None:
    """Make this process import the mutant (`site`) in place of its file; the reference must not be imported yet.

    `root` is the directory of the reference's package. Raises LookupError if the file has no such site.
    """
    path = root / site.file
    load_instead({path: compile(mutate(path.read_text("utf-8"), site), str(path), "exec", dont_inherit=True)})


def load_instead(codes: Mapping[Path, CodeType]) -> None:
    """Make this process import these files from code objects, and all others as before; what is imported already stays as it is.

    Replaces `SourceFileLoader.get_code` in this process for good.
    """
    by_path = {str(path): code for path, code in codes.items()}
    original = SourceFileLoader.get_code

    def get_code(loader: SourceFileLoader, name: str) -> CodeType | None:
        """Return the code of a module: the given one for a file in `codes`, else that of its own file."""
        return by_path.get(loader.path) or original(loader, name)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]
