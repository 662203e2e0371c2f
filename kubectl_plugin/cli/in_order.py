"""A command whose repeatable options count in the order in which they are written."""

from __future__ import annotations

from typing import Any, Final

import click

_KEY: Final = "kubectl_plugin.options_in_order"


class InOrder(click.Command):
    """Remembers the options of a command line in their order, across options: see `in_order`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as every command does, and note which option was written when."""
        values, _, order = self.make_parser(ctx).parse_args(args=list(args))
        rest: dict[str, list[Any]] = {}
        found = []
        for param in order:
            name = param.name or ""
            value = values.get(name)
            if isinstance(param, click.Option) and param.multiple and isinstance(value, list):
                left = rest.setdefault(name, list(value))
                value = left.pop(0)
            found.append((name, value))
        ctx.meta[_KEY] = found
        return super().parse_args(ctx, args)


def in_order(ctx: click.Context) -> list[tuple[str, Any]]:
    """(name, text) of the options of a command line as they were written, one of a repeatable option each."""
    found: list[tuple[str, Any]] = ctx.meta.get(_KEY, [])
    return found
