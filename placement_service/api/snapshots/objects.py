"""Versions of Kubernetes objects, read and ready, as `versions` has those of snapshots.

Objects are in order of their kinds, namespaces and names, whatever the order in the request. They
are kept without what translation does not read; their digest is that of all that was sent.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, Self

from placement.kubernetes.objects import Object, Objects
from placement.kubernetes.schema.kinds import Kind, kind_of
from placement.kubernetes.trimming import Trimmer
from placement.kubernetes.v1 import ObjectName, PlaceObjectsRequest
from placement.kubernetes.values.times import newest_of, times_in
from placement_service.api.snapshots.content import Entries
from placement_service.api.snapshots.versions import DECODED, SHARED
from placement_service.entities.errors import InvalidRequest, Violation

#: Objects of one question, those of the base included.
MAX_OBJECTS = 1_500_000

_OBJECTS = PlaceObjectsRequest.OBJECTS_FIELD_NUMBER
_NO_ENTRIES = Entries()


class KnownObject(NamedTuple):
    """An object, its kind with the group, and the times in it, which what is kept of it lacks."""

    kind: Kind
    object: Object
    times: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is sorted and found by; no part of it holds a slash."""
        return _name(self.kind, self.object.namespace, self.object.name)


@dataclass(frozen=True, eq=False)  # no slots: cached_property keeps its value in the instance
class ObjectsVersion:
    """Objects in order, and their encodings.

    `changes` and `changed_bytes` count what the edge keeps to make it from a whole.
    """

    objects: tuple[KnownObject, ...] = ()
    entries: Entries = _NO_ENTRIES
    changes: int = 0
    changed_bytes: int = 0

    @cached_property
    def digest(self) -> bytes:
        return sha256(b"objects" + sha256(self.entries.hashes).digest()).digest()

    @property
    def size(self) -> int:
        """Bytes of all encodings."""
        return self.entries.size

    @property
    def cost(self) -> int:
        """Bytes that it takes in memory, about."""
        if not self.changes:
            return DECODED * self.size
        return SHARED * len(self.objects) + DECODED * self.changed_bytes

    def whole(self) -> bytes:
        """A PlaceObjectsRequest that holds all objects."""
        return b"".join(self.entries.written(_OBJECTS))

    def settled(self) -> Self:
        """The same, told as a whole."""
        return replace(self, changes=0, changed_bytes=0)


NOTHING = ObjectsVersion()


@dataclass(frozen=True, slots=True)
class Step:
    """From one version to the next: objects that are set, and names of those that are gone."""

    base: ObjectsVersion
    told: Sequence[KnownObject]
    gone: Sequence[str]

    def objects(self, told: Objects) -> Objects:
        """All objects after it, to translate; `told` has what was noted when they were read."""
        every = sorted([*self._kept(), *self.told], key=attrgetter("name"))
        by_kind = {
            kind: tuple(one.object for one in several)
            for kind, several in groupby(every, key=attrgetter("kind"))
        }
        return Objects(by_kind, told.problems, told.warnings)

    def newest(self) -> datetime | None:
        """The newest time that any object names, in whatever way it was told of."""
        return newest_of(text for one in (*self.told, *self._kept()) for text in one.times)

    def _kept(self) -> Iterator[KnownObject]:
        """What is still there of the base."""
        other = {*self.gone, *(one.name for one in self.told)}
        return (one for one in self.base.objects if one.name not in other)

    def version(self, size: int) -> ObjectsVersion:
        """The version after it; `size` are the bytes that told of it. The objects are not bad."""
        trim = Trimmer().trim
        change = self.base.entries.changed(
            [_encoding(one.object) for one in self.told],
            [one.name for one in self.told],
            self.gone,
        )
        known = self.base is not NOTHING
        objects = [
            KnownObject(
                kind,
                replace(o, body=trim(o.body), file=f"objects[{o}]", document=0),
                times,
            )
            for kind, o, times in self.told
        ]
        return ObjectsVersion(
            change.arranged(self.base.objects, objects),
            change.content,
            self.base.changes + 1 if known else 0,
            self.base.changed_bytes + size if known else 0,
        )


def step(base: ObjectsVersion, told: Objects, gone: Iterable[ObjectName]) -> Step:
    """What a request changes. Raises InvalidRequest when that cannot be."""
    new = [
        KnownObject(kind, one, times_in(one.body))
        for kind, several in told.by_kind.items()
        for one in several
    ]
    names = _gone(base, {one.name for one in new}, gone)
    if len(base.objects) + len(new) > MAX_OBJECTS:
        problem = f"hold more than {MAX_OBJECTS:,} objects with those of the base"
        raise InvalidRequest([Violation("objects", problem)])
    return Step(base, new, names)


def _gone(base: ObjectsVersion, told: set[str], gone: Iterable[ObjectName]) -> list[str]:
    """The names of objects that are gone; what is of a kind that is not read was never there."""
    names: dict[str, None] = {}
    wrong = []
    for index, one in enumerate(gone):
        kind = kind_of(one.api_version, one.kind)
        if kind is None:
            continue
        name = _name(kind, (one.namespace or "default") if kind.namespaced else "", one.name)
        problem = ""
        if base.entries.find(name) is None:
            problem = "is not in the base"
        elif name in told:
            problem = "is set by this request as well"
        elif name in names:
            problem = "is named twice"
        if problem:
            wrong.append(Violation(f"base.gone[{index}]", f"{name!r} {problem}"))
        names[name] = None
    if wrong:
        raise InvalidRequest(wrong)
    return list(names)


def _name(kind: Kind, namespace: str, name: str) -> str:
    return f"{kind.group}/{kind.name}/{namespace}/{name}"


def _encoding(one: Object) -> bytes:
    """The canonical encoding: the order of keys and white space have no part in it."""
    try:
        text = json.dumps(one.body, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    except RecursionError as error:
        raise InvalidRequest([Violation(one.file, f"{one} is nested too deeply")]) from error
    return text.encode()
