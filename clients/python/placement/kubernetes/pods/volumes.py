"""Volumes whose location the cluster decides.

- A claim that is bound to a PersistentVolume brings the volume's node affinity.
- An unbound one of a class that waits for its first consumer brings the class's allowed
  topologies.
- An unbound one of any other class keeps its pod waiting until it is bound.
- A claim of mode ReadWriteOncePod serves one pod: while several use it, those that wait keep
  waiting.
- The claim of an ephemeral volume is named after pod and volume; until it is made, its class
  counts. It goes with its pod, so of a pod that runs its class counts as well.

A pod of several claims needs a node that all of them allow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from placement import v1
from placement.kubernetes.objects import Object
from placement.kubernetes.pods.podspec import VolumeUse, read_node_selector
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings

_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_WAITS: Final = "WaitForFirstConsumer"
_ONE_POD: Final = "ReadWriteOncePod"
_FINISHED: Final = ("Succeeded", "Failed")
#: Terms of node affinity that several claims may multiply to.
_MOST_TERMS: Final = 256


class Places(NamedTuple):
    """Where volumes let a pod run: None means anywhere. `unsupported` says why it cannot run.

    `claims` are those that say where.
    """

    nodes: v1.NodeSelector | None = None
    unsupported: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Class:
    waits: bool
    nodes: v1.NodeSelector | None


@dataclass(frozen=True, slots=True)
class _Claim:
    volume: str
    storage_class: str | None
    lost: bool
    #: Whether it may serve one pod only, and several use it.
    contested: bool = False


class Volumes:
    """The volumes, claims and classes of an input."""

    def __init__(
        self,
        claims: Mapping[tuple[str, str], _Claim],
        volumes: Mapping[str, v1.NodeSelector | None],
        classes: Mapping[str, _Class],
        default_class: str,
    ) -> None:
        self._claims = claims
        self._volumes = volumes
        self._classes = classes
        self._default_class = default_class

    def places(self, namespace: str, pod: str, uses: Iterable[VolumeUse], *, runs: bool) -> Places:
        """Where a pod with these volumes may run; for one that runs, where it could run instead."""
        allowed: dict[str, v1.NodeSelector] = {}
        unsupported: list[str] = []
        for use in uses:
            name = use.claim or f"{pod}-{use.volume}"
            known = self._claims.get((namespace, name))
            if not use.claim and (known is None or runs):
                known = _Claim("", use.storage_class, lost=False)
            nodes, problem = self._place(known)
            if problem:
                unsupported.append(f"PersistentVolumeClaim {name}: {problem}")
            elif nodes is not None:
                allowed[name] = nodes
        selector = both(allowed.values())
        if selector is None and allowed and not unsupported:
            unsupported.append("its volumes combine too many sets of nodes")
        return Places(selector, tuple(unsupported), tuple(allowed))

    def _place(self, claim: _Claim | None) -> tuple[v1.NodeSelector | None, str]:
        if claim is None:
            return None, "is not in the input"
        if claim.lost:
            return None, "has lost its volume"
        if claim.contested:
            return None, "is ReadWriteOncePod, and several pods use it"
        if claim.volume:
            if claim.volume not in self._volumes:
                return None, f"its PersistentVolume {claim.volume} is not in the input"
            return self._volumes[claim.volume], ""
        class_name = claim.storage_class
        if class_name is None:
            class_name = self._default_class
        known = self._classes.get(class_name)
        if known is None:
            if not class_name:
                return None, "is not bound to a volume, and there is no class to make one"
            return None, f"is not bound, and its StorageClass {class_name} is not in the input"
        if not known.waits:
            return None, (
                f"is not bound to a volume yet, and its StorageClass {class_name} does not wait for"
                " a consumer"
            )
        return known.nodes, ""


def both(selectors: Iterable[v1.NodeSelector]) -> v1.NodeSelector | None:
    """One selector that matches what all of them match; None for none, or too many terms."""
    different = list({s.SerializeToString(deterministic=True): s for s in selectors}.values())
    if len(different) < 2:
        return different[0] if different else None
    size = 1
    for selector in different:
        size *= len(selector.terms)
    if size > _MOST_TERMS:
        return None
    terms = []
    for several in product(*(selector.terms for selector in different)):
        term = v1.NodeSelectorTerm()
        for one in several:
            term.MergeFrom(one)
        # A term without requirements matches nothing, so a combination with it does not either.
        if all(one.match_expressions or one.match_fields for one in several):
            terms.append(term)
    return v1.NodeSelector(terms=terms)


def read_volumes(
    claims: Iterable[Object],
    volumes: Iterable[Object],
    classes: Iterable[Object],
    pods: Iterable[Object],
    problems: list[Problem],
) -> Volumes:
    """All claims, volumes and classes; `pods` are those that may use claims."""
    users = _claim_users(pods)
    known_claims = {}
    known_volumes = {}
    known_classes = {}
    default = ""
    for one in claims:
        findings: Findings = {}
        at = At(one.body, findings)
        named = at.get("spec").get("storageClassName")
        known_claims[one.key] = _Claim(
            volume=at.get("spec").get("volumeName").text(),
            storage_class=None if named.absent else named.text(),
            lost=at.get("status").get("phase").text() == "Lost",
            contested=_ONE_POD in at.get("spec").get("accessModes").texts() and users[one.key] > 1,
        )
        problems += [one.problem(*finding) for finding in findings]
    for one in volumes:
        findings = {}
        required = At(one.body, findings).get("spec").get("nodeAffinity").get("required")
        known_volumes[one.name] = read_node_selector(required)
        problems += [one.problem(*finding) for finding in findings]
    for one in classes:
        findings = {}
        at = At(one.body, findings)
        mode = at.get("volumeBindingMode").choice("Immediate", ("Immediate", _WAITS))
        known_classes[one.name] = _Class(mode == _WAITS, _topologies(at.get("allowedTopologies")))
        if at.get("metadata").get("annotations").labels().get(_DEFAULT_CLASS) == "true":
            default = one.name
        problems += [one.problem(*finding) for finding in findings]
    return Volumes(known_claims, known_volumes, known_classes, default)


def _claim_users(pods: Iterable[Object]) -> Counter[tuple[str, str]]:
    """How many pods that have not finished mount each claim."""
    users: Counter[tuple[str, str]] = Counter()
    for one in pods:
        spec, status = one.body.get("spec"), one.body.get("status")
        finished = isinstance(status, dict) and status.get("phase") in _FINISHED
        if finished or not isinstance(spec, dict) or not spec.get("volumes"):
            continue
        # Anything wrong with it is noted where the pod is read.
        volumes = At(one.body, {}).get("spec").get("volumes").items()
        named = {v.get("persistentVolumeClaim").get("claimName").text() for v in volumes}
        users.update((one.namespace, name) for name in named if name)
    return users


def _topologies(at: At) -> v1.NodeSelector | None:
    terms = []
    for term in at.items():
        expressions = []
        for entry in term.get("matchLabelExpressions").items():
            values = entry.get("values").texts()
            if not values:
                entry.get("values").problem("must hold at least one value")
            expressions.append(
                v1.SelectorRequirement(
                    key=entry.get("key").required_text(),
                    operator=v1.SelectorOperator.SELECTOR_OPERATOR_IN,
                    values=values,
                )
            )
        terms.append(v1.NodeSelectorTerm(match_expressions=expressions))
    return v1.NodeSelector(terms=terms) if terms else None
