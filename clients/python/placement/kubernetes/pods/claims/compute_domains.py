"""ComputeDomains: pods that share memory over NVLink, one domain per node.

A pod is in a ComputeDomain through a resource claim, made from a template that the domain
names. Grove calls that claim "mnnvl-claim" and makes a domain for each replica of a set; its
pods are known by that even when the ComputeDomain is not in the input.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.pods.podspec import ClaimUse
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At, Findings

#: The name of the claim in the pods that Grove makes.
GROVE_CLAIM: Final = "mnnvl-claim"
#: Device classes of the driver that makes domains begin so.
_CLASSES: Final = "compute-domain-"


class ComputeDomains:
    """Which claim templates stand for which domains."""

    def __init__(self, by_template: dict[tuple[str, str], str]) -> None:
        self._by_template = by_template

    def of(self, namespace: str, use: ClaimUse) -> str:
        """The domain that a claim of a pod stands for, as namespace/name; empty for none."""
        if not use.template:
            return ""
        known = self._by_template.get((namespace, use.template))
        if known is None and use.name == GROVE_CLAIM:
            known = use.template
        return f"{namespace}/{known}" if known else ""


def read_compute_domains(
    domains: Iterable[Object], templates: Iterable[Object], problems: list[Problem]
) -> ComputeDomains:
    """The domains, and the claim templates whose device class is that of domains."""
    found: dict[tuple[str, str], str] = {}
    for one in templates:
        # Anything wrong with it is noted where claims are read.
        devices = At(one.body, {}).get("spec").get("spec").get("devices")
        for request in devices.get("requests").items():
            names = (
                request.get("deviceClassName").value,
                request.get("exactly").get("deviceClassName").value,
            )
            if any(isinstance(name, str) and name.startswith(_CLASSES) for name in names):
                found[one.key] = one.name
    for one in domains:
        findings: Findings = {}
        channel = At(one.body, findings).get("spec").get("channel")
        template = channel.get("resourceClaimTemplate").get("name").required_text()
        found[one.namespace, template] = one.name
        problems += [one.problem(*finding) for finding in findings]
    return ComputeDomains(found)
