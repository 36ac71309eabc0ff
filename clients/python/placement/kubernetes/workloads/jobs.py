"""Jobs, Deployments, StatefulSets and JobSets as gangs.

- A JobSet is one gang: the pods of each job of a replicated job are a group. The annotation for an
  exclusive topology puts each job into a domain of its own. It also excludes other jobs from that
  domain, which has no counterpart here and is refused by name.
- Jobs, Deployments and StatefulSets are read only on request: most of them are no gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.values.reading import At
from placement.kubernetes.workloads.kueue_levels import levels_of, roles_of
from placement.kubernetes.workloads.made_volumes import of_templates
from placement.kubernetes.workloads.workloads import Made, Role, Terms, template_of, without_pods

_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
_POD_LABELS: Final = ("batch.kubernetes.io/job-name", "job-name", "jobset.sigs.k8s.io/jobset-name")


def make_plain(
    objects: Iterable[Object], pods: Iterable[Object], made: Made, problems: list[Problem]
) -> None:
    """Jobs, Deployments and StatefulSets, each as a gang of all its pods."""
    for one, at in without_pods(objects, pods, _POD_LABELS, problems):
        spec = at.get("spec")
        count = (
            _pods_of_job(spec) if one.kind == "Job" else spec.get("replicas").integer(1, least=0)
        )
        template = spec.get("template")
        roles, lacking = roles_of("pod", template_of(template), count, count, levels_of(template))
        if one.kind == "StatefulSet":
            first = spec.get("ordinals").get("start").integer(least=0)
            claims = list(spec.get("volumeClaimTemplates").items())
            roles = list(_with_claims(roles, one, claims, first, made.has_claim(one.namespace)))
        made.add(one, at, one.name, roles, Terms(unsupported=lacking))


def make_job_sets(
    objects: Iterable[Object], pods: Iterable[Object], made: Made, problems: list[Problem]
) -> None:
    """JobSets, each as a gang with a group for every job."""
    for one, at in without_pods(objects, pods, _POD_LABELS, problems):
        notes = at.get("metadata").get("annotations").labels()
        roles = []
        unsupported = [f"annotation {_EXCLUSIVE}"] if _EXCLUSIVE in notes else []
        for entry in at.get("spec").get("replicatedJobs").items():
            name = entry.get("name").required_text()
            job = entry.get("template").get("spec")
            own = entry.get("template").get("metadata").get("annotations")
            if _EXCLUSIVE in own.labels():
                unsupported.append(f"annotation {_EXCLUSIVE} of {name}")
            template = job.get("template")
            pod, count = template_of(template), _pods_of_job(job)
            levels = levels_of(template, size=count)
            alone, size = levels.slices
            unsupported += levels.unsupported
            if alone and size != count:
                unsupported.append(f"{levels.cut}, which are no Jobs of {name}")
            job_of = partial(
                Role,
                template=pod,
                count=count,
                minimum=count,
                required=levels.required,
                preferred=levels.preferred,
                scope=levels.together or name,
                alone=alone if size == count else "",
            )
            replicas = entry.get("replicas").integer(1, least=0, most=100_000)
            roles += [job_of(f"{name}-{i}") for i in range(replicas)]
        made.add(one, at, one.name, roles, Terms(unsupported=unsupported))


def _with_claims(
    roles: Iterable[Role],
    one: Object,
    claims: Sequence[At],
    first: int,
    is_there: Callable[[str], bool],
) -> Iterator[Role]:
    """The roles of a StatefulSet, whose pods are numbered from `first` on and have claims each."""
    for role in roles:
        volumes = of_templates(claims, partial(_numbered, one.name, first), is_there)
        yield replace(role, volumes=volumes)
        first += role.count


def _numbered(name: str, first: int, i: int) -> str:
    return f"{name}-{first + i}"


def _pods_of_job(spec: At) -> int:
    """How many pods of a Job run at once."""
    parallelism = spec.get("parallelism").integer(1, least=0)
    completions = spec.get("completions")
    return parallelism if completions.absent else min(parallelism, completions.integer(least=0))
