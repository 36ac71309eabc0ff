"""Large messages in a few words, for notebooks and logs: their `repr` says how much is in them.

`str` still gives the whole text.
"""

from __future__ import annotations

from google.protobuf.message import Message

#: Longest text of one field.
_LONGEST = 40


def short_repr(message: Message) -> str:
    """For example ``<Placement: revision '7', 126 bindings, 20 gangs>``."""
    parts = []
    for field, value in message.ListFields():
        if hasattr(value, "__len__") and not isinstance(value, str | bytes):
            parts.append(f"{len(value)} {field.name}")
        elif isinstance(value, Message):
            text = " ".join(str(value).split())
            parts.append(field.name if len(text) > _LONGEST else f"{field.name} {{{text}}}")
        else:
            text = repr(value)
            parts.append(f"{field.name} {text if len(text) <= _LONGEST else text[:37] + '...'}")
    return f"<{type(message).__name__}: {', '.join(parts) or 'empty'}>"
