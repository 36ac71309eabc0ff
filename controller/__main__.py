"""``placement-controller``: reads the settings, runs, and shuts down on a signal. On SIGTERM it
finishes the gang that is being bound, reports what is known, and gives up the lease, so that the
next replica begins at once.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from pathlib import Path

import yaml
from pydantic import ValidationError

from controller.composition import running
from controller.runtime import logs
from controller.runtime.steps import StepObserver, ignored
from controller.settings import Settings, faults
from placement import __version__
from placement.cluster import ApiError

logger = logging.getLogger("controller")

#: Seconds between two checks whether a thread has failed.
_POLL = 0.2


def main(on_step: StepObserver = ignored) -> None:
    """Runs until SIGTERM or SIGINT; `on_step` is told of every step."""
    settings = _settings(_arguments())
    logs.configure(settings.log_format, settings.log_level)
    # The log says by itself that no solver is reached, in the format that was asked for.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    logger.info(
        "version %s",
        __version__,
        extra={
            "mode": settings.mode,
            "scheduler_name": settings.scheduler_name,
            "service": settings.service or "within",
            "eviction": settings.eviction,
        },
    )
    told_to_stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told_to_stop.set())
    try:
        with running(settings, on_step=on_step) as controller:
            while not (told_to_stop.wait(_POLL) or controller.failed.is_set()):
                pass
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, signal.SIG_DFL)
            logger.info("stopping")
        if controller.failed.is_set():
            sys.exit(1)
    except (ApiError, OSError, RuntimeError) as error:
        logger.critical("%s", error)
        sys.exit(1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="placement-controller",
        description="Schedules PodGangs by asking the placement service. Settings are"
        " environment variables with PLACEMENT_CONTROLLER_ in front, or keys of the file: "
        + ", ".join(Settings.model_fields)
        + ".",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="settings as YAML")
    version = f"placement-controller {__version__}"
    parser.add_argument("--version", action="version", version=version)
    return parser.parse_args()


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        return Settings.load(arguments.config)
    except (ValueError, OSError, yaml.YAMLError) as error:
        problems = faults(error) if isinstance(error, ValidationError) else error
        sys.exit(f"placement-controller: the settings are wrong\n{problems}")


if __name__ == "__main__":
    main()
