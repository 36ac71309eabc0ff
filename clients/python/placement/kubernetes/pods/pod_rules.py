"""Rules between pods: required affinity and anti-affinity, and topology spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from placement import v1
from placement.kubernetes.pods.namespaces import Namespaces
from placement.kubernetes.values.reading import At
from placement.kubernetes.values.selectors import LabelSelector, Requirement, read_selector

#: A namespace that does not exist: no name can begin so.
_NO_NAMESPACE: Final = "-"


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """A required (anti-)affinity term; see `resolved` for the label keys."""

    selector: LabelSelector | None
    topology_key: str
    namespaces: tuple[str, ...]
    all_namespaces: bool
    match_label_keys: tuple[str, ...]
    mismatch_label_keys: tuple[str, ...]

    def resolved(self, labels: Mapping[str, str]) -> AffinityTerm:
        """The term of a pod with these labels, the label keys folded into the selector.

        This is what the API server does when a pod is created; doing it again changes nothing.
        """
        if self.selector is None or not (self.match_label_keys or self.mismatch_label_keys):
            return self
        selector = self.selector.narrowed(
            Requirement(key, operator, (labels[key],))
            for operator, keys in (
                ("In", self.match_label_keys),
                ("NotIn", self.mismatch_label_keys),
            )
            for key in keys
            if key in labels
        )
        return AffinityTerm(
            selector, self.topology_key, self.namespaces, self.all_namespaces, (), ()
        )

    def matches(self, own_namespace: str, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether the term of a pod in `own_namespace` names a pod (once resolved)."""
        if self.selector is None:
            return False
        if not self.all_namespaces and namespace not in (self.namespaces or (own_namespace,)):
            return False
        return self.selector.matches(labels)

    def message(self) -> v1.PodAffinityTerm:
        return v1.PodAffinityTerm(
            selector=None if self.selector is None else self.selector.message(),
            topology_key=self.topology_key,
            namespaces=() if self.all_namespaces else self.namespaces,
            all_namespaces=self.all_namespaces,
        )


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint with DoNotSchedule."""

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    min_domains: int
    ignore_node_affinity: bool
    honor_taints: bool
    match_label_keys: tuple[str, ...]

    def resolved(self, labels: Mapping[str, str]) -> Spread:
        """The constraint of a pod with these labels; as for `AffinityTerm`."""
        if self.selector is None or not self.match_label_keys:
            return self
        selector = self.selector.narrowed(
            Requirement(key, "In", (labels[key],)) for key in self.match_label_keys if key in labels
        )
        return Spread(
            self.max_skew,
            self.topology_key,
            selector,
            self.min_domains,
            self.ignore_node_affinity,
            self.honor_taints,
            (),
        )

    def message(self) -> v1.SpreadConstraint:
        return v1.SpreadConstraint(
            max_skew=self.max_skew,
            topology_key=self.topology_key,
            selector=None if self.selector is None else self.selector.message(),
            min_domains=self.min_domains,
            ignore_node_affinity=self.ignore_node_affinity,
            honor_taints=self.honor_taints,
        )


def read_terms(at: At, known: Namespaces, unsupported: list[str]) -> tuple[AffinityTerm, ...]:
    """Required terms of affinity; those that need labels of unknown namespaces are `unsupported`,
    by their paths.
    """
    result = []
    for term in at.items():
        where = term.get("namespaceSelector")
        named = set(term.get("namespaces").texts())
        everywhere = not where.absent
        wanted = read_selector(where)
        if wanted is not None and wanted.keys:
            matching = known.matching(wanted)
            if matching is None:
                unsupported.append(where.path)
            else:
                # An empty list must not become the pod's own namespace.
                named |= set(matching) or {_NO_NAMESPACE}
                everywhere = False
        result.append(
            AffinityTerm(
                selector=read_selector(term.get("labelSelector")),
                topology_key=term.get("topologyKey").required_text(),
                namespaces=tuple(sorted(named)),
                # A running pod's term over namespaces that are not known is taken to
                # cover all: that keeps away too many pods, but never lets one through.
                all_namespaces=everywhere,
                match_label_keys=term.get("matchLabelKeys").texts(),
                mismatch_label_keys=term.get("mismatchLabelKeys").texts(),
            )
        )
    return tuple(result)


def read_spread(at: At) -> tuple[Spread, ...]:
    """Spread constraints that have to hold; those with ScheduleAnyway are checked and left out."""
    result = []
    for constraint in at.items():
        when = constraint.get("whenUnsatisfiable").choice(
            "DoNotSchedule", ("DoNotSchedule", "ScheduleAnyway")
        )
        affinity = constraint.get("nodeAffinityPolicy").choice("Honor", ("Honor", "Ignore"))
        taints = constraint.get("nodeTaintsPolicy").choice("Ignore", ("Honor", "Ignore"))
        skew = constraint.get("maxSkew")
        if skew.absent:
            skew.problem("is missing")
        spread = Spread(
            max_skew=skew.integer(1, least=1),
            topology_key=constraint.get("topologyKey").required_text(),
            selector=read_selector(constraint.get("labelSelector")),
            min_domains=constraint.get("minDomains").integer(1, least=1),
            ignore_node_affinity=affinity == "Ignore",
            honor_taints=taints == "Honor",
            match_label_keys=constraint.get("matchLabelKeys").texts(),
        )
        if when == "DoNotSchedule":
            result.append(spread)
    return tuple(result)
