"""Dashboard, alerts and PodMonitors ask for what is there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from controller.runtime.metrics import Metrics as ControllerMetrics
from placement_service.api.metrics import Metrics as ServiceMetrics
from tests.deploy.kustomization import identity, rendered
from tests.deploy.manifests import DEPLOY, with_component


def exported() -> set[str]:
    """The names of everything that service and controller export."""
    registries = (ServiceMetrics().registry, ControllerMetrics().registry)
    found = set()
    for family in (family for registry in registries for family in registry.collect()):
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
        found |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return found


def queries() -> Iterator[str]:
    dashboard = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (one["query"] for one in dashboard["templating"]["list"] if one["type"] == "query")
    rules = yaml.safe_load((DEPLOY / "monitoring" / "alerts.yaml").read_text())
    for group in rules["spec"]["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_what_the_dashboard_and_the_alerts_ask_for_is_there() -> None:
    asked = {
        name
        for query in queries()
        for name in re.findall(r"\b(?:placement_[a-z]+|process)_[a-z_]+", query)
    }
    assert asked <= exported()
    # And the other way round: what is measured is shown, but for what others show better.
    own = {name for name in exported() if name.startswith("placement_")}
    families = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in own}
    shown = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in asked}
    assert families - shown <= {
        "placement_controller_stale_plans",
        "placement_controller_watch_events",
        "placement_controller_lists",
    }


@pytest.mark.parametrize("program", ["service", "controller"])
def test_a_program_that_is_gone_is_missed(program: str) -> None:
    """What exports nothing is neither zero nor less than one."""
    was_there = rf"last_over_time\(placement_{program}_\w+\[1d\]\)\) unless "
    assert any(re.search(was_there, query) for query in queries())


def test_labels_that_are_asked_for_are_there() -> None:
    labels = {"le", "namespace", "pod"}
    for metrics in (ServiceMetrics(), ControllerMetrics()):
        for metric in vars(metrics).values():
            labels |= set(getattr(metric, "_labelnames", ()))
    for query in queries():
        for names in re.findall(r"by \(([^)]*)\)", query):
            assert {name.strip() for name in names.split(",")} <= labels, query
        assert set(re.findall(r"(\w+)(?:=~|!=|=)\"", query)) <= labels, query


def test_pod_monitors_find_the_pods_and_their_ports(tmp_path: Path) -> None:
    bodies = rendered(with_component("monitoring", "bind", tmp_path))
    deployments = {
        identity(body)[1:]: body["spec"]["template"]
        for body in bodies
        if body["kind"] == "Deployment"
    }
    monitors = [body for body in bodies if body["kind"] == "PodMonitor"]
    assert {identity(monitor)[1:] for monitor in monitors} == deployments.keys()
    policies = [body["spec"] for body in bodies if body["kind"] == "NetworkPolicy"]
    for monitor in monitors:
        pod = deployments[identity(monitor)[1:]]
        selected = monitor["spec"]["selector"]["matchLabels"]
        assert selected.items() <= pod["metadata"]["labels"].items()
        (container,) = pod["spec"]["containers"]
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}
        # And Prometheus, which may be anywhere, is let through.
        assert any(
            policy["podSelector"].get("matchLabels") == selected
            and any(
                "from" not in rule and rule["ports"][0]["port"] == endpoint["port"]
                for rule in policy.get("ingress", ())
            )
            for policy in policies
        )
