"""What the rest of the controller knows about a scheduler that takes advice."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Protocol

from controller.advice.advice import Advice, Mark
from controller.advice.objects import Objects
from controller.binding.apply import Binding
from controller.cluster.gang_state import Body, Key


class Progress(StrEnum):
    """How far an adapter is with advice."""

    WRITING = "writing"
    """More has to be written, or another writer has to act before we go on."""
    DONE = "done"
    """All is written: it is the scheduler's turn."""
    FAILED = "failed"
    """It can no longer be followed."""


class Adapter(Protocol):
    """Writes advice in the way of one scheduler.

    Every method may be called again with the same arguments, after a crash or an error, and
    then does what is left to be done. All raise `placement.cluster.ApiError`.
    """

    @property
    def name(self) -> str:
        """As the settings call it."""

    def waits(self, pod: Body, objects: Objects) -> bool:
        """Whether a pod waits for our advice, and for nothing else."""

    def cannot_advise(self, pod: Body, objects: Objects) -> bool:
        """Whether a pod is held for our advice but can get none: it is released after a while."""

    def is_decided(self, pod: Body, objects: Objects) -> bool:
        """Whether an object says where an unbound pod goes: the pod then takes its room there."""

    def opened(self, pod: Body) -> Body:
        """The pod without what holds it back, for planning."""

    def may_use(self, node: Body) -> bool:
        """Whether pods may be advised to go to a node."""

    def prepare(self, advice: Advice, objects: Objects) -> Progress:
        """Writes what only holds the room, and can be taken back whole; `DONE` when it holds."""

    def is_committed(self, advice: Advice, objects: Objects) -> bool:
        """Whether the scheduler may have begun to follow, so that the rest has to come, too."""

    def act(self, advice: Advice, objects: Objects) -> Progress:
        """Writes what of the advice is not written yet."""

    def finish(self, advice: Advice, objects: Objects) -> None:
        """Takes away what held pods that now run where they should."""

    def undo(self, advice: Advice, objects: Objects) -> None:
        """Takes back what can be taken back; the pods wait for advice again."""

    def complete(self, rest: Collection[Binding], objects: Objects) -> None:
        """After `undo`: releases the rest of a gang that the scheduler already has in part."""

    def left(self, objects: Objects) -> Collection[Mark]:
        """The advice of which objects remain that may hold room."""

    def sweep(self, mark: Mark) -> None:
        """Deletes such objects of advice that is no longer written on any pod."""

    def release(self, pods: Collection[Key], objects: Objects) -> None:
        """Lets the scheduler decide alone about pods that wait for advice."""
