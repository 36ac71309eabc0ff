"""A command that names everything that is wrong with its options at once, where click stops at the
first: options that do not exist, wrong values, and options that do not go together. It warns of
options that are given twice, of which the last one counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import click

from placement.cli.failures import warn

#: What is wrong with values that are right one by one, by the names of their parameters.
Check = Callable[[Mapping[str, Any]], Iterator[str]]

_Callback = TypeVar("_Callback", bound=Callable[..., Any])
_CHECKS: Final = "checks"


def checked(check: Check) -> Callable[[_Callback], _Callback]:
    """A decorator of a command: the check is made before it runs."""

    def decorate(command: _Callback) -> _Callback:
        setattr(command, _CHECKS, (check, *getattr(command, _CHECKS, ())))
        return command

    return decorate


class Command(click.Command):
    """Reads its arguments as click does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        given = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.UsageError as first:
            messages = list(dict.fromkeys(self._mistakes(given)))
            if len(messages) < 2:
                raise
            raise _wrong(messages, ctx) from first
        checks: tuple[Check, ...] = getattr(self.callback, _CHECKS, ())
        messages = [message for check in checks for message in check(ctx.params)]
        if messages and not ctx.resilient_parsing:
            raise _wrong(messages, ctx)
        if not ctx.resilient_parsing:
            warn(self._overruled(given))
        return rest

    def _overruled(self, args: Sequence[str]) -> Iterator[str]:
        """Options with one value that are given several times: scripts may overrule their own."""
        context = click.Context(self)
        _, _, given = self.make_parser(context).parse_args(list(args))
        for param, times in Counter(given).items():
            if (
                isinstance(param, click.Option)
                and times > 1
                and not (param.multiple or param.is_flag)
            ):
                name = " / ".join(param.opts)
                yield f"{name}: is given {times} times; the last one counts"

    def _mistakes(self, args: Sequence[str]) -> Iterator[str]:
        context = click.Context(self)
        left = list(args)
        while True:
            try:
                values, more, given = self.make_parser(context).parse_args(list(left))
                break
            except (click.NoSuchOption, click.BadOptionUsage) as error:
                yield error.format_message()
                place = _place(left, error.option_name)
                if place is None:
                    return
                del left[place]
        for param in dict.fromkeys([*given, *self.params]):
            if param.required and param.name not in values:
                yield click.MissingParameter(ctx=context, param=param).format_message()
            for value in _each(param, values.get(param.name or "")):
                try:
                    param.type_cast_value(context, value)
                except click.BadParameter as error:
                    error.ctx = context
                    error.param = param
                    yield error.format_message()
        # Else they may be the values of options that do not exist.
        if more and len(left) == len(args):
            yield f"Got unexpected extra arguments ({' '.join(more)})"


def _wrong(messages: Sequence[str], context: click.Context) -> click.UsageError:
    return click.UsageError("\n       ".join(messages), context)


def _place(args: Sequence[str], option: str) -> int | None:
    """Where an option is given, as `--name`, `--name=value` or `-nvalue`."""
    short = not option.startswith("--")
    for place, one in enumerate(args):
        if one.partition("=")[0] == option or (short and one.startswith(option)):
            return place
    return None


def _each(param: click.Parameter, value: Any) -> list[Any]:
    """The values of a parameter, one by one."""
    if not isinstance(value, (str, list, tuple)):
        return []
    return [[one] for one in value] if param.multiple else [value]
