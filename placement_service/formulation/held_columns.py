"""Running pods that hold something else of their node than they ask for.

A pod that asks for any network device may hold a fast one. While it stays others have no fast one;
when it comes to a node it is content with any. A column says what is there for pods that come, and
each takes what it asks for. So where some pods hold something else a second one counts what they
hold, and the first has room for all that they ask for:

    evicted    a pod is at home or nowhere, so one column is enough for all nodes
    moved      it takes what it holds at home and what it asks for elsewhere: so each home has
               columns of its own, of which only pods there take what they hold

A pod that moves may come to its old node again, and then it asks for less than it held. Plans leave
that out, and `relaxed` allows it. Where pods move a node needs no such column if another says all
that it would: on a node of fast network devices alone, what is asked for of these is never more
than what is asked for of all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from placement_service.entities.node import EPHEMERAL_STORAGE, Node
from placement_service.entities.nodes import NO_LIMIT, KindColumn, Nodes
from placement_service.entities.request import (
    PODS,
    BoundPod,
    PodGang,
    PodTemplate,
    Resources,
    Snapshot,
)
from placement_service.formulation.prepared import Prepared, SetOf
from placement_service.formulation.sharing_columns import as_held, whole_column

#: Columns of their own that nodes may have, all together.
MOST_OWN = 200


class TooManyHeldError(Exception):
    """For these gangs it cannot be said what is left where they stay and where they come."""

    def __init__(self, gangs: Iterable[int]) -> None:
        super().__init__()
        self.gangs = frozenset(gangs)


def amounts_of(pod: BoundPod, template: PodTemplate) -> frozenset[tuple[str, int]] | None:
    """What a pod holds, None where that is what it asks for."""
    if pod.held is None:
        return None
    held = {resource: amount for resource, amount in pod.held.items() if amount}
    asked = {resource: amount for resource, amount in template.requests.items() if amount}
    return None if held == asked else frozenset(held.items())


def with_held(opened: Prepared) -> Prepared:
    """The snapshot with columns of what pods hold; itself where all hold what they ask for.

    Raises TooManyHeldError when some gangs that may give way have to be left as they are.
    """
    if not opened.held:
        return opened
    at_home = _AtHome(opened)
    if not any(at_home.columns.values()):
        return opened
    if not opened.moves:
        loose = opened.relaxed and at_home.expressed(opened.relaxed, at_home.held)
        return replace(
            opened, snapshot=at_home.expressed(opened.snapshot, at_home.held), relaxed=loose
        )
    least = {key: at_home.least(key) for key in at_home.held}
    return replace(
        opened,
        snapshot=at_home.expressed(opened.snapshot, at_home.held),
        relaxed=at_home.expressed(opened.relaxed or opened.snapshot, least),
        # Where it comes again it may ask for more than it is counted with at home.
        tied=opened.tied | {key for key in at_home.held if least[key] != at_home.asked(key)},
    )


class _AtHome:
    """The pods that hold something else than they ask for, and the columns that count it."""

    def __init__(self, opened: Prepared) -> None:
        self._snapshot = opened.snapshot
        self.held = opened.held
        #: The nodes of these sets by their rows, and the node that a column is about ("" for all).
        self._row = {
            SetOf(h.gang, h.group, h.pod_set): h.node
            for h in opened.homes
            if (h.gang, h.group, h.pod_set) in opened.held
        }
        self._pods = {SetOf(h.gang, h.group, h.pod_set): h.pods for h in opened.homes}
        names = opened.snapshot.columns.names
        self._about = {key: names[row] if opened.moves else "" for key, row in self._row.items()}
        #: What the pods of each set ask for.
        self._asked: dict[SetOf, Resources] = {}
        #: The resources of which pods hold something else, by what columns are about.
        self.columns: defaultdict[str, set[str]] = defaultdict(set)
        for key, amounts in self.held.items():
            asked = self._asked[key] = self._asked_by(key)
            self.columns[self._about[key]] |= {
                r for r in {*amounts, *asked} if amounts.get(r, 0) != asked.get(r, 0)
            }
        self._leave_out_implied()
        if opened.moves:
            self._limit()

    def _leave_out_implied(self) -> None:
        """Leaves out columns of nodes where another resource, of which pods there hold what they
        ask for, is never less in use and no more there.
        """
        here: defaultdict[str, defaultdict[int, list[SetOf]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for key, row in self._row.items():
            here[self._about[key]][row].append(key)
        sets = (s for gang in self._snapshot.gangs for g in gang.groups for s in g.pod_sets)
        templates = list({id(s.template): s.template for s in sets}.values())
        above: dict[str, list[str] | None] = {}
        for about, differ in self.columns.items():
            nodes = [(self._snapshot.columns[row], keys) for row, keys in here[about].items()]
            for resource in sorted(differ):
                if resource not in above:
                    above[resource] = _never_less(resource, templates)
                others = above[resource]
                if others is None or all(
                    any(
                        other not in differ and self._is_implied(resource, other, node, keys)
                        for other in others
                    )
                    for node, keys in nodes
                ):
                    differ.discard(resource)

    def _is_implied(self, resource: str, other: str, node: Node, keys: Iterable[SetOf]) -> bool:
        """Whether there is room on a node for all that pods hold of a resource, if there is for
        what is taken of another one; `keys` are the sets that are at home there.
        """
        parts = [c.removesuffix(resource) for c in node.requested if whole_column(c) == resource]
        return all(
            node.free(part + other) <= node.free(part + resource) for part in {"", *parts}
        ) and all(
            self.asked(key).get(resource, 0)
            <= self.held[key].get(resource, 0)
            <= self.held[key].get(other, 0)
            for key in keys
        )

    def _limit(self) -> None:
        """Raises TooManyHeldError for the gangs beyond the first columns."""
        spent, closed = 0, set[int]()
        for name in sorted(self.columns, key=lambda name: (len(self.columns[name]), name)):
            spent += len(self.columns[name])
            if spent > MOST_OWN:
                closed |= {key.gang for key, about in self._about.items() if about == name}
        if closed:
            raise TooManyHeldError(closed)

    def asked(self, key: SetOf) -> Resources:
        """What the pods of a set ask for."""
        return self._asked[key]

    def _asked_by(self, key: SetOf) -> Resources:
        requests = self._template(key).requests
        return {r: amount for r, amount in requests.items() if amount and whole_column(r) == r}

    def least(self, key: SetOf) -> Resources:
        """What the pods of a set take of their node in any case, where they stay or come again."""
        return dict(Counter(self.held[key]) & Counter(self.asked(key)))

    def _template(self, key: SetOf) -> PodTemplate:
        return self._snapshot.gangs[key.gang].groups[key.group].pod_sets[key.pod_set].template

    def expressed(self, snapshot: Snapshot, taken: Mapping[SetOf, Resources]) -> Snapshot:
        """The snapshot with the columns, of which these sets take so much at home."""
        named = {
            about: {
                column: as_held(column, about)
                for column in (*resources, *snapshot.columns.requested)
                if whole_column(column) in resources
            }
            for about, resources in self.columns.items()
        }
        known: dict[tuple[int, object], PodTemplate] = {}

        def of(key: SetOf, old: PodTemplate) -> PodTemplate:
            mine = taken.get(key)
            same = id(old), None if mine is None else (frozenset(mine.items()), self._about[key])
            if same not in known:
                more = {
                    twin: mine.get(whole_column(column), 0) * _counts(old, column)
                    if mine is not None and about == self._about[key]
                    else old.requests.get(column, 0)
                    for about, twins in named.items()
                    for column, twin in twins.items()
                }
                more = {twin: amount for twin, amount in more.items() if amount}
                known[same] = replace(old, requests={**old.requests, **more}) if more else old
            return known[same]

        return replace(
            snapshot,
            nodes=self._nodes(snapshot.columns, named),
            gangs=with_templates(snapshot, of),
        )

    def _nodes(self, nodes: Nodes, named: Mapping[str, Mapping[str, str]]) -> Nodes:
        """The nodes, which have of each column what is there of the one that it stands beside."""
        #: By row and column, by how much pods ask for more than they hold there.
        lacks: defaultdict[int, Counter[str]] = defaultdict(Counter)
        about: dict[int, str] = {}
        for key, row in self._row.items():
            about[row] = self._about[key]
            lack = Counter(self.asked(key)) - Counter(self.held[key])
            lacks[row].update({r: amount * self._pods[key] for r, amount in lack.items()})
        everywhere = {twin: NO_LIMIT for twins in named.values() for twin in twins.values()}
        kinds: list[Resources] = [{**kind, **everywhere} for kind in nodes.allocatable.kinds]
        number = nodes.allocatable.number.copy()
        requested = dict(nodes.requested)
        nothing = np.zeros(len(nodes), np.int64)
        known: dict[object, int] = {}
        for row, there in about.items():
            before = int(number[row])
            kind = dict(nodes.allocatable.kinds[before])
            own = {}
            for column, twin in named[there].items():
                unlimited = column == EPHEMERAL_STORAGE and not kind.get(column)
                own[twin] = NO_LIMIT if unlimited else kind.get(column, 0)
                if twin not in requested:
                    requested[twin] = nothing.copy()
                if not unlimited:
                    requested[twin][row] = nodes.requested.get(column, nothing)[row]
                    kind[column] = kind.get(column, 0) + lacks[row][whole_column(column)]
            same = before, there, frozenset(lacks[row].items())
            if same not in known:
                known[same] = len(kinds)
                kinds.append({**kind, **everywhere, **own})
            number[row] = known[same]
        return replace(nodes, requested=requested, allocatable=KindColumn(tuple(kinds), number))


def _never_less(resource: str, templates: Iterable[PodTemplate]) -> list[str] | None:
    """The resources of which no pod asks for less than of this one; None where nobody asks."""
    found: set[str] | None = None
    for template in templates:
        asked = template.requests.get(resource, 0)
        if asked:
            more = {r for r, n in template.requests.items() if n >= asked and whole_column(r) == r}
            found = more if found is None else found & more
    return None if found is None else sorted(found - {resource})


def _counts(template: PodTemplate, column: str) -> bool:
    """Whether a pod counts in a column of room that not all share; each does in its own."""
    resource = whole_column(column)
    return template.requests.get(column.removesuffix(resource) + PODS, 0) > 0


def with_templates(
    snapshot: Snapshot, new: Callable[[SetOf, PodTemplate], PodTemplate]
) -> tuple[PodGang, ...]:
    """The gangs with other templates for their pod sets."""
    return tuple(
        replace(
            gang,
            groups=tuple(
                replace(
                    group,
                    pod_sets=tuple(
                        replace(s, template=new(SetOf(g, r, k), s.template))
                        for k, s in enumerate(group.pod_sets)
                    ),
                )
                for r, group in enumerate(gang.groups)
            ),
        )
        for g, gang in enumerate(snapshot.gangs)
    )
