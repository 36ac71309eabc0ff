"""Makes `known_fields.json`: the fields of every kind that is read, from published schemas.

    python -m tests.kubernetes.schema.make_known_fields SCHEMAS CRDS...

SCHEMAS is the folder `kubernetes-json-schema` of the package kubernetes-validate, CRDS are
folders of CustomResourceDefinitions (Grove, KAI, Koordinator, Kueue, Volcano). Only names of
fields are taken. All versions of a kind are laid over each other, so that a field counts as
known when any of them has it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import yaml

from placement.kubernetes.schema.kinds import KINDS
from placement.kubernetes.schema.known_fields import PATH

Tree = dict[str, Any]

_RELEASES: Final = ("v1.35.0-local-strict", "v1.36.0-local-strict", "v1.37.0-local-strict")
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_POD_SPEC: Final = "io.k8s.api.core.v1.PodSpec"
#: Kinds whose definitions are not published as such; only what users write.
_BY_HAND: Final[dict[str, Tree]] = {
    "resource.nvidia.com/ComputeDomain": {
        "spec": {
            "numNodes": {},
            "channel": {"resourceClaimTemplate": {"name": {}}, "allocationMode": {}},
        },
        "status": {},
    },
    "kueue.x-k8s.io/WorkloadPriorityClass": {"value": {}, "description": {}},
    "scheduling.x-k8s.io/PodGroup": {
        "spec": {"minMember": {}, "minResources": {}, "scheduleTimeoutSeconds": {}},
        "status": {
            "failed": {},
            "occupiedBy": {},
            "phase": {},
            "running": {},
            "scheduleStartTime": {},
            "scheduled": {},
            "succeeded": {},
        },
    },
}
#: What the latest versions have and published definitions lack.
_NEWER: Final[dict[str, Tree]] = {
    "kai.scheduler/Topology": {"spec": {"levels": {"alias": {}}}},
    "scheduling.run.ai/PodGroup": {
        "spec": {
            "minSubGroup": {},
            "preemptionDelay": {},
            "stalenessGracePeriod": {},
            "subGroups": {"minSubGroup": {}},
        }
    },
}


def main(schemas: Path, crds: Iterable[Path]) -> None:
    core: dict[str, Any] = {}
    for release in _RELEASES:
        text = (schemas / release / "_definitions.json").read_text(encoding="utf-8")
        for name, schema in json.loads(text)["$defs"].items():
            known = core.setdefault(name, {"properties": {}})
            known["properties"].update(schema.get("properties") or {})
            known.setdefault("kinds", schema.get("x-kubernetes-group-version-kind") or [])
    reader = _Reader(core)
    meta, pod_spec = reader.of_definition(_META), reader.of_definition(_POD_SPEC)
    roots: dict[str, Tree] = {}
    wanted = {f"{kind.group}/{kind.name}" for kind in KINDS}
    for name, schema in core.items():
        for one in schema["kinds"]:
            title = f"{one['group']}/{one['kind']}"
            if title in wanted:
                roots[title] = _merged(roots.get(title, {}), reader.of_definition(name))
    for crd in _crds(crds):
        title = f"{crd['spec']['group']}/{crd['spec']['names']['kind']}"
        for version in crd["spec"]["versions"] if title in wanted else ():
            tree = _with_pod_specs(reader.of(version["schema"]["openAPIV3Schema"]), pod_spec)
            roots[title] = _merged(roots.get(title, {}), tree)
    for title, tree in _BY_HAND.items():
        roots[title] = {"apiVersion": {}, "kind": {}, **tree}
    for title, tree in _NEWER.items():
        roots[title] = _merged(roots.get(title, {}), tree)
    types: dict[str, int] = {}
    kinds = {
        title: _number({**tree, "metadata": meta}, types) for title, tree in sorted(roots.items())
    }
    table = [json.loads(text) for text in types]
    PATH.write_text(
        '{"kinds": '
        + json.dumps(kinds, indent=1)
        + ',\n"types": [\n'
        + ",\n".join(json.dumps(one, separators=(",", ":")) for one in table)
        + "\n]}\n",
        encoding="utf-8",
    )
    print(f"{len(kinds)} kinds, {len(table)} types; without: {sorted(wanted - set(kinds))}")


class _Reader:
    """Schemas to trees of field names; an empty tree stands for anything."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._known: dict[str, Tree] = {}

    def of_definition(self, name: str) -> Tree:
        if name not in self._known:
            # What holds itself is not followed a second time.
            self._known[name] = {}
            self._known[name] = self.of(self._definitions[name])
        return self._known[name]

    def of(self, schema: Any) -> Tree:
        if not isinstance(schema, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
            return {}
        if "$ref" in schema:
            return self.of_definition(schema["$ref"].rpartition("/")[2])
        if "items" in schema:
            return self.of(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            below = self.of(schema["additionalProperties"])
            return {"*": below} if below else {}
        return {name: self.of(field) for name, field in (schema.get("properties") or {}).items()}


def _crds(folders: Iterable[Path]) -> Iterable[Any]:
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                if document and document.get("kind") == "CustomResourceDefinition":
                    yield document


def _merged(one: Tree, other: Tree) -> Tree:
    if not (one and other):
        return one or other
    return {
        name: _merged(one[name], other[name]) if name in one and name in other else both[name]
        for both in ({**one, **other},)
        for name in sorted(both)
    }


def _with_pod_specs(tree: Tree, pod_spec: Tree) -> Tree:
    """The tree with the newest PodSpec wherever a definition embeds one."""
    if {"containers", "nodeSelector", "tolerations"} <= tree.keys():
        return pod_spec
    return {name: _with_pod_specs(below, pod_spec) for name, below in tree.items()}


def _number(tree: Tree, types: dict[str, int]) -> int:
    """The number of a tree in the table; equal trees share one."""
    flat = {name: _number(below, types) if below else -1 for name, below in sorted(tree.items())}
    return types.setdefault(json.dumps(flat), len(types))


if __name__ == "__main__":
    main(Path(sys.argv[1]), map(Path, sys.argv[2:]))
