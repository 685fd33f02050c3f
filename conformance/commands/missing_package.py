"""The message of a command that needs a package of one of the optional extras."""

import typer


def report_missing_package(package: str | None, extra: str) -> int:
    """Print which package is missing and how to install the extra that brings it; return the exit code 2."""
    typer.echo(f"{package} is missing: pip install 'smtp-conformance[{extra}]'", err=True)
    return 2
