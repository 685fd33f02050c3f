"""What is said when the harness itself breaks: a sentence with the place, or with what the machine has run out of."""

import traceback
from pathlib import Path

from conformance.shortage import shortage_of

_HERE = Path(__file__).parent


def breakdown(error: BaseException) -> str:
    """Return a sentence on an exception that nobody expected: what it says, and where the harness raised it."""
    said = " ".join(traceback.format_exception_only(error)[-1].split())
    if words := shortage_of(error):
        return f"the machine ran out of something: {words} ({said})"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(_HERE)] or frames
    place = f" ({Path(own[-1].filename).name}, line {own[-1].lineno}, in {own[-1].name})" if own else ""
    return f"the harness itself broke: {said}{place}"
