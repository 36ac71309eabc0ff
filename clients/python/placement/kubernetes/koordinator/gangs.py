"""Koordinator's gangs: PodGroups, gangs by annotation alone, and groups of gangs.

- A pod belongs to the PodGroup that its label names, else to the gang of its annotation. Where a
  PodGroup has that name, it counts before the annotations of pods. PodGroups are those of the
  coscheduling plugin of kube-scheduler: Koordinator kept their first API group, the plugin
  has another by now, and another label.
- Gangs of one gang group run together or not at all. Here they are one gang with a group for
  each; the answer names each of them.
- The layers of the ClusterNetworkTopology named "default" are paths of labels (see
  `nodes.label_paths`). MustGather is required packing of the whole gang group, PreferGather
  preferred.
- How long to wait for pods (`mode`, `match-policy`, `waiting-time`) concerns Koordinator's own
  cycle: all or nothing holds in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from placement import v1
from placement.kubernetes.gangs import Gang, Group, Key
from placement.kubernetes.nodes.label_paths import EITHER, HOSTNAME, LabelPaths
from placement.kubernetes.objects import POD_GANG, Object, is_part_name, not_a_name
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.problems import Diagnostics, Problem
from placement.kubernetes.values.reading import At, Findings
from placement.kubernetes.values.times import is_deleted, read_time

POD_GROUP_LABEL: Final = "pod-group.scheduling.sigs.k8s.io"
COSCHEDULING_LABEL: Final = "scheduling.x-k8s.io/pod-group"
_PREFIX: Final = "gang.scheduling.koordinator.sh/"
GANG_NAME: Final = f"{_PREFIX}name"
_MINIMUM: Final = f"{_PREFIX}min-available"
_GROUPS: Final = f"{_PREFIX}groups"
_TOPOLOGY_SPEC: Final = f"{_PREFIX}network-topology-spec"
#: The annotations of pods that a program with a cluster in memory keeps.
ANNOTATIONS: Final = (GANG_NAME, _MINIMUM, _GROUPS, _TOPOLOGY_SPEC)

_NODE_LAYER: Final = "NodeTopologyLayer"
#: The layer above all, which is always there.
_WHOLE: Final = "ClusterTopologyLayer"
_TOPOLOGY: Final = "default"
_MUST: Final = "MustGather"
_PREFER: Final = "PreferGather"
#: The field of a topology spec, and those of its entries.
_RULES: Final = "gatherStrategy"
_RULE: Final = ("layer", "strategy", "podCountMultiple")


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One gang of Koordinator. `together` are the gangs of its group, itself included."""

    object: Object
    minimum: int
    pods: tuple[Key, ...]
    together: tuple[Key, ...]
    spec: Mapping[str, Any]


def read_layers(objects: Iterable[Object], diagnostics: Diagnostics) -> dict[str, tuple[str, ...]]:
    """The node labels that lead to each layer of the cluster's topology, from broad to narrow."""
    keys: dict[str, str] = {}
    parents: dict[str, str] = {}
    for one in objects:
        if one.name != _TOPOLOGY:
            diagnostics.warnings.append(one.problem("", f"only the one named {_TOPOLOGY} is read"))
            continue
        findings: Findings = {}
        above: list[At] = []
        for entry in At(one.body, findings).get("spec").get("networkTopologySpec").items():
            name = entry.get("topologyLayer").required_text()
            labels = [key for key in entry.get("labelKey").texts() if key]
            if not labels and name != _NODE_LAYER:
                entry.get("labelKey").problem("must hold at least one label")
            keys[name] = EITHER.join(labels) if labels else HOSTNAME
            parents[name] = entry.get("parentTopologyLayer").text()
            if parents[name] == name:
                entry.get("parentTopologyLayer").problem("is the layer itself")
            above.append(entry.get("parentTopologyLayer"))
        for entry in above:
            if entry.text() and entry.text() not in (*keys, _WHOLE):
                entry.problem(f"there is no layer {entry.text()}")
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    layers: dict[str, tuple[str, ...]] = {_NODE_LAYER: (HOSTNAME,)}
    for name in keys:
        path: list[str] = []
        at, seen = name, set[str]()
        while at in keys and at not in seen:
            seen.add(at)
            path.insert(0, keys[at])
            at = parents[at]
        layers[name] = tuple(path)
    return layers


