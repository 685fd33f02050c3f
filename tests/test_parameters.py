"""A transport parameter is declared once; what the judge and the reference state of their own agrees with it."""

import ast

from conformance.parameters import DEFAULTS, LISTENER_LIMITS, effective_parameters
from conformance.reference.config import DEFAULT_LIMITS, EDGE_LIMITS, Transport
from conformance.trace.parameters import DEFAULTS as JUDGED
from conformance.trace.parameters import LISTENER_LIMITS as JUDGED_LIMITS
from tests.docs.pages import ROOT

PACKAGE = ROOT / "conformance"


def test_the_defaults_for_judging_are_the_documented_ones():
    assert {name: DEFAULTS.get(name) for name in JUDGED} == JUDGED
    assert JUDGED_LIMITS == LISTENER_LIMITS


def test_the_reference_has_the_documented_defaults():
    assert Transport().model_dump() == DEFAULTS
    assert (DEFAULT_LIMITS, EDGE_LIMITS) == (LISTENER_LIMITS[""], LISTENER_LIMITS["edge"])


def test_judging_has_a_default_of_each_parameter_that_it_names():
    named = set()
    for folder in ("judge", "model", "trace"):
        for path in (PACKAGE / folder).rglob("*.py"):
            nodes = ast.walk(ast.parse(path.read_text("utf-8")))
            named |= {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert set() < named & set(DEFAULTS) <= set(JUDGED)


def test_defaults_in_mappings_and_fields_stand_in_these_modules_only():
    """A name of a parameter beside a plain value: in a mapping, or as a field."""
    stated = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Dict):
                pairs = [(key, value) for key, value in zip(node.keys, node.values, strict=True)]
                names = [
                    key.value
                    for key, value in pairs
                    if isinstance(key, ast.Constant) and isinstance(value, ast.Constant | ast.BinOp)
                ]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                names = [node.target.id]
            else:
                continue
            stated |= {path.relative_to(PACKAGE).as_posix() for name in names if name in DEFAULTS}
    # Two modules of defects have other values on purpose, and exploration has its own: values that it draws.
    assert stated == {
        "explore/grammar.py",
        "explore/scenes.py",
        "reference/defects/defaults.py",
        "parameters.py",
        "trace/parameters.py",
        "reference/config.py",
        "reference/defects/configuration.py",
    }


def test_the_parameters_of_a_server_override_those_of_the_topology():
    effective = effective_parameters({"MessageRetryInterval": 5, "MaxMessageSize": 2048}, {"MessageRetryInterval": 7})
    assert {**DEFAULTS, "MessageRetryInterval": 7, "MaxMessageSize": 2048} == effective
