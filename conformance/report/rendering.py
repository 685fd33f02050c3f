"""Renders pages: autoescaped jinja2 templates, hostile text made visible, scripts inline, a strict CSP by hashes."""

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
"""What the style of a page is made of, in this order."""


def render_page(template: str, *, script: str, shared: str = "", **context: Any) -> str:
    """Return a page: the template's body within the common frame, style and script inline.

    With `shared`, the relative address of the folder that `write_shared` wrote into, the style is that folder's, for all pages
    the same; the page must stay where it is then. The Content-Security-Policy allows just that style, that script by its SHA-256,
    and images of the same place; nothing is loaded from anywhere else. Raises jinja2.TemplateError for a fault of the template.
    """
    style, code = _style(), template_text("page.js") + template_text(script)
    policy = "; ".join(
        [
            "default-src 'none'",
            "style-src 'self'" if shared else f"style-src '{_hash(style)}'",
            f"script-src '{_hash(code)}'",
            "img-src 'self'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    frame = {
        "style": "" if shared else Markup(style),  # noqa: S704  # our own files
        "sheet": f"{shared}/{_sheet()}" if shared else "",
        "script": Markup(code),  # noqa: S704
        "policy": Markup(policy),  # noqa: S704
    }
    return template_environment().get_template(template).render(frame=frame, **context)


def write_style_sheet(folder: Path) -> None:
    """Write what pages share into a folder, which is made when it is not there. Another version's has another name."""
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / _sheet(), _style().encode())


def _style() -> str:
    return "".join(map(template_text, STYLES))


def _sheet() -> str:
    return f"style-{hashlib.sha256(_style().encode()).hexdigest()[:12]}.css"


@lru_cache(maxsize=1)
def template_environment() -> Environment:
    """Return the environment of all templates: undefined names are errors, every string is made visible and escaped."""
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        moment=format_moment, span=rounded_duration, label=without_message_ids, message_ids=listed_message_ids
    )
    made.globals.update(glyphs={str(outcome): words.sign for outcome, words in OUTCOME_DISPLAY.items()})
    return made


def _visible(value: object) -> object:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=8)
def template_text(name: str) -> str:
    """Return the text of a style sheet or script of the templates."""
    return (_TEMPLATES / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
