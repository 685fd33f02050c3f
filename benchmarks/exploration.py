"""Measures random plans a second, and where their time goes.

A plan is run two or three times: without faults, with faults, and once more where faults did not fire. Then it is judged, and
its states and sometimes properties are counted. Printed are plans a second of real time with `--jobs` processes, CPU
seconds a plan, and the same for each part in one process.

    python -m benchmarks.exploration [--plans 100] [--seed 1] [--jobs 2]
"""

import argparse
import resource
import time

from conformance.candidates.assignment import Assignment
from conformance.candidates.description import REFERENCE
from conformance.explore.campaign import run_plans
from conformance.explore.random_plans import RandomPlans
from conformance.explore.trial import judge_plan, observe
from conformance.run.settings import Settings

SETTINGS = Settings(clock="virtual", seed=1, should="fail")
REFERENCE_ALONE = Assignment(REFERENCE)
SAMPLE = 20
"""Plans of which the parts are measured."""


def main() -> None:
    """Print the measurements."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plans", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    plans = RandomPlans(options.seed, options.plans, REFERENCE_ALONE, SETTINGS)
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = sum(1 for _ in run_plans(plans, REFERENCE_ALONE, SETTINGS, options.jobs))
    seconds = time.monotonic() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{done} plans with {options.jobs} processes: {done / seconds:.1f} a second, {1000 * cpu / done:.0f} ms of CPU each"
    )
    print(f"at full use of {options.jobs} cores: {options.jobs * done / cpu:.1f} a second")
    parts = dict.fromkeys(("run", "judge", "observe"), 0.0)
    for number in range(min(SAMPLE, options.plans)):
        t = [time.process_time()]
        recorded = plans.record(number)
        t.append(time.process_time())
        run = judge_plan(recorded, REFERENCE_ALONE, SETTINGS)
        t.append(time.process_time())
        observe(run, REFERENCE_ALONE)
        t.append(time.process_time())
        for name, since, until in zip(parts, t, t[1:], strict=False):
            parts[name] += until - since
    for name, took in parts.items():
        print(f"{name:8} {1000 * took / min(SAMPLE, options.plans):5.0f} ms of CPU a plan")


if __name__ == "__main__":
    main()
