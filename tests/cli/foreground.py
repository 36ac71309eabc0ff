"""The command as a process that Ctrl-C reaches."""

from __future__ import annotations

import sys
from typing import Final

#: In the background a shell has its children, and theirs, ignore interrupts.
IN_THE_FOREGROUND: Final = [
    sys.executable,
    "-c",
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from placement.cli.__main__ import run; sys.exit(run())",
]
