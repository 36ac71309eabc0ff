"""Which gang may take whose room, and which groups of gangs share what (rule 15).

PREEMPT: a gang takes from gangs of strictly lower priority, unless its priority class never
preempts. RECLAIM: it also takes from a queue above its guaranteed GPUs, when its own queue
is below and stays within them with the gang. The queues compared are the first two that
differ, going down from the roots. From a queue that is not reclaimable nobody reclaims. The minimum
of a victim is safe until its minimum run time is over; its extras are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from placement_service.entities.eviction import EvictionKind, EvictionPolicy
from placement_service.entities.queues import GPUS, in_millis
from placement_service.entities.request import PodGang, Policy, Snapshot
from placement_service.formulation.open_gangs import (
    has_extras,
    is_anew,
    is_otherwise,
    may_come_again,
    whole_name,
)
from placement_service.formulation.queue_guarantees import QueueGuarantees, QueuePair
from placement_service.formulation.rules.queues import above_limits
from placement_service.formulation.run_times import has_run, young_in

#: At most so many unions of groups that share are added.
MOST_UNIONS = 16


class Winner(NamedTuple):
    """What decides the rights of a gang that gains.

    `reclaims_for` are the queues for which it may reclaim, of its own and those above.
    """

    priority: int
    queue: str
    never_preempts: bool
    reclaims_for: frozenset[str]


class Victim(NamedTuple):
    """What decides the rights on a running gang; `young_in`: queues that keep it still."""

    priority: int
    queue: str
    may_be_preempted: bool
    young_in: tuple[str, ...]


class GuaranteeLack(NamedTuple):
    """A queue for whose guarantee a gang may not reclaim from another, in thousandths of a GPU.

    `of_victim`: the queue of the other does not use more than it is guaranteed. Else the queue
    is the gang's own or one above, and what it uses with what the gang asks for is too much.
    """

    queue: str
    guaranteed: int
    used: int
    asked: int
    of_victim: bool


@dataclass(frozen=True, slots=True)
class Sharing:
    """Winners that may use no more than the room of some victims."""

    rights: EvictionRights
    winners: frozenset[Winner]
    victims: frozenset[Victim]

    def takes(self, gang: PodGang) -> bool:
        """Whether the new pods of a gang count."""
        return self.rights.winner(gang) in self.winners

    def gives(self, gang: PodGang) -> bool:
        """Whether the room of a running gang is part of it."""
        return self.rights.victim(gang) in self.victims


class _Asked(NamedTuple):
    """The GPUs of all pods of a gang, and those of its minimum at least."""

    every: int
    least: int


class EvictionRights:
    """The rights that the policy gives the gangs of a snapshot.

    What all gangs reclaim for a queue stays within its guarantee. So where waiting gangs together
    ask for more, only some may reclaim for it: the most important and oldest first, and only those
    that stay within it with all their pods. With `each_alone` all may whose minimum alone stays
    within it, which is looser than the rules; `in_turn` says whether that makes a difference.
    It is looser also where one right is on a whole gang, and another one on its extras alone: both
    are on all of it. Gangs the other way round (see `reclaim_ways`) gain only with `otherwise`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        *,
        each_alone: bool = False,
        otherwise: bool = False,
    ) -> None:
        self._policy, self._each_alone = policy, each_alone
        self._as_of = snapshot.as_of
        self.guarantees = QueueGuarantees(snapshot, policy)
        moves = policy.eviction is EvictionPolicy.REPACK
        self._above_limits = above_limits(snapshot, policy) if moves else {}
        self.in_turn = False
        self._turn_queues: dict[tuple[int, str, bool], frozenset[str]] = {}
        #: The class of each gang that was asked for, told by its identity: it is often asked for.
        self._classes: dict[int, tuple[PodGang, Victim]] = {}
        #: The classes of gangs that may be reclaimed.
        self._running = {
            self._by_run_time(gang)
            for gang in snapshot.gangs
            if not gang.not_preemptible and any(group.running_count for group in gang.groups)
        }
        self._reclaims_for = (
            self._entitled(snapshot, each_alone)
            if policy.eviction is EvictionPolicy.RECLAIM
            else {}
        )
        self._winners = {
            self.winner(gang)
            for gang in snapshot.gangs
            if any(group.pending_count for group in gang.groups)
            and (otherwise or not is_otherwise(gang.name))
        }

    # --- classes --------------------------------------------------------------

    def winner(self, gang: PodGang) -> Winner:
        """The class of a gang that may gain."""
        mine = self._reclaims_for.get(whole_name(gang.name), frozenset())
        if is_otherwise(gang.name):
            mine ^= self.turn_queues(gang)
        return Winner(gang.priority, gang.queue if mine else "", gang.never_preempts, mine)

    def _entitled(self, snapshot: Snapshot, each_alone: bool) -> dict[str, frozenset[str]]:
        """By gang the queues on its way up that stay within their guarantee with it."""
        taken: Counter[str] = Counter()
        found: dict[str, frozenset[str]] = {}
        for gang in self._in_turn(snapshot):
            gpus, least = self.asked(gang)
            if not self._may_come(gang, least):
                continue
            mine = set()
            for queue in self.guarantees.way(gang.queue):
                left = self.guarantees.guaranteed(queue) - self.guarantees.used[queue]
                if left <= 0 or least > left:
                    continue
                if not self.takes_turn(gang):
                    pass
                elif gpus + taken[queue] <= left:
                    taken[queue] += gpus
                else:
                    self.in_turn = True
                    if not each_alone:
                        continue
                mine.add(queue)
            found[gang.name] = frozenset(mine)
        return found

    def _in_turn(self, snapshot: Snapshot) -> Iterator[PodGang]:
        """Gangs that wait in queues, the most important and oldest first, and each behind the one
        that it is based on: without that it gets nothing.
        """
        now = self._as_of or 0
        asking = sorted(
            (
                gang
                for gang in snapshot.gangs
                if gang.queue
                and not (is_anew(gang.name) or is_otherwise(gang.name))
                and any(g.pending_count for g in gang.groups)
            ),
            key=lambda g: (-g.priority, g.reclaims_later, now if g.created is None else g.created),
        )
        by_name = {gang.name: gang for gang in asking}
        done: set[str] = set()
        for gang in asking:
            for one in (by_name.get(gang.base_gang), gang):
                if one is not None and one.name not in done:
                    done.add(one.name)
                    yield one

    def takes_turn(self, gang: PodGang) -> bool:
        """Whether a gang can gain by reclaiming: it may not preempt all that it could reclaim."""
        return bool(self._gaining_queues(gang))

    def turn_queues(self, gang: PodGang) -> frozenset[str]:
        """The queues for which a gang can gain by reclaiming, and which lack its minimum."""
        least = self.asked(gang).least
        lacking = {queue for queue, n in self.guarantees.lacks(gang.queue).items() if n >= least}
        return self._gaining_queues(gang) & lacking

    def _gaining_queues(self, gang: PodGang) -> frozenset[str]:
        key = gang.priority, gang.queue, gang.never_preempts
        if key not in self._turn_queues:
            preempts = not gang.never_preempts
            self._turn_queues[key] = frozenset(
                pair.mine
                for one in self._running
                if not (preempts and gang.priority > one.priority and one.may_be_preempted)
                and (pair := self._first_that_differ(gang.queue, one.queue)) is not None
                and self.guarantees.is_above(pair.theirs)
                and not self.guarantees.queues[one.queue].not_reclaimable
            )
        return self._turn_queues[key]

    def _may_come(self, gang: PodGang, least: int) -> bool:
        """Whether a gang could come at all; else it would keep others from reclaiming."""
        if gang.uninitialized or gang.refusals:
            return False
        if any(group.pending_count < group.missing for group in gang.groups):
            return False
        counts = least
        for name in reversed(self.guarantees.way(gang.queue)):
            queue = self.guarantees.queues[name]
            if counts > in_millis(queue.limit).get(GPUS, counts):
                return False
            counts = max(0, counts - in_millis(queue.kept).get(GPUS, 0))
            # Of what is not listed gangs that are not preemptible take what they want.
            fixed = self.guarantees.fixed[name] + least if gang.not_preemptible else 0
            if fixed > in_millis(queue.guaranteed).get(GPUS, fixed):
                return False
        return True

    def asked(self, gang: PodGang) -> _Asked:
        """The GPUs that a gang asks for with all its pods, and those of its minimum at least."""
        every = least = 0
        for group in gang.groups:
            sets = [
                (self.guarantees.gpus(s.template), len(s.pods)) for s in group.pod_sets if s.pods
            ]
            every += sum(gpus * pods for gpus, pods in sets)
            least += group.missing * min((gpus for gpus, _ in sets), default=0)
        return _Asked(every, least)

    def says_the_same(self, other: EvictionRights) -> bool:
        """Whether the same gangs may reclaim for the same queues."""
        return self._reclaims_for == other._reclaims_for

    def victim(self, gang: PodGang) -> Victim:
        """The class of a running gang."""
        said = self._said(gang)
        if self._each_alone and has_extras(gang):
            return said._replace(may_be_preempted=True, young_in=())
        return said

    def _said(self, gang: PodGang) -> Victim:
        told = self._by_run_time(gang)
        if self._only_extras_go(told):
            # Only extras of such a gang go, and those are never protected.
            return told._replace(may_be_preempted=True, young_in=())
        return told

    def _by_run_time(self, gang: PodGang) -> Victim:
        """The class that a gang has as a whole."""
        known = self._classes.get(id(gang))
        if known is None:
            queue = gang.queue if self._policy.eviction is EvictionPolicy.RECLAIM else ""
            way = [self.guarantees.queues[name] for name in self.guarantees.way(queue)]
            found = Victim(
                gang.priority,
                queue,
                has_run(gang, gang.minimum_run_time, self._as_of),
                young_in(gang, way, self._as_of),
            )
            known = self._classes[id(gang)] = gang, found
        return known[1]

    # --- rights ---------------------------------------------------------------

    def may_be_disturbed(self, gang: PodGang) -> bool:
        """Whether any gang that may gain could gain by this one."""
        if gang.not_preemptible or (self.keeps_its_minimum(gang) and not has_extras(gang)):
            return False
        if self._policy.eviction is EvictionPolicy.REPACK:
            return (
                bool(self._winners) and may_come_again(gang) and not self.runs_above_a_limit(gang)
            )
        victim = self.victim(gang)
        return any(self.kind(winner, victim) is not None for winner in self._winners)

    def runs_above_a_limit(self, gang: PodGang) -> bool:
        """Whether its queue, or one above, holds more than its limit of something that it has: a
        pod that moves there is a new one.
        """
        over = self._above_limits.get(gang.queue, frozenset())
        sets = (s for group in gang.groups for s in group.pod_sets if s.bound_pods and over)
        return any(self.guarantees.amount(s.template, r) for s in sets for r in over)

    def keeps_its_minimum(self, gang: PodGang) -> bool:
        """Whether only the extras of a gang may go: no gang may take all of it yet."""
        return self._only_extras_go(self._by_run_time(gang))

    def _only_extras_go(self, told: Victim) -> bool:
        if self._policy.eviction is EvictionPolicy.REPACK:
            return not told.may_be_preempted
        return not (told.may_be_preempted and not told.young_in) and all(
            self.kind(winner, told) is None for winner in self._winners
        )

    def are_all_said(self, gang: PodGang) -> bool:
        """Whether `victim` says all rights on a gang.

        It does not where one right is on the whole gang, and another one on its extras alone.
        """
        if not has_extras(gang):
            return True
        said = self._said(gang)
        every = said._replace(may_be_preempted=True, young_in=())
        return all(self.kind(w, said) is self.kind(w, every) for w in self._winners)

    def kind(self, winner: Winner, victim: Victim) -> EvictionKind | None:
        """By which right a winner takes the room of a victim, None without any."""
        if (
            winner.priority > victim.priority
            and not winner.never_preempts
            and victim.may_be_preempted
        ):
            return EvictionKind.PREEMPT
        return EvictionKind.RECLAIM if self._may_reclaim(winner, victim) else None

    def _may_reclaim(self, winner: Winner, victim: Victim) -> bool:
        pair = self._first_that_differ(winner.queue, victim.queue)
        return (
            pair is not None
            and pair.mine in winner.reclaims_for
            and pair.theirs not in victim.young_in
            and self.guarantees.is_above(pair.theirs)
            and not self.guarantees.queues[victim.queue].not_reclaimable
        )

    def is_withheld(self, gang: PodGang, victim: PodGang) -> bool:
        """Whether a gang could only reclaim from a running one whose queue is not reclaimable."""
        differ = self._first_that_differ(gang.queue, victim.queue) is not None
        return differ and self.guarantees.queues[victim.queue].not_reclaimable

    def is_young(self, gang: PodGang, victim: PodGang) -> bool:
        """Whether a running gang is safe from reclaim by a gang, because of its run time."""
        pair = self._first_that_differ(gang.queue, victim.queue)
        return pair is not None and pair.theirs in self._by_run_time(victim).young_in

    def lack_of_guarantee(self, gang: PodGang, victim: PodGang) -> GuaranteeLack | None:
        """Why a gang may not reclaim from a running one in another queue, None where it may."""
        pair = self._first_that_differ(gang.queue, victim.queue)
        if pair is None:
            return None
        mine, theirs = pair
        if mine not in self._reclaims_for.get(gang.name, ()):
            asked = self.asked(gang).least
            return self._lack(mine, asked)
        if not self.guarantees.is_above(theirs):
            return self._lack(theirs, 0, of_victim=True)
        return None

    def _lack(self, queue: str, asked: int, *, of_victim: bool = False) -> GuaranteeLack:
        guaranteed, used = self.guarantees.guaranteed(queue), self.guarantees.used[queue]
        return GuaranteeLack(queue, guaranteed, used, asked, of_victim)

    def _first_that_differ(self, mine: str, theirs: str) -> QueuePair | None:
        """The first two queues that differ on the ways down, where the policy compares any."""
        if self._policy.eviction is not EvictionPolicy.RECLAIM or not (mine and theirs):
            return None
        return self.guarantees.first_that_differ(mine, theirs)

    # --- who shares -----------------------------------------------------------

    def sharings(self, victims: Iterable[PodGang]) -> list[Sharing]:
        """Every group of winners that may use the room of some victims and not of all.

        Together the winners of a sharing use no more than what is free and what its
        victims leave. For priorities alone the groups form a chain, which is enough (Hall's
        condition); unions of other groups are added while they are few.
        """
        every = frozenset(self.victim(gang) for gang in victims)
        allowed = {
            w: frozenset(v for v in every if self.kind(w, v) is not None) for w in self._winners
        }
        found = dict.fromkeys(sorted(set(allowed.values()), key=lambda s: (len(s), sorted(s))))
        for one in list(found):
            for other in list(found):
                if len(found) < MOST_UNIONS:
                    found.setdefault(one | other)
        return [
            Sharing(self, frozenset(w for w, mine in allowed.items() if mine <= some), some)
            for some in found
            if some != every
        ]
