"""Which gangs of one answer depend on the pods of others.

A gang with required pod affinity is placed near pods that the same answer may only be
about to place, and one with a spread that must hold is placed evenly with them. If those are not
bound after all, its own place may break the rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller.cluster.gang_state import Key
from placement import v1
from placement.kubernetes.values.selectors import LabelSelector


def depends_on(gangs: Mapping[Key, v1.PodGang]) -> dict[Key, frozenset[Key]]:
    """The other gangs whose pods a gang's affinity or spread matches."""
    matched: dict[tuple[bytes, str], frozenset[Key]] = {}
    result: dict[Key, frozenset[Key]] = {}
    for key, gang in gangs.items():
        found: set[Key] = set()
        for term in _terms(gang):
            # Many gangs are made of one template.
            known = term.SerializeToString(deterministic=True), key[0]
            if known not in matched:
                matched[known] = frozenset(_matches(term, key[0], gangs))
            found |= matched[known]
        if others := found - {key}:
            result[key] = frozenset(others)
    return result


def _terms(gang: v1.PodGang) -> Iterator[v1.PodAffinityTerm]:
    for template in _templates(gang):
        yield from template.required_affinity
        for spread in template.spread_constraints:
            yield v1.PodAffinityTerm(
                selector=spread.selector if spread.HasField("selector") else None
            )


def _matches(
    term: v1.PodAffinityTerm, namespace: str, gangs: Mapping[Key, v1.PodGang]
) -> Iterator[Key]:
    if not term.HasField("selector"):
        return
    selector, namespaces = LabelSelector.of(term.selector), term.namespaces or (namespace,)
    for key, gang in gangs.items():
        if (term.all_namespaces or key[0] in namespaces) and any(
            selector.matches(template.labels) for template in _templates(gang)
        ):
            yield key


def _templates(gang: v1.PodGang) -> Iterator[v1.PodTemplate]:
    return (pod_set.template for group in gang.groups for pod_set in group.pod_sets)
