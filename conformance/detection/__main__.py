"""Measures how many random plans catch each defect, and writes the page: `python -m conformance.detection PAGE [options]`."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import typer

from conformance.detection.campaign import (
    MOST_PLANS,
    MOST_PLANS_OF_A_BIAS,
    Measurement,
    Part,
    run_trials,
    visible_defects,
)
from conformance.detection.page import page
from conformance.detection.store import Store
from conformance.execute import available_cores
from conformance.forked_process import ProcessDied
from conformance.results.atomic_write import write_atomically
from conformance.results.fingerprints import inputs_sha256
from conformance.scenarios.values import parse_duration

_LINE_EVERY_S = 60
"""Seconds between two lines about the progress."""


def main(arguments: Sequence[str]) -> int:
    """Run the plans that the store (the file of results) lacks, and write the page from all of its results.

    Returns 0, or 2 for an unknown defect or a wrong duration. `arguments` are those of the command line; for other mistakes in
    them argparse raises SystemExit. Blocks. Results are appended to the store as they come, and a line about the progress is
    printed each minute. An interrupt (Ctrl-C) ends the measurement, and the page is written all the same.
    """
    parser = argparse.ArgumentParser(
        prog="python -m conformance.detection", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("page", type=Path, help="the file of the page (Markdown)")
    parser.add_argument(
        "--store", type=Path, default=Path("reports/exploration-table.jsonl"), help="the file of the results"
    )
    parser.add_argument(
        "--defect", action="append", default=[], help="only this one; repeatable; default: all that the model can see"
    )
    parser.add_argument("--plans", type=int, default=MOST_PLANS, help="the most plans of each defect")
    parser.add_argument(
        "--plans-of-a-bias",
        type=int,
        default=MOST_PLANS_OF_A_BIAS,
        help="the most plans of each series of the comparison",
    )
    parser.add_argument(
        "--part",
        choices=get_args(Part),
        default="both",
        help="measure the table, or the comparison of biases; default: both",
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the plans, and of the sample of defects")
    parser.add_argument("--for", dest="duration", help="begin no plan after this time: 30m, 8h")
    parser.add_argument(
        "-n", dest="jobs", type=int, default=available_cores(), help="how many plans run at the same time"
    )
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        until = began + parse_duration(options.duration) if options.duration is not None else None
        defects = visible_defects(options.defect)
    except ValueError as error:
        typer.echo(error, err=True)
        return 2
    measurement = Measurement(defects, options.seed, options.plans, options.plans_of_a_bias)
    logging.getLogger("mail.log").setLevel(
        logging.ERROR
    )  # aiosmtpd warns at each login that it uses a deprecated name itself
    options.store.parent.mkdir(parents=True, exist_ok=True)
    store = Store.open(options.store, inputs_sha256())
    ran, next_line = 0, began + _LINE_EVERY_S
    try:
        for trial in run_trials(measurement.trials(store, options.part), options.jobs, until):
            store.add([trial])
            ran += 1
            if time.monotonic() >= next_line:
                caught = sum(store.results[series].is_caught for series in measurement.table)
                typer.echo(f"{ran} plans, plan {trial.number}, {caught} of {len(defects)} defects caught")
                next_line += _LINE_EVERY_S
    except KeyboardInterrupt:
        typer.echo("interrupted: what was measured is kept", err=True)
    except ProcessDied as error:
        typer.echo(f"{error}; what was measured is kept, and the same command goes on", err=True)
        return 2
    write_atomically(options.page, page(measurement, store).encode())
    typer.echo(f"{ran} plans in {time.monotonic() - began:.0f} s; {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
