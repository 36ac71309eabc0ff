"""A command that names every wrong value of its options at once, where click stops at the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click


class Command(click.Command):
    """Reads its arguments as click does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.BadParameter as first:
            messages = dict.fromkeys(self._mistakes(given))
            if len(messages) < 2:
                raise
            raise click.UsageError("\n       ".join(messages), ctx) from first

    def _mistakes(self, args: Sequence[str]) -> Iterator[str]:
        context = click.Context(self)
        values, _, given = self.make_parser(context).parse_args(list(args))
        for param in dict.fromkeys([*given, *self.params]):
            for value in _each(param, values.get(param.name or "")):
                try:
                    param.type_cast_value(context, value)
                except click.BadParameter as error:
                    error.ctx = context
                    error.param = param
                    yield error.format_message()


def _each(param: click.Parameter, value: Any) -> list[Any]:
    """The values of a parameter, one by one."""
    if not isinstance(value, (str, list, tuple)):
        return []
    return [[one] for one in value] if param.multiple else [value]
