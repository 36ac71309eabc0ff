"""``python -m tests.medium --count 500``: ask random questions of 30 to 400 nodes.

There is no oracle. Each question is asked in two ways, and some like it are asked: with other
names, cut down to what its plan uses, with fewer gangs, nodes or rules. Every plan of any of them
is judged under all of them, and where it breaks no rule, no bound and no proof may deny it.

``python -m tests.medium --large --count 150 --seconds 3`` asks larger ones of the whole pipeline
(see `large`).
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from tests.medium.ask import Verdict, ask
from tests.medium.large import Clock, measure, way_of
from tests.medium.question import Drawn, draw
from tests.medium.tastes import Has


def main() -> None:
    """Ends with status 1 when there was a fault."""
    parser = argparse.ArgumentParser(prog="tests.medium", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="how many (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="other questions (default 0)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first (default 0)")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each search (default 2)")
    parser.add_argument(
        "--processor",
        action="store_true",
        help="count seconds of the processor, where others use the machine too",
    )
    parser.add_argument("--large", action="store_true", help="500 to 4,000 nodes, see `large`")
    options = parser.parse_args()
    if options.large:
        _ask_large(options)
        return
    if options.processor:
        time.monotonic = time.process_time
    figures = _Figures()
    for number in range(options.first, options.first + options.count):
        drawn = draw(options.seed, number)
        verdict = ask(random.Random(number), drawn, options.seconds)
        figures.add(drawn, verdict)
        print(f"{options.seed}/{number}: {_line(drawn, verdict)}", flush=True)
        for fault in verdict.faults:
            print(f"  FAULT: {fault}", flush=True)
    print(figures.text())
    if figures.faults:
        sys.exit(1)


def _ask_large(options: argparse.Namespace) -> None:
    clock = Clock()
    time.monotonic = clock
    faults = replaced = 0
    late: dict[str, float] = {}
    for number in range(options.first, options.first + options.count):
        drawn = draw(options.seed, number, large=True)
        measured = measure(drawn, options.seconds, clock, way=way_of(number))
        print(f"{options.seed}/{number}: {_about(drawn)}\n  {measured}", flush=True)
        for fault in measured.faults:
            print(f"  FAULT: {fault}", flush=True)
        faults += bool(measured.faults)
        replaced += measured.replaced
        for name, seconds in measured.late.items():
            late[name] = max(late.get(name, 0.0), seconds)
    for name, seconds in late.items():
        print(f"{name:24}{seconds:6.2f} s late at most")
    print(f"solver processes replaced: {replaced}\nfaults: {faults}")
    if faults:
        sys.exit(1)


def _about(drawn: Drawn) -> str:
    return (
        f"{len(drawn.snapshot.nodes)} nodes, {len(drawn.snapshot.gangs)} gangs, "
        f"{drawn.policy.eviction.value}; "
        f"{' '.join(sorted(has.name.lower() for has in drawn.taste.has))}"
    )


def _line(drawn: Drawn, verdict: Verdict) -> str:
    gaps = {tier: gap if gap is None else round(gap, 4) for tier, gap in verdict.gaps.items()}
    return (
        f"{len(drawn.snapshot.nodes)} nodes, {len(drawn.snapshot.gangs)} gangs, "
        f"{drawn.policy.eviction.value}, {verdict.witnesses} witnesses, "
        f"{f'gaps {gaps}' if gaps else 'proven'}"
        f"{f', worse by {verdict.worse}' if verdict.worse else ''}; "
        f"{' '.join(sorted(has.name.lower() for has in drawn.taste.has))}"
    )


class _Figures:
    """How many were proven of the questions in which something occurs, and what is open first."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.proven: Counter[str] = Counter()
        self.open: Counter[str] = Counter()
        self.faults = 0

    def add(self, drawn: Drawn, verdict: Verdict) -> None:
        """Count a question."""
        names = [*(has.name for has in drawn.taste.has), drawn.policy.eviction.value, "all"]
        self.asked.update(names)
        self.proven.update(names if verdict.proven else ())
        self.open.update(list(verdict.gaps)[:1])
        self.faults += bool(verdict.faults)

    def text(self) -> str:
        """A line for each that may occur, and for all."""
        evictions = sorted(self.asked.keys() - {has.name for has in Has} - {"all"})
        names = [*(has.name for has in Has), *evictions, "all"]
        lines = [f"{n.lower():24}{self.asked[n]:6}{self.proven[n]:6} proven" for n in names]
        return "\n".join([*lines, f"open first: {dict(self.open)}", f"faults: {self.faults}"])


if __name__ == "__main__":
    main()
