"""Kubernetes objects to a placement request.

``load`` reads files, ``translate`` turns what was read into a request, and
``expand`` says what Grove would make of PodCliqueSets::

    from placement.kubernetes import load, translate

    translation = translate(load(["cluster.yaml", "workloads/"]))
    for warning in translation.warnings:
        print(warning)
    placement = client.compute(translation.request)

What is honoured, refused and ignored of a pod is listed in
`placement.kubernetes.pods.podspec`. Everything wrong with the input comes at once, as
`InputError.problems`.
"""

from placement.kubernetes.files.loading import load
from placement.kubernetes.grove.expand import Expansion, expand, expand_all
from placement.kubernetes.joined_gangs import Parts, in_parts, own_gangs, whole_of
from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.problems import InputError, Problem
from placement.kubernetes.translate import Translation, translate

__all__ = [
    "Expansion",
    "InputError",
    "Object",
    "Objects",
    "Parts",
    "Problem",
    "Translation",
    "expand",
    "expand_all",
    "in_parts",
    "load",
    "own_gangs",
    "translate",
    "whole_of",
]
