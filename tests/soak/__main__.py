"""``python -m tests.soak --seconds 600``: soak a server and print what came of it.

``--shapes 10000`` asks that many questions that grow without end instead, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.soak.soak import ask_shapes, soak


def main() -> None:
    """Ends with status 1 when the server died, was wrong, or was late."""
    parser = argparse.ArgumentParser(prog="tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default 60)")
    parser.add_argument(
        "--shapes", type=int, help="so many growing questions instead (10000 take most of an hour)"
    )
    parser.add_argument("--seed", type=int, default=0, help="other questions (default 0)")
    parser.add_argument(
        "--slack", type=float, default=0.0, help="seconds that answers may be later (default 0)"
    )
    parser.add_argument("--folder", type=Path, help="keeps the server's log there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.shapes:
            figures = ask_shapes(
                folder, count=options.shapes, seed=options.seed, slack=options.slack
            )
        else:
            figures = soak(folder, seconds=options.seconds, seed=options.seed, slack=options.slack)
    print("\n".join(figures.lines()))
    if figures.faults or figures.deaths or figures.late:
        sys.exit(1)


if __name__ == "__main__":
    main()
