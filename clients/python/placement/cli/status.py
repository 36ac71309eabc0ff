"""The state of the gangs of a live cluster, as the cluster itself says.

No plan is made: phase, score and reasons are those that a scheduler wrote; only pods are counted
here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from placement.cli.input.live import Body, key, mapping, mappings, members, number, text
from placement.kubernetes.objects import POD, POD_GANG


@dataclass(frozen=True, slots=True)
class GangStatus:
    """One gang. `scheduled` is "True", "False" or "Unknown"; `placement_score` is None
    when nobody wrote one. `waits_since` is when a gang that is not scheduled was made, as the
    cluster says it; None for others."""

    namespace: str
    name: str
    phase: str
    scheduled: str
    reason: str
    message: str
    minimum: int
    bound: int
    pods: int
    placement_score: float | None
    waits_since: str | None

    @property
    def title(self) -> str:
        return f"{self.namespace}/{self.name}"


def statuses(bodies: Iterable[Body], *, namespace: str = "") -> tuple[GangStatus, ...]:
    """All gangs, or those of one namespace, by namespace and name."""
    bodies = list(bodies)
    pods = {key(body): body for body in bodies if body["kind"] == POD}
    found = [
        _status(body, pods)
        for body in bodies
        if body["kind"] == POD_GANG and namespace in ("", key(body)[0])
    ]
    return tuple(sorted(found, key=lambda gang: (gang.namespace, gang.name)))


def _is_score(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def as_json(gangs: Sequence[GangStatus]) -> dict[str, Any]:
    """The same for programs."""
    return {"podGangs": [{_camel(k): v for k, v in asdict(gang).items()} for gang in gangs]}


def as_table(
    gangs: Sequence[GangStatus], *, now: datetime | None = None, width: int | None = None
) -> str:
    """A row per gang with the time that it has waited until `now`, and below them why."""
    import re

    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from placement.cli.consoles import answer_console
    from placement.cli.words import age, number, printable
    from placement.kubernetes.values.times import parse_time

    if not gangs:
        return "There is no PodGang.\n"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("gang", overflow="fold")
    for title in ("phase", "scheduled"):
        table.add_column(title, no_wrap=True)
    for title in ("bound", "min", "score", "waits"):
        table.add_column(title, justify="right", no_wrap=True)
    now = now or datetime.now(UTC)
    styles = {"True": "green", "False": "red"}
    for gang in gangs:
        since = parse_time(gang.waits_since) if gang.waits_since else None
        table.add_row(
            Text(printable(gang.title)),
            Text(printable(gang.phase)),
            Text(printable(gang.scheduled), style=styles.get(gang.scheduled, "")),
            f"{gang.bound}/{gang.pods}",
            str(gang.minimum),
            "" if gang.placement_score is None else number(gang.placement_score),
            "" if since is None else age((now - since).total_seconds()),
        )
    console = answer_console(width=width)
    with console.capture() as capture:
        console.print(table)
        for gang in gangs:
            if gang.scheduled == "False":
                console.print()
                console.print(Text(printable(f"{gang.title}: {gang.reason}"), style="bold"))
                console.print(Padding(Text(printable(gang.message)), (0, 0, 0, 2)))
    return re.sub(r"[ \t]+$", "", capture.get(), flags=re.MULTILINE)


def _status(gang: Body, pods: dict[tuple[str, str], Body]) -> GangStatus:
    status = mapping(gang.get("status"))
    scheduled: Body = next(
        (c for c in mappings(status.get("conditions")) if c.get("type") == "Scheduled"), {}
    )
    there = [pods[member] for member in members(gang) if member in pods]
    made = mapping(gang.get("metadata")).get("creationTimestamp")
    namespace, name = key(gang)
    groups = mappings(mapping(gang.get("spec")).get("podgroups"))
    score = status.get("placementScore")
    return GangStatus(
        namespace=namespace,
        name=name,
        phase=text(status.get("phase")),
        scheduled=text(scheduled.get("status")) or "Unknown",
        reason=text(scheduled.get("reason")),
        message=text(scheduled.get("message")),
        minimum=sum(number(group.get("minReplicas")) for group in groups),
        bound=sum(bool(mapping(pod.get("spec")).get("nodeName")) for pod in there),
        pods=len(there),
        placement_score=score if _is_score(score) else None,
        waits_since=None if scheduled.get("status") == "True" else text(made) or None,
    )


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
