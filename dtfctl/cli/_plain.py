"""Commands that take values as they are that need nothing done to them: texts, flags, what was not given.

Typer has pydantic check each value, also those that cannot be wrong, and importing that takes a third of the time of a
short command. What is to be converted, or is missing, is still Typer's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args, get_origin, get_type_hints

from typer.core import TyperCommand, TyperGroup

from dtfctl.cli._groups import GROUPS


class _Plain:
    """Mixed into Typer's classes."""

    callback: Callable[..., Any] | None

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        types: Mapping[str, Any] = {} if self.callback is None else get_type_hints(self.callback)
        for parameter in found:
            if "process_value" not in vars(parameter):
                # What is no parameter of the function is Typer's own: help and completion, which are flags.
                parameter.process_value = _process(parameter, types.get(parameter.name, bool))
        return found


class PlainCommand(_Plain, TyperCommand):
    """A command."""


class PlainGroup(_Plain, TyperGroup):
    """The commands together, and the options before them."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in GROUPS.items():
            found = [(name, self.commands[name].get_short_help_str(limit=90)) for name in names]
            with formatter.section(title):
                formatter.write_dl(found)


def _process(parameter: Any, hint: Any) -> Callable[[Any, Any], Any]:
    """Typer's conversion of a parameter's value, for those values that are not plain."""
    convert = parameter.process_value
    kinds = [kind for kind in (hint, *get_args(hint)) if isinstance(kind, type) and get_origin(kind) is None]
    are_texts = list[str] in (hint, *get_args(hint))
    many = parameter.nargs != 1 or parameter.multiple

    def process_value(context: Any, given: Any) -> Any:
        if given is None:
            is_plain, value = not parameter.required, () if many else None
        elif many:
            is_plain, value = are_texts and isinstance(given, tuple) and given != (), given
        else:
            is_plain, value = isinstance(given, tuple(kinds)), given
        if not is_plain:
            return convert(context, given)
        value = list(value) if many and value else value
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    return process_value
