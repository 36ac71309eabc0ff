"""`placementctl`, also as `python -m placement.cli`."""

from __future__ import annotations

import os
import sys


def run() -> int:
    """Run the command and end the process."""
    return end(ask())


def end(status: int) -> int:
    """End the process at once, or return the status where something could not be written: then the
    end of the interpreter says so.

    That waits for locks of gRPC, and a thread that it has stopped may hold them for ever. A service
    that was just starting would complain, too.
    """
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return status
    os._exit(status)


def ask() -> int:
    """Run the command; says what to install where only the bare client is."""
    # gRPC reports each connection that closes, and reads this when it is loaded. Standard error
    # is for what the user has to know.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        from placement.cli.main import main
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "placement":
            raise
        print(
            f"placementctl: {error.name} is not installed;"
            " the command needs placement-client[cli];"
            " in a checkout: pip install './clients/python[cli]'",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        # The imports take a while, too.
        print("placementctl: interrupted; there is no answer", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
