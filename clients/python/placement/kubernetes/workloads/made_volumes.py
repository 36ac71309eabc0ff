"""Volumes that a controller adds to the pods that it makes.

A claim that is there already says where its volume is. One that will be made along with its pod
counts as one of an ephemeral volume: its class says where it may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from placement.kubernetes.values.reading import At

Volume = Mapping[str, Any]


def volume(name: str, claim: str, there: bool, spec: Any) -> Volume:
    """A volume of a claim with this name, which is there or will be made with this spec."""
    if there or not isinstance(spec, dict):
        return {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    return {"name": name, "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def of_templates(
    templates: Iterable[At], pod: Callable[[int], str], is_there: Callable[[str], bool]
) -> Callable[[int], Sequence[Volume]] | None:
    """Volumes of the i-th pod by claim templates: its claims are named after template and pod."""
    known = [
        (template.get("metadata").get("name").required_text(), template.get("spec").value)
        for template in templates
    ]
    if not known:
        return None

    def found(i: int) -> Iterator[Volume]:
        for name, spec in known:
            claim = f"{name}-{pod(i)}"
            yield volume(name, claim, is_there(claim), spec)

    return lambda i: tuple(found(i))


def with_volumes(template: Mapping[str, Any], more: Sequence[Volume]) -> Mapping[str, Any]:
    """A pod template with further volumes, which come before those of the same name in it."""
    spec = template.get("spec")
    if not more or not isinstance(spec, dict):
        return template
    own = spec.get("volumes") or []
    if not isinstance(own, list):
        return template
    names = {one["name"] for one in more}
    kept = [one for one in own if not (isinstance(one, dict) and one.get("name") in names)]
    return {**template, "spec": {**spec, "volumes": [*kept, *more]}}