def read_koordinator_gangs(
    objects: Iterable[Object],
    pods: Mapping[Key, Pod],
    layers: Mapping[str, tuple[str, ...]],
    paths: LabelPaths,
    taken: Mapping[Key, Gang],
    diagnostics: Diagnostics,
) -> list[Gang]:
    """All gangs, those of a gang group as one.

    `taken` are the gangs that pods belong to already: a PodGroup of such pods alone is no gang.
    """
    groups: dict[Key, Object] = {}
    for one in objects:
        other = groups.setdefault(one.key, one)
        if other is not one:
            diagnostics.problems.append(one.problem("", f"is also the name of {other}"))
    members: dict[Key, list[Pod]] = {}
    by_annotation: dict[Key, list[Pod]] = {}
    elsewhere: dict[Key, Pod] = {}
    for pod in pods.values():
        named = pod.labels.get(POD_GROUP_LABEL) or pod.labels.get(COSCHEDULING_LABEL, "")
        label = pod.namespace, named
        note = pod.namespace, pod.annotations.get(GANG_NAME, "")
        key = label if label in groups else note
        if pod.key in taken:
            elsewhere.setdefault(key, pod)
        elif key in groups:
            members.setdefault(key, []).append(pod)
        elif note[1]:
            by_annotation.setdefault(note, []).append(pod)
    parts: dict[Key, _Part] = {}
    for key, one in groups.items():
        if key in elsewhere:
            other = taken[elsewhere[key].key].object
            # Those that are made for a PodGang have all its pods.
            if key in members or other.kind != POD_GANG:
                text = f"{elsewhere[key]} is in {other}, too: it counts there alone"
                diagnostics.warnings.append(one.problem("", text))
            if key not in members:
                continue
        findings: Findings = {}
        at = At(one.body, findings)
        minimum = at.get("spec").get("minMember").integer(1, least=0)
        notes = at.get("metadata").get("annotations")
        parts[key] = _part(one, minimum, members.get(key, []), notes)
        diagnostics.problems += [one.problem(*finding) for finding in findings]
    for key, several in by_annotation.items():
        parts[key] = _part_of_pods(key, several, diagnostics)
    return _gangs(parts, layers, paths, diagnostics.problems)


def _part(one: Object, minimum: int, pods: list[Pod], notes: At) -> _Part:
    together = {one.key}
    names = _json(notes, _GROUPS, list) or []
    for name in names:
        namespace, slash, own = name.partition("/") if isinstance(name, str) else ("", "", "")
        if not (slash and namespace and own):
            notes.problem_under(_GROUPS, f"{name!r} is not namespace/name")
        else:
            together.add((namespace, own))
    return _Part(
        one,
        minimum,
        tuple(pod.key for pod in pods),
        tuple(sorted(together)),
        _json(notes, _TOPOLOGY_SPEC, dict) or {},
    )


def _part_of_pods(key: Key, pods: list[Pod], diagnostics: Diagnostics) -> _Part:
    """A gang that exists only in the annotations of its pods; the first of them decides."""
    first = pods[0].object
    told = [[pod.annotations.get(note) for note in ANNOTATIONS] for pod in pods]
    if unlike := next((p for p, own in zip(pods, told, strict=True) if own != told[0]), None):
        note = next(n for n, a, b in zip(ANNOTATIONS, told[0], told[pods.index(unlike)],
                                         strict=True) if a != b)  # fmt: skip
        text = f"is not as in {pods[0]}, which counts for the gang"
        diagnostics.warnings.append(unlike.object.problem(f"metadata.annotations[{note}]", text))
    findings: Findings = {}
    notes = At(first.body, findings).get("metadata").get("annotations")
    if not is_part_name(key[1]):
        notes.problem_under(GANG_NAME, not_a_name(key[1]))
    text = pods[0].annotations.get(_MINIMUM, "")
    minimum = 1
    if text.isascii() and text.isdecimal() and len(text) < 10:
        minimum = int(text)
    else:
        notes.problem_under(_MINIMUM, "is missing" if not text else f"{text!r} is not a number")
    metadata = first.body["metadata"]
    created = min((pod.created for pod in pods if pod.created is not None), default=None)
    body = {
        "metadata": {
            "labels": metadata.get("labels"),
            "annotations": metadata.get("annotations"),
            "creationTimestamp": created.isoformat() if created is not None else None,
        }
    }
    gang = Object("PodGroup", *key, body, first.file, first.document)
    part = _part(gang, minimum, pods, notes)
    diagnostics.problems += [first.problem(*finding) for finding in findings]
    return part


