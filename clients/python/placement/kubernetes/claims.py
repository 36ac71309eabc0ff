"""Resource claims of pods (dynamic resource allocation): what each asks for, or holds.

A claim that stands for a ComputeDomain puts the pod into it. Other claims are refused by name
while a pod waits; what a running pod holds by one is not counted, and its node is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from placement import v1
from placement.kubernetes.compute_domains import ComputeDomains
from placement.kubernetes.podspec import ClaimUse


class ClaimNeeds(NamedTuple):
    """What the claims of a pod come to.

    `requests` are devices that are counted like resources, `nodes` where allocated claims
    are. `unsupported` keeps a waiting pod out; `unknown` is what a running one may hold.
    """

    compute_domain: str = ""
    requests: Mapping[str, int] = {}
    nodes: v1.NodeSelector | None = None
    unsupported: tuple[str, ...] = ()
    unknown: str = ""


class Claims:
    """The claims of an input."""

    def __init__(self, domains: ComputeDomains) -> None:
        self._domains = domains

    def of(self, namespace: str, uses: Iterable[ClaimUse], made: Mapping[str, str]) -> ClaimNeeds:
        """What the claims of a pod ask for; `made` are the claims made for it, by name in it."""
        domains: dict[str, None] = {}
        unsupported = []
        for use in uses:
            if domain := self._domains.of(namespace, use):
                domains[domain] = None
            else:
                unsupported.append(f"spec.resourceClaims[{use.name}]")
        if len(domains) > 1:
            unsupported.append(f"spec.resourceClaims: several ComputeDomains: {', '.join(domains)}")
        return ClaimNeeds(
            compute_domain=next(iter(domains), ""),
            unsupported=tuple(unsupported),
            unknown=unsupported[0] if unsupported else "",
        )
