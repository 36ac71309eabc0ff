"""The colours of gangs, the same in the terminal and on the page."""

from __future__ import annotations

from colorsys import hls_to_rgb

#: They can be told apart side by side, and dark letters can be read on each of them.
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


#: Steps of this angle keep colours as far apart as possible, however many there are.
_GOLDEN_TURN = 0.618034

_LIGHTNESS = (0.70, 0.80, 0.62)


def colour(number: int) -> str:
    """The colour of the gang with this number; no two are the same."""
    if number < len(PALETTE):
        return PALETTE[number]
    red, green, blue = hls_to_rgb(number * _GOLDEN_TURN % 1, _LIGHTNESS[number % 3], 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
