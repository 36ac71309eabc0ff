"""The same question, said otherwise."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from placement_service.entities.request import HOSTNAME, BoundPod, PodGroup, Snapshot


@st.composite
def permuted(draw: st.DrawFn, snapshot: Snapshot) -> Snapshot:
    """The same question with nodes, gangs, groups, scopes and running pods in another order."""
    gangs = draw(st.permutations(snapshot.gangs))
    return replace(
        snapshot,
        nodes=tuple(draw(st.permutations(snapshot.nodes))),
        gangs=tuple(
            replace(gang, groups=tuple(draw(st.permutations(gang.groups)))) for gang in gangs
        ),
        running_pods=tuple(draw(st.permutations(snapshot.running_pods))),
        queues=tuple(draw(st.permutations(snapshot.queues))),
        as_of=snapshot.as_of,
    )


def renamed(snapshot: Snapshot) -> Snapshot:
    """The same question with other names for nodes, gangs and pods, in reverse sort order."""

    def new(name: str) -> str:
        head, _, tail = name.rpartition("/")
        return f"{head}/{''.join(chr(219 - ord(c)) if c.isalpha() else c for c in tail)}-renamed"

    def group(old: PodGroup) -> PodGroup:
        return replace(
            old,
            pod_sets=tuple(
                replace(
                    s,
                    pods=tuple(pod._replace(name=new(pod.name)) for pod in s.pods),
                    bound_pods=tuple(
                        replace(pod, name=new(pod.name), node=new(pod.node)) for pod in s.bound_pods
                    ),
                )
                for s in old.pod_sets
            ),
            fixed_pods=tuple(BoundPod(new(pod.name), new(pod.node)) for pod in old.fixed_pods),
        )

    return replace(
        snapshot,
        nodes=tuple(
            replace(
                node,
                name=new(node.name),
                labels={**node.labels, HOSTNAME: new(node.labels[HOSTNAME]).lstrip("/")},
            )
            for node in snapshot.nodes
        ),
        gangs=tuple(
            replace(
                gang,
                name=new(gang.name),
                groups=tuple(group(g) for g in gang.groups),
                base_gang=new(gang.base_gang) if gang.base_gang else "",
                previous_nodes=tuple(new(node) for node in gang.previous_nodes),
            )
            for gang in snapshot.gangs
        ),
        running_pods=tuple(
            replace(pod, name=new(pod.name), node=new(pod.node)) for pod in snapshot.running_pods
        ),
        as_of=snapshot.as_of,
    )
