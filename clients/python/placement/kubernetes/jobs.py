"""Jobs, Deployments, StatefulSets and JobSets as gangs.

- A JobSet is one gang: the pods of each job of a replicated job are a group. The annotation for an
  exclusive topology puts each job into a domain of its own. It also excludes other jobs from that
  domain, which has no counterpart here and is refused by name.
- Jobs, Deployments and StatefulSets are read only on request: most of them are no gangs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from placement.kubernetes.objects import Object
from placement.kubernetes.problems import Problem
from placement.kubernetes.reading import At
from placement.kubernetes.workloads import Made, Role, levels_of, template_of, without_pods

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
        required, preferred = levels_of(template)
        role = Role("pod", template_of(template), count, count, required, preferred)
        made.add(one, at, one.name, [role])


def make_job_sets(
    objects: Iterable[Object], pods: Iterable[Object], made: Made, problems: list[Problem]
) -> None:
    """JobSets, each as a gang with a group for every job."""
    for one, at in without_pods(objects, pods, _POD_LABELS, problems):
        notes = at.get("metadata").get("annotations").labels()
        roles = []
        for entry in at.get("spec").get("replicatedJobs").items():
            name = entry.get("name").required_text()
            job = entry.get("template").get("spec")
            template = job.get("template")
            required, preferred = levels_of(template)
            pod, count = template_of(template), _pods_of_job(job)
            roles += [
                Role(f"{name}-{i}", pod, count, count, required, preferred)
                for i in range(entry.get("replicas").integer(1, least=0, most=100_000))
            ]
        unsupported = [f"annotation {_EXCLUSIVE}"] if _EXCLUSIVE in notes else []
        made.add(one, at, one.name, roles, unsupported=unsupported)


def _pods_of_job(spec: At) -> int:
    """How many pods of a Job run at once."""
    parallelism = spec.get("parallelism").integer(1, least=0)
    completions = spec.get("completions")
    return parallelism if completions.absent else min(parallelism, completions.integer(least=0))
