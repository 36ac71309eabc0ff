"""Inputs of others, where they are at hand: Grove's own workloads and the planning cases.

They lie outside this repository: in the folder named by PLACEMENT_SHARED, or in
``shared`` beside the checkout. Without them these tests are skipped.
"""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from placement.kubernetes import InputError, Objects, Problem, expand, load, translate
from placement.kubernetes.pods.podspec import PodSpecReader
from placement.kubernetes.schema import kinds
from placement.kubernetes.trimming import Trimmer
from tests.shared_inputs import ABSENT, SHARED, found

GROVE = SHARED / "data" / "grove-yaml"
EXPECTED = GROVE / "expected-podgangs.csv"

#: Domains as labels of the same name, for sets whose binding is not in their file.
DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")


@pytest.mark.parametrize("path", [*found("cases/*/input.yaml"), *found("cases/*/snapshot.zip")])
def test_every_case_translates(path: Path) -> None:
    """Nothing is lost: every node, and every pod that is in a gang and has not finished."""
    objects = load([str(path)], strict=True)
    translation = translate(objects)
    # Grove's own workloads name a queue that their files do not hold.
    assert [w for w in translation.warnings if "no limit of queues" not in w.message] == []
    request = translation.request
    assert len(request.snapshot.nodes) == len(objects.nodes)
    sets = [s for gang in request.gangs for g in gang.groups for s in g.pod_sets]
    pods = [pod.name for s in sets for pod in s.pods]
    gated = sum(g.gated_count for gang in request.gangs for g in gang.groups)
    decided = {
        (one.namespace, one.body["spec"]["podName"])
        for one in objects.of_kind(kinds.KAI_BIND_REQUESTS)
    }
    waiting = [
        p for p in objects.pods
        if p.body.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and not p.body["spec"].get("nodeName") and p.key not in decided
    ]  # fmt: skip
    assert len(pods) + gated == len(waiting)
    bound = [pod.name for s in sets for pod in s.bound_pods]
    assert len({*pods, *bound}) == len(pods) + len(bound)


@pytest.mark.parametrize("path", found("cases/*/input.yaml"))
def test_what_is_kept_of_live_objects_says_the_same(path: Path) -> None:
    objects = load([str(path)])
    bodies = [dict(one.body) for several in objects.by_kind.values() for one in several]
    trimmer = Trimmer()
    whole = translate(Objects.of(bodies)).request
    trimmed = translate(Objects.of(map(trimmer.trim, bodies))).request
    for request in (whole, trimmed):
        # Conditions are kept without the time of their change; a program that watches knows the
        # time itself.
        request.snapshot.ClearField("as_of")
    assert trimmed == whole


@pytest.mark.parametrize(
    "path",
    [
        p
        for kind in ("grove-yaml", "dynamo", "koordinator")
        for p in found(f"data/{kind}/**/*.yaml")
    ],
)
def test_every_file_is_expanded_or_refused_with_problems(path: Path) -> None:
    made, problems = _outcome(path)
    assert {body["kind"] for body in made} <= {"ComputeDomain", "PodGang", "Pod"}
    assert all(p.file == str(path) and p.message for p in problems)


def _outcome(path: Path) -> tuple[list[dict[str, Any]], tuple[Problem, ...]]:
    objects = load([str(path)])
    try:
        translate(objects)
        return expand(objects), ()
    except InputError as error:
        return [], error.problems


def rows_by_file() -> dict[str, list[dict[str, str]]]:
    result = defaultdict(list)
    if EXPECTED.exists():
        with EXPECTED.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                result[row["file"]].append(row)
    return result


@pytest.mark.parametrize(
    ("file", "rows"),
    [pytest.param(f, r, id=f) for f, r in sorted(rows_by_file().items())]
    or [pytest.param("", [], marks=pytest.mark.skip(reason=ABSENT), id="none")],
)
def test_grove_makes_the_same_gangs(file: str, rows: list[dict[str, str]]) -> None:
    """Gangs, groups, sizes, requests and constraints of each set, as computed from Grove's rule.

    The table gives constraints as domains, so labels are turned back into them.
    """
    objects = load([str(GROVE / file)])
    domain_of = _domains(objects)
    if not objects.topology_bindings:
        objects = _with_bindings(objects, str(GROVE / file))
    if "invalid" in file:
        # Grove's webhook refuses it, and so does this.
        with pytest.raises(InputError):
            expand(objects)
        return
    made = expand(objects)
    pods = {b["metadata"]["name"]: b for b in made if b["kind"] == "Pod"}
    got = {}
    for gang in (b for b in made if b["kind"] == "PodGang"):
        for row in _rows(gang, pods, domain_of):
            got[row["podgang"], row["podgroup"]] = row
    columns = [c for c in rows[0] if c != "file"]
    for row in rows:
        want = {c: row[c] for c in columns}
        assert got.pop((row["podgang"], row["podgroup"])) == want
    # Of the sets with hundreds of replicas the table lists the first few.
    replicas = {s.name: s.body["spec"]["replicas"] for s in objects.pod_clique_sets}
    assert not [key for key, row in got.items() if replicas[row["podcliqueset"]] < 99]


def _domains(objects: Objects) -> dict[str, dict[str, str]]:
    """Binding -> label -> domain."""
    return {
        b.name: {level["key"]: level["domain"] for level in b.body["spec"]["levels"]}
        for b in objects.topology_bindings
    }


def _with_bindings(objects: Objects, path: str) -> Objects:
    """The objects, and a binding of every name that the sets use."""
    bindings = [
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "ClusterTopologyBinding",
            "metadata": {"name": name},
            "spec": {"levels": [{"domain": d, "key": d} for d in DOMAINS]},
        }
        for name in ("grove-topology", "h100-topology", "tas20-topology")
    ]
    return Objects.of([*bindings, *(s.body for s in objects.pod_clique_sets)], file=path)


def _rows(
    gang: dict[str, Any], pods: dict[str, Any], domain_of: dict[str, dict[str, str]]
) -> list[dict[str, str]]:
    keys = {k: d for several in domain_of.values() for k, d in several.items()}
    metadata, spec = gang["metadata"], gang["spec"]

    def words(holder: dict[str, Any]) -> str:
        constraint = holder.get("topologyConstraint", {}).get("packConstraint", {})
        return ";".join(f"{k}:{keys.get(v, v)}" for k, v in constraint.items())

    rows = []
    for group in spec["podgroups"]:
        members = [pods[r["name"]] for r in group["podReferences"]]
        labels = members[0]["metadata"]["labels"]
        configs = [
            f"{c['name']}={words(c)}"
            for c in spec.get("topologyConstraintGroupConfigs", [])
            if group["name"] in c["podGroupNames"]
        ]
        rows.append(
            {
                "podcliqueset": metadata["labels"]["app.kubernetes.io/part-of"],
                "podgang": metadata["name"],
                "kind": "scaled" if "grove.io/base-podgang" in labels else "base",
                "podgroup": group["name"],
                "pods": str(len(members)),
                "min_replicas": str(group["minReplicas"]),
                "requests_per_pod": _requests(members[0]["spec"]),
                "podgang_constraint": words(spec),
                "group_constraint": ";".join(configs),
                "podgroup_constraint": words(group),
            }
        )
    return rows


def _requests(spec: dict[str, Any]) -> str:
    units = {"cpu": (1, "m"), "memory": (2**20, "Mi")}
    amounts = PodSpecReader().read(spec).requests
    return ";".join(
        f"{r}={a // units.get(r, (1, ''))[0]}{units.get(r, (1, ''))[1]}"
        for r, a in amounts.items()
        if r != "pods"
    )
