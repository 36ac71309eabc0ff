"""``python -m tests.questions --count 20000``: ask many random questions with all rules at once.

Each is answered by the engine and by the oracle that tries every plan. A fault is a broken rule,
a value that is not what the plan is worth, or a bound or proof that the optimum refutes.
"""

from __future__ import annotations

import argparse
import pickle
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from tests.questions.ask import Verdict, ask_all
from tests.questions.everything import draw
from tests.questions.figures import Figures

#: Questions that a process asks before it reports.
AT_ONCE = 20


def main() -> None:
    """Ends with status 1 when there was a fault."""
    parser = argparse.ArgumentParser(prog="tests.questions", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many (default 1000)")
    parser.add_argument("--seed", type=int, default=0, help="other questions (default 0)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (default 0)")
    parser.add_argument("--processes", type=int, default=1, help="at once (default 1)")
    parser.add_argument(
        "--folder", type=Path, default=Path("faults"), help="where faults go (default ./faults)"
    )
    options = parser.parse_args()
    begun = time.monotonic()
    numbers = range(options.first, options.first + options.count)
    figures = Figures()
    for verdict in _verdicts(options.seed, numbers, options.processes):
        figures.add(verdict)
        if verdict.fault:
            _save(options.folder, options.seed, verdict)
        if figures.asked % 1000 == 0:
            print(figures.line(), flush=True)
    print("\n".join(figures.lines()))
    print(f"{time.monotonic() - begun:.0f} s by the clock")
    if figures.faults:
        sys.exit(1)


def _verdicts(seed: int, numbers: range, processes: int) -> Iterator[Verdict]:
    parts = [numbers[i : i + AT_ONCE] for i in range(0, len(numbers), AT_ONCE)]
    if processes == 1:
        for part in parts:
            yield from ask_all(seed, part)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for verdicts in pool.map(ask_all, [seed] * len(parts), parts):
            yield from verdicts


def _save(folder: Path, seed: int, verdict: Verdict) -> None:
    """The question and what was wrong; also said at once."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"seed-{seed}-question-{verdict.number}.pickle"
    file.write_bytes(pickle.dumps(draw(seed, verdict.number, wide=True)))
    print(f"fault in {file}\n{verdict.fault}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
