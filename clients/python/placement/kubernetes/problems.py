"""What is wrong with the input, all of it at once.

A person who fixes a file wants the whole list, so nothing here is raised one by
one: reading collects `Diagnostics`, and `InputError` carries all problems among them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    `file` is the path as it was given ("<stdin>" for standard input), `object`
    names what it is about ("Pod ml/a"; empty when the file cannot be read at
    all), `field` is the path of the field ("spec.podgroups[2].minReplicas";
    empty for the whole object). `line` is set for syntax errors, counted from 1.
    """

    file: str
    object: str
    field: str
    message: str
    line: int | None = None

    @property
    def fault(self) -> str:
        """What is wrong, behind the field if it is about one."""
        return f"{self.field}: {self.message}" if self.field else self.message

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return ": ".join(part for part in (where, self.object, self.fault) if part)


@dataclass(slots=True)
class Diagnostics:
    """What was found out about an input so far: `problems`, with which there is no answer, and
    `warnings`, which come with one.
    """

    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)


class InputError(Exception):
    """The input is wrong. `problems` lists everything: files first, then objects by kind."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))
