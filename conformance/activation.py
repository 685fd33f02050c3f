"""What the installed package adds to everybody's pytest: one ini key, and nothing else until that key is set.

`conformance = true` in an ini file loads `conformance.plugin`; `conformance run` loads it by itself. Nothing heavy is
imported here, since every pytest of the environment pays for it.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the key, so that `--strict-config` knows it everywhere."""
    parser.addini("conformance", "collect and run *.scenario.yaml files (smtp-conformance)", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the plugin where the key is set; its options are parsed after this hook."""
    if early_config.getini("conformance"):
        early_config.pluginmanager.import_plugin("conformance.plugin")
