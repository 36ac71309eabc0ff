"""Names of columns of room that some gangs share: what is free and what some victims leave."""

from __future__ import annotations

from typing import Final

_FOR_SHARING: Final = " for sharing "


def for_sharing(column: str, sharing: int) -> str:
    """The column with the room of another that the gangs of a sharing, by its number, may use."""
    return f"{column}{_FOR_SHARING}{sharing}"


def whole_column(column: str) -> str:
    """The column of which a sharing may use a part; any other column is its own."""
    return column.partition(_FOR_SHARING)[0]
