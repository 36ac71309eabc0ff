"""The colours of gangs, the same in the terminal and on the page."""

from __future__ import annotations

#: Told apart side by side, and dark letters can be read on each of them.
PALETTE = (
    "#5fafff",
    "#ffaf5f",
    "#87d787",
    "#ff87d7",
    "#d7d75f",
    "#af87ff",
    "#5fd7d7",
    "#ff8787",
    "#afd75f",
    "#d7af87",
    "#87afd7",
    "#d787af",
)

#: Letters on a colour of the palette.
INK = "#101418"


def colour(number: int) -> str:
    """The colour of the gang with this number; they come again after a while."""
    return PALETTE[number % len(PALETTE)]
