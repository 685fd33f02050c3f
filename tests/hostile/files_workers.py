"""Reads bad files in processes that are bounded in memory and time: what breaks or hangs one harms no other."""

import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from conformance import paths
from tests.hostile.files_kinds import Kind, make
from tests.hostile.forks import run_command

SECONDS = 20
"""Seconds of CPU that one file may take, by SIGPROF. The slowest file is reported in real time, beside others: an upper bound."""
HANGING = 200
"""Real seconds after which a file hangs, by SIGALRM."""
MEGABYTES = 768
"""Megabytes that reading files may take, beside what the process has when it begins."""
OF_A_COMMAND = 90, 4096
"""Seconds and megabytes of address space of a whole command."""
_OUTPUT = 200_000
_BROKEN = ("Traceback (most recent call last)", "the harness itself broke", "INTERNALERROR", "ran out of something")


@dataclass(slots=True)
class Tally:
    """What came of the files of one kind so far."""

    files: int = 0
    good: int = 0
    refused: int = 0
    slowest: float = 0.0
    megabytes: float = 0.0
    defects: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, object]:
        """Return it for the state file."""
        return asdict(self)


def read_batch(kind: Kind, seeds: Sequence[int], folder: Path, examples: Sequence[bytes], tally: Tally) -> None:
    """Read the files of some seeds in a forked process; after one that it did not survive in another."""
    left = list(seeds)
    while left:
        done = _fork(kind, left, folder, examples, tally)
        left = left[done:]


def _fork(kind: Kind, seeds: Sequence[int], folder: Path, examples: Sequence[bytes], tally: Tally) -> int:
    """Return how many seeds are done: all, or as many as came to their end and the one that did not."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        _bounded_reading(kind, seeds, folder, examples, into)
    os.close(into)
    received = b""
    while True:
        ready, _, _ = select.select([out], [], [], HANGING + 30)
        octets = os.read(out, 65536) if ready else b""
        if not octets:
            break
        received += octets
    os.close(out)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = received.decode("utf-8", "replace").splitlines()
    for line in lines:
        _, seconds, megabytes, result = line.split(" ", 3)
        _count(tally, kind, result, float(seconds), float(megabytes), int(line.split(" ", 1)[0]))
    if len(lines) < len(seeds):
        seed = seeds[len(lines)]
        words = f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"exit {status}"
        _count(
            tally,
            kind,
            f"DEFECT {words} (SIGPROF is {SECONDS} s of CPU, SIGALRM {HANGING} s)",
            float(SECONDS),
            0.0,
            seed,
        )
        return len(lines) + 1
    return len(seeds)


def _count(tally: Tally, kind: Kind, result: str, seconds: float, megabytes: float, seed: int) -> None:
    tally.files += 1
    tally.slowest = max(tally.slowest, round(seconds, 2))
    tally.megabytes = max(tally.megabytes, megabytes)
    if result in ("good", "refused"):
        setattr(tally, result, getattr(tally, result) + 1)
    else:
        tally.defects.append(f"{kind.name}:{seed}: {result.removeprefix('DEFECT ')}")


def _bounded_reading(kind: Kind, seeds: Sequence[int], folder: Path, examples: Sequence[bytes], into: int) -> None:
    """Read the files one after another and write a line for each; never returns."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEGABYTES * 2**20,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 2**20,) * 2)
    for seed in seeds:
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.setitimer(signal.ITIMER_REAL, HANGING)
        began = time.monotonic()
        result = one_read(kind, seed, folder, examples)
        seconds = time.monotonic() - began
        more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before
        os.write(into, f"{seed} {seconds:.3f} {more:.0f} {result}\n".encode("utf-8", "replace"))
    os._exit(0)


def one_read(kind: Kind, seed: int, folder: Path, examples: Sequence[bytes]) -> str:
    """Return "good" or "refused", or which exception came and where."""
    path = make(kind, seed, folder, examples)
    try:
        return kind.read(path)
    except BaseException as error:  # noqa: BLE001  # whatever comes is what is looked for
        frames = [f for f in traceback.extract_tb(error.__traceback__) if "/conformance/" in f.filename]
        place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "?"
        return f"DEFECT {type(error).__name__} at {place}: {' '.join(ascii(str(error)).split())[:200]}"


def run_one(kind: Kind, seed: int, folder: Path, examples: Sequence[bytes], tally: Tally) -> None:
    """Give the file of a seed to the command line, and hold exit code and output to what is documented."""
    make(kind, seed, folder, examples)
    words = kind.words(folder)
    output = folder / "output.txt"
    began = time.monotonic()
    seconds, megabytes = OF_A_COMMAND

    def first() -> None:
        if kind.name == "topology":
            paths._PACKAGE = folder / "conformance"

    plain = {"NO_COLOR": "1", "COLUMNS": "200"}
    status, used = run_command(
        words, folder, output, seconds=seconds, environment=plain, megabytes=megabytes, first=first
    )
    if os.WIFSIGNALED(status):
        problem = f"ended by signal {os.WTERMSIG(status)} (SIGALRM: it had not ended after {OF_A_COMMAND[0]} s)"
    else:
        problem = _judge(kind, os.WEXITSTATUS(status), output.read_bytes().decode("utf-8", "replace"))
    result = f"DEFECT {problem}" if problem else "good" if status == 0 else "refused"
    _count(tally, kind, result, time.monotonic() - began, round(used.ru_maxrss / 1024), seed)


def _judge(kind: Kind, code: int, output: str) -> str:
    if broken := [word for word in _BROKEN if word in output]:
        at = output.index(broken[0])
        return f"exit {code}, says {broken[0]!r}: {' '.join(output[at : at + 300].split())}"
    if code not in kind.exits:
        return f"exit {code}: {' '.join(output[-300:].split())}"
    if len(output) > _OUTPUT:
        return f"{len(output)} characters of output"
    return "" if output.strip() or code == 0 else f"exit {code} without a word"
