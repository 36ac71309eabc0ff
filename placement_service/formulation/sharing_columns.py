"""Names of columns of room that stand beside those of resources.

Some gangs share what is free and what some victims leave. And where pods hold something else than
they ask for, what they hold is counted. No resource has such a name, nor one that begins so.
"""

from __future__ import annotations

from typing import Final

_FOR_SHARING: Final = "for sharing "
_AS_HELD: Final = "as held"
_OF: Final = " of "


def for_sharing(column: str, sharing: int) -> str:
    """The column with the room of another that the gangs of a sharing, by its number, may use."""
    return f"{_FOR_SHARING}{sharing}{_OF}{column}"


def as_held(column: str, node: str = "") -> str:
    """The column that counts what pods hold of another, on one node alone where that is named."""
    return f"{_AS_HELD}{' on ' if node else ''}{node}{_OF}{column}"


def asked_column(column: str) -> str:
    """The column that counts what is asked for where another counts what is held."""
    return column.partition(_OF)[2] if column.startswith(_AS_HELD) else column


def whole_column(column: str) -> str:
    """The resource of which a column counts a part, or what is held; any other is its own."""
    asked = asked_column(column)
    return asked.partition(_OF)[2] if asked.startswith(_FOR_SHARING) else asked
