"""The pytest plugin that is registered where the package is installed: it adds one ini key, `conformance`.

`conformance = true` in an ini file loads `conformance.plugin`; `conformance run` loads that without the key. Nothing else is
imported here, since every pytest of the environment would wait for it.
"""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the key, so that `--strict-config` accepts it in every project."""
    parser.addini("conformance", "collect and run *.scenario.yaml files (smtp-conformance)", type="bool", default=False)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Load the plugin if the key is set, before pytest parses its options."""
    if early_config.getini("conformance"):
        early_config.pluginmanager.import_plugin("conformance.plugin")
