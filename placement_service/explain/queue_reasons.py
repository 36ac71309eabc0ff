"""What queues leave to a gang, in words and numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from placement_service.entities.placement import Reason, ReasonCode, ReasonState
from placement_service.entities.queues import GPUS
from placement_service.explain import wording as words
from placement_service.formulation.plan import Plan
from placement_service.formulation.problem import Gang, Problem
from placement_service.formulation.rules.queues import UNITS_PER_GPU, QueueRow


class QueueReasons:
    """The rows of queues on the snapshot and after a plan."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self._rows = problem.queue_rows
        self._taken = [
            sum(
                row.take[problem.gangs[i].demands[d].pod_class] * count
                for i in row.gangs & plan.keys()
                for d, _, count in plan[i]
            )
            for row in self._rows
        ]

    def alone(self, gang: Gang) -> tuple[Reason, ...]:
        """Queues that leave too little to the gang though no other gang waited."""
        return tuple(self._short(gang, ReasonState.EMPTY_QUEUE))

    def beside(self, gang: Gang) -> tuple[Reason, ...]:
        """Queues that leave too little to the gang beside the gangs that are placed."""
        return tuple(self._short(gang, ReasonState.AFTER_PLAN))

    def extras(self, gang: Gang, waiting: dict[int, int]) -> tuple[Reason, ...]:
        """Queues that leave too little for any pod of the waiting demands."""
        found = []
        lefts = {r: self._rows[r].left - self._taken[r] for r in gang.queue_rows}
        for r in _tightest(self._rows, lefts):
            row, left = self._rows[r], lefts[r]
            takes = [row.take[gang.demands[d].pod_class] for d in waiting]
            if takes and min(takes) > max(0, left):
                asked = sum(n * row.take[gang.demands[d].pod_class] for d, n in waiting.items())
                pods = sum(waiting.values())
                head = f"{words.pods(pods)} beyond the minimum {'waits' if pods == 1 else 'wait'}"
                asks = "it asks" if pods == 1 else "they ask"
                text = f"{head}: {_words(row, max(0, left))}, {asks} for {_number(row, asked)}."
                found.append(_reason(row, text, pods, 0, ReasonState.AFTER_PLAN))
        return tuple(found)

    def _short(self, gang: Gang, state: ReasonState) -> Iterator[Reason]:
        after = state is ReasonState.AFTER_PLAN
        lefts = {
            r: max(0, self._rows[r].left - (self._taken[r] if after else 0))
            for r in gang.queue_rows
        }
        for r in _tightest(self._rows, lefts):
            row, left = self._rows[r], lefts[r]
            takes = sorted(_minimum(gang, row))
            if sum(takes) <= left:
                continue
            found, used = 0, 0
            while used + takes[found] <= left:
                used += takes[found]
                found += 1
            beside = "beside the gangs that are placed, " if after and self._taken[r] else ""
            text = f"{beside}{_words(row, left)}, the gang asks for {_number(row, sum(takes))}."
            yield _reason(row, text, len(takes), found, state)


def _tightest(rows: Sequence[QueueRow], lefts: Mapping[int, int]) -> Iterator[int]:
    """Of the rows of one limit the one that leaves least."""
    found: dict[tuple[str, str, bool], int] = {}
    for r, left in lefts.items():
        key = rows[r].queue, rows[r].resource, rows[r].guaranteed
        if key not in found or left < lefts[found[key]]:
            found[key] = r
    yield from found.values()


def _minimum(gang: Gang, row: QueueRow) -> Iterator[int]:
    """What each unit of the gang's minimum takes, where those that take least are chosen."""
    for requirement in gang.requirements:
        units = ((gang.demands[d].pod_class, gang.demands[d].count) for d in requirement.demands)
        takes = sorted(row.take[pod_class] for pod_class, count in units for _ in range(count))
        yield from takes[: requirement.missing]


def _reason(row: QueueRow, text: str, asked: int, found: int, state: ReasonState) -> Reason:
    code = ReasonCode.QUEUE_GUARANTEED if row.guaranteed else ReasonCode.QUEUE_LIMIT
    return Reason(code, text, asked=asked, found=found, state=state, subject=row.queue)


def _words(row: QueueRow, left: int) -> str:
    name = words.queue_word(row.queue)
    if row.guaranteed:
        return (
            f"of the {_amount(row, row.total)} guaranteed to queue {name} "
            f"{_number(row, left)} {'is' if _number(row, left) == '1' else 'are'} left to gangs "
            "that are not preemptible"
        )
    beside = ""
    if row.left_out:
        others = words.listed(sorted(map(words.queue_word, row.left_out)))
        beside = f", beside what {others} {'keeps' if len(row.left_out) == 1 else 'keep'},"
    return f"queue {name} has{beside} {_number(row, left)} of {_amount(row, row.total)} left"


def _amount(row: QueueRow, amount: int) -> str:
    """``8 GPUs``, ``1 GPU``, ``64 cpu``."""
    if row.resource != GPUS:
        return words.amount(row.resource, amount)
    number = _number(row, amount)
    return f"{number} {'GPU' if number == '1' else 'GPUs'}"


def _number(row: QueueRow, amount: int) -> str:
    if row.resource != GPUS:
        return words.amount(row.resource, amount).partition(" ")[0]
    return f"{amount / UNITS_PER_GPU:g}"
