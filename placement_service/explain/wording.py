"""Amounts, pods, levels and names as reasons spell them. Decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from placement_service.entities.devices import DeviceShare
from placement_service.entities.placement import ReasonCode
from placement_service.entities.request import (
    CPU,
    EPHEMERAL_STORAGE,
    HOSTNAME,
    MEMORY,
    PODS,
    PodTemplate,
    Policy,
    namespace_of,
)
from placement_service.formulation.compute_domains import repels_domains
from placement_service.formulation.open_gangs import WAITING, whole_name
from placement_service.formulation.rules.draft import is_rule
from placement_service.formulation.rules.reservation_columns import BESIDE

#: Names listed before the rest is only counted.
MOST_NAMES = 5

_HELD, _REQUIRED = "what reservations hold for others", "the reservation that it requires"

_BINARY = (("Ti", 1 << 40), ("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10))


def amount(resource: str, value: int) -> str:
    """An amount with its resource: ``8 nvidia.com/gpu``, ``0.5 cpu``, ``16Gi memory``."""
    if resource == PODS:
        return pods(value)
    if resource == CPU:
        cores, millis = divmod(value, 1000)
        text = f"{cores}.{millis:03d}".rstrip("0").rstrip(".")
    elif resource in (MEMORY, EPHEMERAL_STORAGE):
        text = _bytes(value)
    else:
        text = str(value)
    return f"{text} {resource}"


def _bytes(value: int) -> str:
    for unit, size in _BINARY:
        if value and value % size == 0:
            return f"{value // size}{unit}"
    # An amount that is not a whole number of any unit is shown in tenths of the largest.
    for unit, size in _BINARY:
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return str(value)


def asks(template: PodTemplate, policy: Policy, *, full: bool = False) -> str:
    """What a pod asks for: its GPUs or share of them if it has any, else everything but its own
    slot.
    """
    requests, share = template.requests, template.device_share
    # No resource of Kubernetes has a space in its name: such columns are rules expressed as
    # amounts.
    names = sorted(r for r, v in requests.items() if v and r != PODS and " " not in r)
    gpus = [r for r in names if r in policy.gpu_resources]
    rest = [r for r in names if r not in gpus]
    shown = gpus + rest if full or not (gpus or share) else gpus
    shares = [_share(share)] if share else []
    return " and ".join([*shares, *(amount(r, requests[r]) for r in shown)])


def _share(share: DeviceShare) -> str:
    """``60 % of a GPU``, ``10Gi memory of each of 2 GPUs``."""
    compute, memory = (f"{milli / 10:g} %" for milli in (share.compute_milli, share.memory_milli))
    parts = [f"{compute} of the compute"] if share.compute_milli else []
    parts += [f"{memory} of the memory"] if share.memory_milli else []
    parts += [amount(MEMORY, share.memory_bytes)] if share.memory_bytes else []
    text = compute if share.compute_milli == share.memory_milli > 0 else " and ".join(parts)
    return f"{text} of {'a GPU' if share.count == 1 else f'each of {share.count} GPUs'}"


def resource_word(resource: str) -> str:
    """A resource as the subject of a sentence."""
    if resource == PODS:
        return "the pod limit"
    # Columns of rules are numbered.
    return resource.partition(" (")[0] if is_rule(resource) else resource


def level_word(key: str) -> str:
    """A level by its last path segment; a host is a node."""
    return "node" if key == HOSTNAME else key.rpartition("/")[2]


def pods(count: int) -> str:
    """``1 pod``, ``2 pods``."""
    return "1 pod" if count == 1 else f"{count} pods"


def gpus(count: int) -> str:
    """``1 GPU``, ``2 GPUs``."""
    return "1 GPU" if count == 1 else f"{count} GPUs"


def listed(names: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; a long list ends in a count."""
    shown = list(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown.append(f"{len(names) - MOST_NAMES} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def groups(names: Sequence[str]) -> str:
    """``group a`` or ``groups a and b``, each once."""
    words = list(dict.fromkeys(map(group_word, names)))
    return f"{'group' if len(words) == 1 else 'groups'} {listed(words)}"


def group_word(name: str) -> str:
    """The name that a group has in the request."""
    return name.removesuffix(WAITING)


def required(keys: Sequence[str]) -> str:
    """``required level rack`` or ``required levels rack and block``, each key once."""
    distinct = list(dict.fromkeys(keys))
    return f"required {'level' if len(distinct) == 1 else 'levels'} {listed(distinct)}"


def gang_word(name: str, beside: str) -> str:
    """A gang as seen from another: its name, with the namespace when that differs."""
    short = whole_name(name).rpartition("/")[2]
    mine = namespace_of(name)
    return short if mine == namespace_of(beside) else f"{mine}/{short}"


def queue_word(name: str) -> str:
    """A queue without the ``queues/`` in front."""
    return name.removeprefix("queues/")


def reservation_word(name: str) -> str:
    """A reservation without the ``reservations/`` in front."""
    return name.removeprefix("reservations/")


def pod_rules(template: PodTemplate, columns: Iterable[str]) -> tuple[str, ...]:
    """The rules between pods that a pod carries, or what else may keep it out.

    `columns` are those of rules that it takes something of.
    """
    words = [
        *(
            f"ComputeDomain {template.compute_domain}, which shares no node with another"
            if repels_domains(t)
            else f"anti-affinity over {t.topology_key}"
            for t in template.required_anti_affinity
        ),
        *(f"affinity over {t.topology_key}" for t in template.required_affinity),
        *(f"spread over {c.topology_key}" for c in template.spread_constraints),
        *(f"host port {p.port}/{p.protocol}" for p in template.host_ports),
        *(_HELD for column in columns if column.endswith(BESIDE)),
    ]
    if template.required_reservation is not None:
        words.append(_REQUIRED)
    return tuple(dict.fromkeys(words)) or ("anti-affinity of other pods",)


def code_of(rules: Iterable[str]) -> ReasonCode:
    """The reason code for `pod_rules`."""
    reserved = {_HELD, _REQUIRED}.issuperset(rules)
    return ReasonCode.RESERVED if reserved else ReasonCode.POD_RULES


def closed(counts: Sequence[tuple[str, int]], total: int) -> str:
    """``12 of 40 nodes: taint x; 8: node selector y=z``."""
    (first, count), *rest = counts
    noun = "node" if total == 1 else "nodes"
    parts = [f"{count} of {total} {noun}: {first}", *(f"{n}: {rule}" for rule, n in rest)]
    return "; ".join(parts)
