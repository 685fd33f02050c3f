"""Pages that are made from the code are those of the code."""

from conformance.requirements.catalogue import catalogue
from conformance.requirements.page import page
from tests.docs.pages import ROOT


def test_the_page_of_requirements_is_that_of_the_catalogue():
    written = (ROOT / "docs" / "requirements.md").read_text("utf-8")
    assert written == page(catalogue()), "write it anew: conformance requirements --write docs/requirements.md"
