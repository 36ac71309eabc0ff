"""Templates that pods with the same needs share; and which pods the rules between pods see. Labels
matter to placement only where a selector of the input reads them: a rule between pods, the owners
of a reservation, a disruption budget. All others are dropped, so that an index label does not make
every pod of a group different, and only those running pods are sent that some rule can see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from placement import v1
from placement.kubernetes.pods.needs import Needs
from placement.kubernetes.pods.pod_rules import AffinityTerm, Spread
from placement.kubernetes.pods.pods import Pod
from placement.kubernetes.pods.podspec import PodSpec, resources_message
from placement.kubernetes.values.selectors import LabelSelector

_T = TypeVar("_T")
_Rule = AffinityTerm | Spread

#: Namespace and labels that a selector reads: all by which selectors can distinguish pods.
_Identity = tuple[str, tuple[tuple[str, str], ...]]


class Templates:
    """Makes templates of pods, and lists the `running` pods that those which may come must know.

    These are the `pending` ones and the `movable` ones, which run and may be moved.
    `watched` are further selectors that look at labels, each with its namespace ("" for all).
    `added` are labels that pods get besides, by their resource names.
    """

    def __init__(
        self,
        *,
        pending: Iterable[Pod],
        running: Iterable[Pod],
        movable: Iterable[Pod] = (),
        watched: Iterable[tuple[str, LabelSelector]] = (),
        added: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._added = added or {}
        self._pending = tuple(pending)
        self._running = tuple(running)
        self._movable = {pod.key: pod for pod in movable}
        everywhere = _seen_keys((*self._pending, *self._movable.values()), self._running)
        own: dict[str, set[str]] = {}
        for namespace, selector in watched:
            own.setdefault(namespace, set()).update(selector.keys)
        everywhere |= own.pop("", set())
        self._keys = tuple(sorted(everywhere))
        self._own_keys = {n: tuple(sorted(everywhere | keys)) for n, keys in own.items()}
        self._by_spec: dict[tuple[object, ...], v1.PodTemplate] = {}
        self._by_content: dict[bytes, v1.PodTemplate] = {}

    def of(self, pod: Pod) -> v1.PodTemplate:
        """The template of a pod; one and the same object for pods that ask for the same."""
        labels = self._seen(pod)
        if self._added:
            labels += tuple(sorted(self._added.get(pod.resource_name, {}).items()))
        # What a waiting pod uses besides, its gang says.
        refused = bool(pod.node and (pod.spec.unsupported or pod.needs.unsupported))
        key = (id(pod.spec), id(pod.needs), labels, refused)
        template = self._by_spec.get(key)
        if template is None:
            template = _template(pod.spec, pod.needs, dict(labels))
            template.unsupported.extend(pod.unsupported if refused else ())
            content = template.SerializeToString(deterministic=True)
            template = self._by_spec[key] = self._by_content.setdefault(content, template)
        return template

    def running_pods(self) -> list[v1.RunningPod]:
        """The running pods that see one that may come, or that the rule of such a one sees."""
        looks = self._looks()
        pending = self._anchored(self._pending)
        all_that_come = self._anchored((*self._pending, *self._movable.values()))
        seen: dict[_Identity, bool] = {}
        away: dict[tuple[int, _Identity, bool], list[v1.PodAffinityTerm]] = {}
        result = []
        for pod in self._running:
            identity = self._identity(pod)
            if identity not in seen:
                labels = dict(identity[1])
                seen[identity] = any(
                    look.sees(pod.namespace, labels) for look in looks.near(identity[1])
                )
            own: list[v1.PodAffinityTerm] = []
            if pod.spec.anti_affinity:
                # What a movable pod itself keeps away, its template says.
                told = pod.key in self._movable
                key = (id(pod.spec), identity, told)
                if key not in away:
                    others = pending if told else all_that_come
                    away[key] = _keeping_away(pod.spec, identity, others)
                own = away[key]
            if seen[identity] or own:
                result.append(
                    v1.RunningPod(
                        name=pod.resource_name,
                        node=f"nodes/{pod.node}",
                        labels=dict(identity[1]),
                        required_anti_affinity=own,
                    )
                )
        return result

    def _anchored(self, pods: Iterable[Pod]) -> _Anchored[_Identity]:
        """The identities of pods, each once."""
        found: _Anchored[_Identity] = _Anchored()
        for identity in dict.fromkeys(map(self._identity, pods)):
            found.add(identity, identity[1])
        return found

    def _looks(self) -> _Anchored[_Look]:
        """Every rule by which a pod that may come looks for others, each once."""
        carriers: dict[tuple[int, _Identity], PodSpec] = {}
        for pod in (*self._pending, *self._movable.values()):
            if pod.spec.has_rules_between_pods:
                carriers.setdefault((id(pod.spec), self._identity(pod)), pod.spec)
        known: set[tuple[str, _Rule]] = set()
        looks: _Anchored[_Look] = _Anchored()
        for (_, (namespace, labels)), spec in carriers.items():
            own = dict(labels)
            rules: tuple[_Rule, ...] = (*spec.affinity, *spec.anti_affinity, *spec.spread)
            for rule in rules:
                resolved = rule.resolved(own)
                if resolved.selector is not None and (namespace, resolved) not in known:
                    known.add((namespace, resolved))
                    looks.add(_Look(namespace, resolved), resolved.selector.anchors)
        return looks

    def _identity(self, pod: Pod) -> _Identity:
        return pod.namespace, self._seen(pod)

    def _seen(self, pod: Pod) -> tuple[tuple[str, str], ...]:
        labels = pod.labels
        keys = self._own_keys.get(pod.namespace, self._keys)
        return tuple((key, labels[key]) for key in keys if key in labels)


class _Look:
    """A resolved rule of a pod in a namespace."""

    __slots__ = ("_namespace", "_rule")

    def __init__(self, namespace: str, rule: _Rule) -> None:
        self._namespace = namespace
        self._rule = rule

    def sees(self, namespace: str, labels: Mapping[str, str]) -> bool:
        rule = self._rule
        if isinstance(rule, AffinityTerm):
            return rule.matches(self._namespace, namespace, labels)
        return (
            namespace == self._namespace
            and rule.selector is not None
            and rule.selector.matches(labels)
        )


class _Anchored(Generic[_T]):
    """Things found by labels, of which each has some; those with None are always found."""

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str] | None, list[_T]] = {}
        self._all: list[_T] = []

    def add(self, thing: _T, labels: Iterable[tuple[str, str]] | None) -> None:
        self._all.append(thing)
        for label in (None,) if labels is None else labels:
            self._by_label.setdefault(label, []).append(thing)

    def near(self, labels: Iterable[tuple[str, str]] | None) -> Iterator[_T]:
        """All that may match something with these labels; None asks for all."""
        if labels is None:
            yield from self._all
            return
        for label in (None, *labels):
            yield from self._by_label.get(label, ())


def _seen_keys(coming: Iterable[Pod], running: Iterable[Pod]) -> set[str]:
    """The labels that some rule between pods looks at, of those that may come or of others."""
    rules: dict[int, tuple[_Rule, ...]] = {}
    for pod in coming:
        spec = pod.spec
        rules[id(spec)] = (*spec.affinity, *spec.anti_affinity, *spec.spread)
    for pod in running:
        # Of a pod that stays only the anti-affinity still counts.
        rules.setdefault(id(pod.spec), pod.spec.anti_affinity)
    keys: set[str] = set()
    for rule in (rule for several in rules.values() for rule in several):
        keys |= rule.selector.keys if rule.selector is not None else set()
        keys.update(rule.match_label_keys)
        if isinstance(rule, AffinityTerm):
            keys.update(rule.mismatch_label_keys)
    return keys


def _keeping_away(
    spec: PodSpec, identity: _Identity, coming: _Anchored[_Identity]
) -> list[v1.PodAffinityTerm]:
    """The anti-affinity terms of a running pod that match some pod that may come."""
    namespace, labels = identity
    own = dict(labels)
    terms = [term.resolved(own) for term in spec.anti_affinity]
    return [
        term.message()
        for term in terms
        if term.selector is not None
        and any(
            term.matches(namespace, other, dict(theirs))
            for other, theirs in coming.near(term.selector.anchors)
        )
    ]


def _template(spec: PodSpec, needs: Needs, labels: Mapping[str, str]) -> v1.PodTemplate:
    template = v1.PodTemplate(
        requests=resources_message(needs.requests),
        labels=labels,
        node_selector=spec.node_selector,
        tolerations=spec.tolerations,
        required_affinity=[term.resolved(labels).message() for term in spec.affinity],
        required_anti_affinity=[term.resolved(labels).message() for term in spec.anti_affinity],
        host_ports=[port.message() for port in spec.host_ports],
        spread_constraints=[constraint.resolved(labels).message() for constraint in spec.spread],
    )
    template.MergeFrom(needs.template)
    return template
