"""What a name that nobody knows may have meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str], *, prefix: str = "") -> str:
    """The end of a message about an unknown name: a question for the known one that is nearest,
    with what stands before all of them; empty where none is near.
    """
    names = sorted(known)
    # Labels and gangs are often called by what follows the slash.
    near = [one for one in names if one.endswith(f"/{name}")]
    near = near or get_close_matches(name, names, n=1)
    return f"; did you mean {prefix}{near[0]}?" if near else ""
