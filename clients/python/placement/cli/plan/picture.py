"""What there is to draw: domains inside domains, nodes, and the gangs on them.

Only decides what is seen: which label keys become nested boxes, in which order,
and what stands on each node. `drawing` (terminal) and `html` (page) decide how it looks.

Levels need not nest. The keys are ordered from few domains to many, and nodes
are grouped by the tuple of their values; a domain that lies in several broader
ones is drawn in each of them and marked as split.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from placement.cli.plan.summary import Seat, Summary, gpu_count
from placement.cli.words import HOSTNAME, count, level_names, natural, node_name, printable, shorten
from placement.v1 import ComputePlacementRequest, Node

#: More nested boxes than this are harder to read than helpful.
MOST_LEVELS = 3

#: With so many levels that gangs name, other well-known ones add little.
ENOUGH_LEVELS = 2

#: Label keys that operators and clouds use for topology, besides those that
#: end in one of `WELL_KNOWN_ENDINGS`.
WELL_KNOWN_KEYS = frozenset(
    {
        "accelerator.topograph.run/domain",
        "accelerator.topograph.run/sub-domain",
        "cloud.google.com/gce-topology-block",
        "cloud.google.com/gce-topology-subblock",
        "ds.coreweave.com/nvlink.domain",
        "kubernetes.azure.com/ppg",
        "network.topology.nvidia.com/accelerator",
        "nvidia.com/gpu.clique",
        "topology.k8s.aws/network-node-layer-1",
        "topology.k8s.aws/network-node-layer-2",
        "topology.k8s.aws/network-node-layer-3",
    }
)
WELL_KNOWN_ENDINGS = frozenset(
    "/" + word
    for word in (
        *("region", "zone", "datacenter", "superpod", "superblock", "block", "subblock", "row"),
        *("rack", "core", "spine", "leafgroup", "leaf", "tier-1", "tier-2", "tier-3"),
    )
)

#: A node without GPUs counts as full when less than this share is free of its
#: CPU, memory or pod count.
ROOM = 0.1

#: Marks a domain that lies in several broader ones.
SPLIT = "*"

ALL_FREE = "all free"
NOTHING_FREE = "nothing free"

#: Longer values are shortened in headings.
LONGEST_TITLE = 28

#: The kubelet's limit of pods on a node that states none.
DEFAULT_POD_LIMIT = 110


@dataclass(frozen=True, slots=True)
class Spot:
    """A node. `gpus` zero: it has none, and is judged by its other resources.

    `before` are GPUs in use that belong to no seat, those that pods share among them; `free` are
    GPUs that nobody uses after it. `full` says that no (or hardly any) room is
    left, `closed` that the node takes no new pods, `busy` that something ran
    on it before.
    """

    name: str
    gpus: int
    before: int
    free: int
    seats: tuple[Seat, ...]
    full: bool
    busy: bool
    closed: bool


@dataclass(frozen=True, slots=True)
class Domain:
    """One value of a level and what lies in it: narrower domains, or spots.

    `value` is empty for the nodes without the label. `split` domains lie in
    several broader ones and are drawn in each.
    """

    value: str
    spots: tuple[Spot, ...]
    inner: tuple[Domain, ...] = ()
    split: bool = False

    @property
    def touched(self) -> bool:
        """Whether a gang of the request sits here."""
        return any(spot.seats for spot in self.spots)


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster from broad to narrow. Without levels `root` has no `inner`."""

    levels: tuple[str, ...]
    level_names: tuple[str, ...]
    root: Domain


def compose(request: ComputePlacementRequest, summary: Summary) -> Picture:
    """The picture of an answer. Nodes and domains are in natural order."""
    nodes = request.snapshot.nodes
    keys = _choose_levels(nodes, list(summary.level_names))
    seats: dict[str, list[Seat]] = defaultdict(list)
    for seat in summary.seats:
        seats[seat.node].append(seat)
    spots = [
        _spot(node, seats[node.name], summary.gpu_resources, summary.shared_gpus.get(node.name, 0))
        for node in nodes
    ]
    order = sorted(range(len(nodes)), key=lambda i: natural(spots[i].name))
    values = [tuple(_value(nodes[i], key) for key in keys) for i in order]
    split = _split_domains(values, len(keys))
    root = _group("", [spots[i] for i in order], values, split)
    names = level_names([*summary.level_names, *keys])
    return Picture(levels=keys, level_names=tuple(names[k] for k in keys), root=root)


def _value(node: Node, key: str) -> str:
    if key == HOSTNAME and key not in node.labels:
        return node_name(node.name)
    return printable(node.labels.get(key, ""))


def _choose_levels(nodes: Sequence[Node], used: list[str]) -> tuple[str, ...]:
    """The keys worth a box, from few domains to many.

    Keys that the gangs use come first, then well-known ones. A key with a
    domain for every node is the node itself; a well-known key with one domain
    says nothing; of keys that divide the nodes alike, the first one is taken.
    """
    present = sorted({key for node in nodes for key in node.labels})
    well_known = [
        key
        for key in present
        if key in WELL_KNOWN_KEYS or any(key.endswith(end) for end in WELL_KNOWN_ENDINGS)
    ]
    chosen: dict[tuple[int, ...], tuple[int, str]] = {}
    for key in dict.fromkeys([*used, *well_known]):
        numbers: dict[str, int] = {}
        partition = tuple(numbers.setdefault(_value(node, key), len(numbers)) for node in nodes)
        if key == HOSTNAME or key not in present or len(numbers) == len(nodes) > 1:
            continue
        if key not in used and (len(numbers) == 1 or len(chosen) >= ENOUGH_LEVELS):
            continue
        if partition not in chosen and len(chosen) < MOST_LEVELS:
            chosen[partition] = (len(numbers), key)
    return tuple(key for _, key in sorted(chosen.values(), key=lambda pair: pair[0]))


