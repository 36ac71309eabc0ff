"""Writes cluster.yaml: an NVL72 cluster that is partly in use, from the drawing below.

    python examples/nvl72/generate.py

The drawing is the source: change a character, run the script, plan again. Nothing is random.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

#: Block to its NVLink domains, each a row of 18 compute trays with four GPUs.
#: ``#`` all GPUs in use, ``1``-``3`` so many in use, ``.`` free, ``c`` cordoned, ``x`` not ready.
CLUSTER = {
    "a": (
        "##################",
        ".......c..........",
        "######.......#....",
        "######1.2...#.....",
        "#######...##......",
        "##################",
        "############......",
        "####.#............",
    ),
    "b": (
        "...........x......",
        "###############3..",
        "##......#.........",
        "##################",
        "########1#.#......",
        "####c###..........",
        "#############.....",
        "######2...........",
    ),
}
CPU_NODES = 6

TRAY = "&tray {allocatable: {cpu: '140', memory: 900Gi, pods: '110', nvidia.com/gpu: '4'}}"
CPU = "&cpu {allocatable: {cpu: '96', memory: 384Gi, pods: '110'}}"
NOT_READY = """\
    allocatable: {cpu: '140', memory: 900Gi, pods: '110', nvidia.com/gpu: '4'}
    conditions: [{type: Ready, status: 'False', reason: KubeletNotReady}]"""
GPU_TAINT = "&taint [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]"

#: What one GPU comes with: its share of a tray.
CPU_A_GPU, MEMORY_A_GPU = 32, 200


def main() -> None:
    argparse.ArgumentParser(description=__doc__.split("\n")[0]).parse_args()
    target = Path(__file__).with_name("cluster.yaml")
    target.write_text("\n".join(_lines()) + "\n")
    print(f"wrote {target}")


def _lines() -> Iterator[str]:
    yield "# Made by generate.py, which draws it. Values that repeat are YAML anchors."
    yield "apiVersion: v1"
    yield "kind: List"
    yield "items:"
    known: set[str] = set()
    for block, domains in CLUSTER.items():
        for number, trays in enumerate(domains):
            yield f"# block {block}, NVLink domain {block}{number}: {trays}"
            for position, state in enumerate(trays):
                name = f"{block}{number}-t{position:02}"
                yield from _node(name, block, f"{block}{number}", state, known)
                used = 4 if state == "#" else int(state) if state.isdigit() else 0
                if used:
                    yield from _running_pod(name, used, known)
        yield f"# block {block}, nodes without GPUs"
        for number in range(CPU_NODES):
            yield from _node(f"{block}-cpu{number}", block, "", ".", known)


def _node(name: str, block: str, domain: str, state: str, known: set[str]) -> Iterator[str]:
    # A real value is the NVLink cluster's UUID and the clique in it: "7b968a6d-....0".
    clique = f", nvidia.com/gpu.clique: {domain}.0" if domain else ""
    yield "- apiVersion: v1"
    yield "  kind: Node"
    yield f"  metadata: {{name: {name}, labels: {{topology.example.com/block: {block}{clique}}}}}"
    spec = [f"taints: {_once(GPU_TAINT, known)}"] if domain else []
    spec += ["unschedulable: true"] if state == "c" else []
    yield f"  spec: {{{', '.join(spec)}}}"
    if state == "x":
        yield "  status:"
        yield NOT_READY
    else:
        yield f"  status: {_once(TRAY if domain else CPU, known)}"


def _running_pod(node: str, gpus: int, known: set[str]) -> Iterator[str]:
    requests = (
        f"&gpu{gpus} [{{name: main, resources: {{requests: {{cpu: '{CPU_A_GPU * gpus}', "
        f"memory: {MEMORY_A_GPU * gpus}Gi}}, limits: {{nvidia.com/gpu: '{gpus}'}}}}}}]"
    )
    yield "- apiVersion: v1"
    yield "  kind: Pod"
    yield f"  metadata: {{namespace: research, name: run-{node}}}"
    yield f"  spec: {{nodeName: {node}, containers: {_once(requests, known)}}}"
    yield "  status: {phase: Running}"


def _once(value: str, known: set[str]) -> str:
    """The value with its anchor the first time, a reference to it from then on."""
    anchor = value.split(" ", 1)[0]
    if anchor in known:
        return anchor.replace("&", "*", 1)
    known.add(anchor)
    return value


if __name__ == "__main__":
    main()