def _gangs(
    parts: Mapping[Key, _Part],
    layers: Mapping[str, tuple[str, ...]],
    paths: LabelPaths,
    problems: list[Problem],
) -> list[Gang]:
    result = []
    for named in _groups_of_gangs(parts):
        together = [parts[k] for k in named if k in parts]
        lacking = [f"{ns}/{name}" for ns, name in named if (ns, name) not in parts]
        unsupported = [f"annotation {_GROUPS}: gang {name} is not in the input" for name in lacking]
        scopes, refused = _scopes(together, layers, paths)
        findings: Findings = {}
        first = together[0].object
        metadata = At(first.body, findings).get("metadata")
        created = read_time(metadata.get("creationTimestamp"))
        problems += [first.problem(*finding) for finding in findings]
        names = [p.object.name for p in together]
        result.append(
            Gang(
                object=first,
                groups=tuple(
                    Group(
                        name if names.count(name) == 1 else f"{p.object.namespace}.{name}",
                        p.minimum,
                        p.pods,
                    )
                    for p, name in zip(together, names, strict=True)
                ),
                scopes=scopes,
                created=created,
                terminating=is_deleted(metadata),
                parts=tuple(p.object.key for p in together),
                pods_name_queues=True,
                unsupported=(*unsupported, *refused),
            )
        )
    return result


def _groups_of_gangs(parts: Mapping[Key, _Part]) -> Iterator[tuple[Key, ...]]:
    """The gangs that run together, also where only some of them name the others."""
    group_of: dict[Key, set[Key]] = {}
    for part in parts.values():
        group = set(part.together).union(*(group_of.get(key, ()) for key in part.together))
        group_of |= dict.fromkeys(group, group)
    done: set[Key] = set()
    for key in parts:
        if key not in done:
            done |= group_of[key]
            yield tuple(sorted(group_of[key]))


def _scopes(
    parts: Sequence[_Part], layers: Mapping[str, tuple[str, ...]], paths: LabelPaths
) -> tuple[tuple[v1.PackingScope, ...], list[str]]:
    """The scopes that the topology specs of all parts give the whole, each rule once; and what is
    refused.
    """
    name = parts[0].object.name
    scopes: dict[tuple[str, str], v1.PackingScope] = {}
    refused: dict[str, None] = {}
    where = f"annotation {_TOPOLOGY_SPEC}"
    for part in parts:
        rules = part.spec.get(_RULES) or []
        refused |= {f"{where}: {name}": None for name in part.spec if name != _RULES}
        if not isinstance(rules, list):
            refused[f"{where}: {_RULES} is not a list"] = None
            continue
        for rule in rules:
            if not isinstance(rule, dict):
                refused[f"{where}: an entry of {_RULES} is not a mapping"] = None
                continue
            refused |= {f"{where}: {name}": None for name in rule if name not in _RULE}
            layer, strategy = str(rule.get("layer")), str(rule.get("strategy"))
            if layer not in layers:
                refused[f"{where}: there is no layer {layer}"] = None
                continue
            if strategy not in (_MUST, _PREFER):
                refused[f"{where}: strategy {strategy}"] = None
                continue
            if rule.get("podCountMultiple"):
                refused[f"{where}: podCountMultiple"] = None
            key = paths.key(_TOPOLOGY, layers[layer], layers[layer][-1])
            must = strategy == _MUST
            scopes[layer, strategy] = v1.PackingScope(
                name=name,
                required_level=key if must else "",
                preferred_level="" if must else key,
            )
    return tuple(scopes.values()), list(refused)


def _json(annotations: At, key: str, kind: type) -> Any:
    """The value that an annotation holds as JSON; None when it is absent or not of the kind."""
    text = annotations.labels().get(key)
    if not text:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        annotations.problem_under(key, "is not what it should be in JSON")
        return None
    return value
