"""Rendering of HTML pages from jinja2 templates, safe for texts that a server under test wrote.

All pages of reports are made here. Every string is made printable (`escaping.visible`) and HTML-escaped. Scripts are inline,
and the Content-Security-Policy allows only them, by their hash; so text that becomes markup by mistake still cannot run a
script.
"""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from conformance.report.escaping import visible
from conformance.report.event_text import format_moment, listed_message_ids, rounded_duration, without_message_ids
from conformance.results.atomic_write import write_atomically
from conformance.verdicts.outcome import OUTCOME_DISPLAY

_TEMPLATES = Path(__file__).with_name("templates")
STYLES = ("palette.css", "diagram.css", "page.css")
"""The files that make up the style sheet of a page, in this order."""


def render_page(template: str, *, script: str = "", shared: str = "", **context: Any) -> str:
    """Return an HTML page: the template in the common frame, with `page.js` and, if it is named, `script` inline.

    `shared` is the relative path of the folder that `write_style_sheet` wrote into; with '' the style sheet is inline and
    the page self-contained. The Content-Security-Policy allows only that style, those scripts by their SHA-256, and images
    of the same origin. `context` has the template's variables. Raises jinja2.TemplateError.
    """
    style, code = _style_sheet(), template_text("page.js") + (template_text(script) if script else "")
    policy = "; ".join(
        [
            "default-src 'none'",
            "style-src 'self'" if shared else f"style-src '{_csp_hash(style)}'",
            f"script-src '{_csp_hash(code)}'",
            "img-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    frame = {
        "style": "" if shared else Markup(style),  # noqa: S704  # our own files
        "sheet": f"{shared}/{_style_sheet_name()}" if shared else "",
        "script": Markup(code),  # noqa: S704
        "policy": Markup(policy),  # noqa: S704
    }
    return template_environment().get_template(template).render(frame=frame, **context)


def write_style_sheet(folder: Path) -> None:
    """Write the style sheet into a folder, which is created if missing; the file's name contains the content's hash."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _style_sheet_name(), _style_sheet().encode())


def _style_sheet() -> str:
    """Return the text of the style sheet, joined from the files in `STYLES`."""
    return "".join(map(template_text, STYLES))


def _style_sheet_name() -> str:
    """Return the file name of the style sheet, which changes with its content."""
    return f"style-{hashlib.sha256(_style_sheet().encode()).hexdigest()[:12]}.css"


@lru_cache(maxsize=1)
def template_environment() -> Environment:
    """Return the one jinja2 environment: undefined variables are errors, every string is made printable and escaped."""
    jinja = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_make_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    jinja.filters.update(
        moment=format_moment,
        duration=rounded_duration,
        without_message_ids=without_message_ids,
        message_ids=listed_message_ids,
    )
    jinja.globals.update(signs={str(outcome): display.sign for outcome, display in OUTCOME_DISPLAY.items()})
    return jinja


def _make_visible(value: object) -> object:
    """Return a value for a template: a string becomes printable unless it is markup already."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=8)
def template_text(name: str) -> str:
    """Return the text of a style sheet or script in the folder `templates`, cached. Raises OSError."""
    return (_TEMPLATES / name).read_text("utf-8")


def _csp_hash(text: str) -> str:
    """Return the SHA-256 of a text in the form of a Content-Security-Policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