def _spot(node: Node, seats: list[Seat], gpu_resources: tuple[str, ...], shared_gpus: int) -> Spot:
    gpus = gpu_count(node.allocatable, gpu_resources)
    requested = gpu_count(node.requested, gpu_resources)
    free = max(0, gpus - requested - shared_gpus - sum(s.new_gpus for s in seats))
    return Spot(
        name=node_name(node.name),
        gpus=gpus,
        before=max(0, gpus - free - sum(s.gpus for s in seats)),
        free=free,
        seats=tuple(seats),
        full=not free if gpus else not _has_room(node, seats),
        busy=bool(requested if gpus else node.requested.ByteSize()),
        closed=node.unschedulable or node.not_ready,
    )


def _has_room(node: Node, seats: list[Seat]) -> bool:
    have, taken = node.allocatable, node.requested
    new_pods = sum(s.new for s in seats)
    rest = (
        (have.cpu_millis, taken.cpu_millis + sum(s.new_cpu_millis for s in seats)),
        (have.memory_bytes, taken.memory_bytes + sum(s.new_memory_bytes for s in seats)),
        (have.pod_count or DEFAULT_POD_LIMIT, taken.pod_count + new_pods),
    )
    return all(amount - used >= ROOM * amount for amount, used in rest if amount)


def _split_domains(values: list[tuple[str, ...]], depth: int) -> list[set[str]]:
    """For each level the domains that lie in several broader ones."""
    result = []
    for level in range(depth):
        parents: dict[str, set[tuple[str, ...]]] = defaultdict(set)
        for labels in values:
            parents[labels[level]].add(labels[:level])
        result.append({value for value, above in parents.items() if value and len(above) > 1})
    return result


def _group(
    value: str,
    spots: list[Spot],
    values: list[tuple[str, ...]],
    split: list[set[str]],
    *,
    level: int = 0,
    is_split: bool = False,
) -> Domain:
    """The domain of these spots, divided by the levels from `level` on."""
    inner: list[Domain] = []
    if level < len(split):
        members: dict[str, list[int]] = defaultdict(list)
        for index, labels in enumerate(values):
            members[labels[level]].append(index)
        # Nodes without the label come last.
        for name in sorted(members, key=lambda name: (not name, natural(name))):
            indices = members[name]
            inner.append(
                _group(
                    name,
                    [spots[i] for i in indices],
                    [values[i] for i in indices],
                    split,
                    level=level + 1,
                    is_split=name in split[level],
                )
            )
    return Domain(value=value, spots=tuple(spots), inner=tuple(inner), split=is_split)


# --- words about a picture ------------------------------------------------------------------


def title(domain: Domain, level: str) -> str:
    """``block b0``, or ``block-0`` when the value says it itself."""
    if not domain.value:
        return f"no {level}"
    value = shorten(domain.value, LONGEST_TITLE)
    name = value if level.lower() in value.lower() else f"{level} {value}"
    return name + SPLIT * domain.split


def contents(spots: Sequence[Spot]) -> str:
    """``72 GPUs, 12 free``; without GPUs ``9 nodes``."""
    gpus = sum(s.gpus for s in spots)
    if not gpus:
        return count(len(spots), "node")
    return f"{count(gpus, 'GPU')}, {_free(spots):,} free"


def folded(domains: Sequence[Domain], level: str) -> list[str]:
    """Domains without a pod of the request, told in a line per kind of them."""
    kinds: dict[str, list[Domain]] = {ALL_FREE: [], NOTHING_FREE: [], "": []}
    lines = []
    for domain in domains:
        if domain.value:
            kinds[_kind(domain.spots)].append(domain)
        else:
            room = _kind(domain.spots) or _room(domain.spots)
            lines.append(f"{count(len(domain.spots), 'node')} in no {level}, {room}")
    return [
        f"{count(len(alike), level)}, {kind or _room([s for d in alike for s in d.spots])}"
        for kind, alike in kinds.items()
        if alike
    ] + lines


def rooms(picture: Picture) -> str:
    """What a picture in a single box shows: ``4 racks``, or ``9 nodes`` without levels.

    Nodes without GPUs are counted by `contents`, and not twice.
    """
    if not picture.levels:
        spots = picture.root.spots
        return count(len(spots), "node") if any(s.gpus for s in spots) else "cluster"
    return count(sum(bool(d.value) for d in picture.root.inner), picture.level_names[0])


def _kind(spots: Sequence[Spot]) -> str:
    """The words for domains that are alike; empty for those that are partly free."""
    if all(not s.busy and not s.closed for s in spots):
        return ALL_FREE
    return NOTHING_FREE if all(s.full or s.closed for s in spots) else ""


def _free(spots: Sequence[Spot]) -> int:
    return sum(s.free for s in spots if not s.closed)


def _room(spots: Sequence[Spot]) -> str:
    gpus = sum(s.gpus for s in spots)
    return f"{_free(spots):,} of {count(gpus, 'GPU')} free" if gpus else "partly in use"
