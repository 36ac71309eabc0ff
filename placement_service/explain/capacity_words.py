"""How counts of room are worded: places, what pods ask for, which resource is short."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from placement_service.explain import wording as words
from placement_service.explain.capacity_bounds import CLUSTER, Headroom, Kind, Kinds, Need, Needs
from placement_service.formulation.arrays import MANY, Bools
from placement_service.formulation.problem import Gang
from placement_service.formulation.rules.draft import is_rule
from placement_service.formulation.sharing_columns import asked_column, whole_column


class CapacityWords:
    """Words about domains, needs and resources of one problem."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._problem = kinds.problem

    def level(self, level: int) -> str:
        """The word for a domain of the level, such as ``rack``."""
        return words.level_word(self._problem.levels[level].key)

    def place(self, level: int, domain: int, *, pinned: bool = False) -> str:
        """A domain by its level and value, such as ``rack a2``; of one that is `pinned` why."""
        if level == CLUSTER:
            return "the cluster"
        why = ", where pods of the gang run," if pinned else ""
        return f"{self.level(level)} {self._problem.levels[level].values[domain]}{why}"

    def of_what(self, needs: Needs) -> str:
        """`` of 8 nvidia.com/gpu``, or each kind with its count."""
        policy = self._problem.policy
        kinds = {k.number: k for n in needs for k, _ in n.kinds}
        short = {i: words.asks(k.template, policy) for i, k in kinds.items()}
        if len(kinds) > len(set(short.values())):
            short = {i: words.asks(k.template, policy, full=True) for i, k in kinds.items()}
        if len(kinds) == 1:
            (text,) = short.values()
            return f" of {text}" if text else ""
        counts: dict[str, int] = {}
        for need in needs:
            options = list(dict.fromkeys(short[k.number] or "nothing" for k, _ in need.kinds))
            text = " or ".join(options)
            counts[text] = counts.get(text, 0) + need.missing
        if len(counts) == 1:
            return f" of {text}"
        return f" ({words.listed([f'{n} of {text}' for text, n in counts.items()])})"

    def subject(self, gang: Gang, needs: Sequence[Need]) -> str:
        """The groups with the needs, empty when they are the whole gang."""
        names = list(dict.fromkeys(need.group for need in needs))
        every = {words.group_word(g.name) for g in self._kinds.snapshot.gangs[gang.index].groups}
        return "" if len(names) == len(every) else words.listed(names)

    def about(self, subjects: Sequence[str], level: int) -> str:
        """Which groups and which level it is about, in brackets, and the full stop."""
        parts = []
        # Several scopes may hold the same groups.
        distinct = list(dict.fromkeys(subjects))
        if len(distinct) > 1:
            parts.append(f"each of {len(distinct)} scopes: {'; '.join(distinct[:5])}")
            if len(distinct) > 5:
                parts[0] += f"; {len(distinct) - 5} more"
        elif distinct[0]:
            parts.append(f"{'groups' if ' and ' in distinct[0] else 'group'} {distinct[0]}")
        if level != CLUSTER:
            parts.append(words.required([self._problem.levels[level].key]))
        return f" ({', '.join(parts)})." if parts else "."

    def binding(
        self,
        headroom: Headroom,
        needs: Needs,
        inside: Bools,
        found: int,
        asked: int,
        exact: bool,
    ) -> str:
        """Which resource is short, when what the pods ask for does not show it."""
        if exact:
            return self.binding_of_one(headroom, needs[0].kinds[0][0], inside, found)
        short: list[str] = []
        rules: list[str] = []
        free = headroom.residual.free
        usable = np.zeros(len(inside), dtype=bool)
        for need in needs:
            for kind, _ in need.kinds:
                usable |= kind.eligible & inside
        for r in np.flatnonzero(self._kinds.resources):
            if whole_column(self._problem.columns[r]) != self._problem.columns[r]:
                # Another column says more.
                continue
            least = sum(n.missing * min(int(k.request[r]) for k, _ in n.kinds) for n in needs)
            there = sum(min(int(v), least) for v in free[usable, r].tolist())
            if there < least:
                name = self._problem.columns[r]
                if is_rule(name):
                    # A rule expressed as an amount; its numbers say nothing to people.
                    rules.append(words.resource_word(name))
                    continue
                whole = words.amount(name, least)
                short.append(f"{words.amount(name, there).split(' ')[0]} of {whole}")
        if short:
            return f"free {'is' if len(short) == 1 else 'are'} {words.listed(short)}"
        return _bind(rules) if rules else ""

    def binding_of_one(self, headroom: Headroom, kind: Kind, inside: Bools, found: int) -> str:
        """The same where pods of one kind were counted exactly."""
        nodes = inside & kind.eligible
        free = headroom.residual.free[nodes]
        alone = {
            self._problem.columns[r]: int(np.minimum(free[:, r] // kind.request[r], MANY).sum())
            for r in np.flatnonzero(self._kinds.resources & (kind.request > 0))
        }
        for r in [r for r in alone if asked_column(r) != r]:
            # What others hold of it is counted apart.
            held, asked = alone.pop(r), asked_column(r)
            alone[asked] = min(held, alone.get(asked, held))
        gpus = [r for r in alone if r in self._problem.policy.gpu_resources]
        kept = [r for r in alone if alone[r] == found < alone[whole_column(r)]]
        if kept and alone[whole_column(kept[0])] < MANY:
            most = min(alone[whole_column(r)] for r in kept)
            return f"with the room of gangs that it may not evict, for {most}"
        alone = {r: count for r, count in alone.items() if whole_column(r) == r}
        if not nodes.any() or not alone:
            return ""
        if any(alone[r] == found for r in gpus) or (not gpus and len(alone) == 1):
            return ""
        binding = [r for r in alone if alone[r] == found]
        others = [f"{words.resource_word(r)} alone would do for {alone[r]}" for r in gpus]
        if binding:
            return ", ".join([_bind(map(words.resource_word, binding)), *others])
        if not self._kinds.has_rules(kind):
            limits = [r for r in sorted(alone) if alone[r] < MANY]
            each = [f"{words.resource_word(r)} for {alone[r]}" for r in limits]
            if len(each) > 1:
                return f"no resource binds by itself: alone there is {words.listed(each)}"
        return ""

    def binding_of_group(
        self, headroom: Headroom, needs: Needs, counts: Sequence[int], inside: Bools
    ) -> list[str]:
        """A group that lacks room even without the others; `counts` are how many pods of each need
        fit.
        """
        for need, found in zip(needs, counts, strict=True):
            if found < need.missing and headroom.exact((need,)):
                binding = self.binding_of_one(headroom, need.kinds[0][0], inside, found)
                text = f"for group {need.group} alone there is room for {found} of {need.missing}"
                return [f"{text}: {binding}" if binding else text]
        return []

    def closed(self, needs: Needs, inside: Bools) -> str:
        """Nodes of a region that rules about single nodes close to all kinds."""
        kinds = [k for n in needs for k, _ in n.kinds]
        shut = inside.copy()
        for kind in kinds:
            shut &= ~self._kinds.open(kind)
        if not shut.any():
            return ""
        return words.closed(self._kinds.rules.counts(kinds[0].template, shut), int(inside.sum()))


def _bind(names: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(names))
    return f"{words.listed(distinct)} {'binds' if len(distinct) == 1 else 'bind'}"
