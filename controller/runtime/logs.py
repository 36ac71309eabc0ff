"""Log lines with fields: what a line is about (gang, pod, kind) is always in a field, too."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

#: What every record has; anything else was given with `extra`.
_USUAL: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(form: Literal["text", "json"], level: str) -> None:
    """Log lines to standard error, in the chosen form."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # It logs every connection; the controller itself logs what matters.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A line for people, fields at its end. What users wrote, such as the name of a gang, neither
    ends a line nor steers a terminal.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:
        extra = " ".join(f"{key}={value}" for key, value in fields(record).items())
        line = super().formatMessage(record)
        return _printable(f"{line}  {extra}" if extra else line)


def _printable(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given with `extra`."""
    return {key: value for key, value in vars(record).items() if key not in _USUAL}
