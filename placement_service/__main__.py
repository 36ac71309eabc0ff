"""``placement-service``: settings, logging, serve until told to stop."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from importlib import metadata

from pydantic import ValidationError

from placement_service.api.settings import Settings, faults, unknown_variables

logger = logging.getLogger("placement_service")

#: Seconds between two checks whether it was told to stop: a signal that another thread
#: takes, as when the process stood still, does not end the wait of the main one.
_GLANCE = 0.2


def main() -> None:
    """Serves until SIGTERM or SIGINT, then drains; a second signal cuts it short."""
    parser = argparse.ArgumentParser(
        prog="placement-service",
        description="Serves placement.v1.PlacementService over gRPC. Settings are environment"
        " variables with PLACEMENT_ in front: "
        + ", ".join(f"PLACEMENT_{name.upper()}" for name in Settings.model_fields)
        + ".",
    )
    version = metadata.version("placement-service")
    parser.add_argument("--version", action="version", version=f"placement-service {version}")
    parser.parse_args()
    wrong = list(unknown_variables(os.environ))
    try:
        settings = Settings()
    except ValidationError as error:
        wrong.append(faults(error))
    if wrong:
        sys.exit("placement-service: the settings are wrong\n" + "\n".join(wrong))
    configure_logging(settings)

    # What clients do to their own connections is not worth a log line. gRPC reads this when it is
    # loaded.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    from placement_service.api.server import make_server

    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    server = make_server(settings)
    try:
        server.start()
    except (OSError, RuntimeError) as error:
        server.stop(0)
        logger.critical("%s", error)
        sys.exit(1)
    while not told_to_stop.wait(_GLANCE):
        pass

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    logger.info("draining for at most %g s", settings.drain_grace)
    server.stop(settings.drain_grace)


def configure_logging(settings: Settings) -> None:
    """Log lines to standard error, in the chosen format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter()
        if settings.log_format == "json"
        else logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    )
    logging.basicConfig(level=settings.log_level, handlers=[handler])


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "severity": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


if __name__ == "__main__":
    main()
