"""Seven weeks of heartbeats in virtual time: what one session costs from its connect to its place in the history.

A next hop is away for 49 days; every two minutes the shadow server asks the primary for discard status, in a session of
its own over real sockets and a recorded link: 35,280 sessions, 317,500 events. Printed are the whole command's wall and CPU
seconds, and CPU milliseconds for each heartbeat, of which the start is a part. The command is to end within 30 s: that is
0.85 ms for each heartbeat.

    python benchmarks/weeks.py [--days 49]

Measured with Python 3.11 on two virtual cores, CPU milliseconds a session:

    in the beginning                                              2.35
    a turn of the loop for what belongs together                  1.5
    no question to the kernel whose answer is known, events that
    are a tenth of the size, what is said again not read again    0.95
    a command obeyed as soon as its line is there, sessions that
    leave no cycles behind, a contact that is one statement       0.77
    from socket to socket without a turn of the loop, the events
    of one moment written together, a database without locks      0.70

The start takes 0.03 more of each. The whole command, 49 days, without other work: 25.9 and 26.0 s, of which 25.8 and
25.9 s CPU; before the last of these steps 28.7 s. A session has two connections with seven messages; one costs 0.21 in
this loop with protocols of three lines. A quarter of what is left is the kernel's, the rest has no peak.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

SCENARIO = Path(__file__).with_suffix(".scenario.yaml")

EVERY = 120.0
"""ShadowHeartbeatFrequency, seconds."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the scenario and print what it took; return 1 unless it passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=49)
    days = parser.parse_args(words).days
    with TemporaryDirectory(prefix="weeks-") as made:
        scenario = Path(made) / SCENARIO.name
        scenario.write_text(SCENARIO.read_text("utf-8").replace("49d", f"{days}d"), "utf-8")
        run = Path(made) / "run"
        command = [sys.executable, "-m", "conformance", "run", str(scenario), "--candidate", "reference"]
        began, before = time.monotonic(), _cpu()
        ran = subprocess.run([*command, "--run-dir", str(run), "-q"], check=False, stdout=subprocess.PIPE, text=True)
        wall, cpu = time.monotonic() - began, _cpu() - before
        if ran.returncode != 0:
            print(ran.stdout)
            return 1
        rate = json.loads((run / "footer.json").read_text("utf-8"))["simulated_per_wall_second"]
    heartbeats = days * 86400 / EVERY
    print(f"{days} days: {wall:.1f} s wall, {cpu:.1f} s CPU, {cpu / heartbeats * 1000:.2f} ms CPU for each heartbeat")
    print(f"{rate:,.0f} simulated seconds in each")
    return 0


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


if __name__ == "__main__":
    sys.exit(main())
