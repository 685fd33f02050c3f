"""A conformance harness for mail transport high availability: it proves that a server loses no mail.

Scenarios (YAML) are expanded into cells, run against nodes behind recording links, and judged from the history
that was written.
Data flows one way: scenarios -> run -> history -> judge -> results -> spark and report. `ARCHITECTURE.md` shows how,
`docs/glossary.md` has the terms.

PYTEST_DONT_REWRITE: the command line imports the package before pytest could rewrite its assertions.
"""

__version__ = "0.2.0"

PROJECT_URL = "https://smtp-conformance.example/"
"""The address of the project; an example until there is one. Ids of the published schemas begin with it."""
