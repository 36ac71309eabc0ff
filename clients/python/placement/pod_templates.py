"""Requests whose pod sets name their templates, for code that wants to read the pod sets."""

from __future__ import annotations

from placement.v1 import ComputePlacementRequest


def put_templates_inside(request: ComputePlacementRequest) -> None:
    """Puts each named template into the pod sets that name it; the question stays the same.

    A name without a template stays, so that the service can point at it.
    """
    named = request.pod_templates
    if not named:
        return
    for gang in request.gangs:
        for group in gang.groups:
            for pod_set in group.pod_sets:
                if pod_set.template_name in named and not pod_set.HasField("template"):
                    pod_set.template.CopyFrom(named[pod_set.template_name])
                    pod_set.ClearField("template_name")
    named.clear()
