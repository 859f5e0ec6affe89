"""YAML text to a tree of nodes with places, under the rules of YAML 1.2.

PyYAML follows YAML 1.1, where `no` is False, `1:30` is ninety and a repeated key silently wins. Here only the core
scalars of YAML 1.2 have a type, and what 1.1 and 1.2 read differently, or what a spec never needs (tags, merge keys,
several documents), is refused with its place. Values are not built: `parse.py` reads the nodes.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from dtfctl.errors import Signal
from dtfctl.launcher.spec.problems import Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 30

NULL, BOOL, INT, FLOAT, STR = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str"))


class NotYaml(Signal):
    """The text cannot be read as YAML; carries the one problem that stopped the reading."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Loader(yaml.SafeLoader):
    """SafeLoader with the scalar types of YAML 1.2's core schema and a bound on nesting."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.composer.ComposerError(
                None,
                None,
                f"nested deeper than {MAX_DEPTH} levels",
                self.peek_event().start_mark,  # type: ignore[no-untyped-call]
            )
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


for _tag, _pattern, _first in (
    (NULL, r"(?:~|null|Null|NULL|)", [*"~nN", ""]),
    (BOOL, r"(?:true|True|TRUE|false|False|FALSE)", [*"tTfF"]),
    (INT, r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", [*"-+0123456789"]),
    (
        FLOAT,
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        [*"-+0123456789."],
    ),
):
    # `\Z` because a plain scalar is matched from its start only.
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern + r"\Z"), _first)


def compose(text: str) -> yaml.Node | None:
    """Read the root node of `text`, None where it holds nothing but comments. NotYaml if it cannot be read."""
    loader = None
    try:
        loader = _Loader(text)
        return loader.get_single_node()
    except yaml.reader.ReaderError as error:
        raise NotYaml(_unreadable(text, error)) from error
    except yaml.MarkedYAMLError as error:
        raise NotYaml(_explain(error)) from error
    except ValueError as error:
        # PyYAML's scanner lets chr() and int() fail on escapes such as "\UFFFFFFFF".
        mark = loader.get_mark() if loader is not None else None
        raise NotYaml(_at(mark, "not a valid escape or number", "Write the character itself.")) from error
    finally:
        if loader is not None:
            loader.dispose()


def _at(mark: Any, message: str, expected: str = "") -> Problem:
    if mark is None:
        return Problem(1, 1, message, expected)
    return Problem(mark.line + 1, mark.column + 1, message, expected)


def _unreadable(text: str, error: yaml.reader.ReaderError) -> Problem:
    before = text[: error.position]
    line = before.count("\n") + 1
    column = error.position - (before.rfind("\n") + 1) + 1
    code = error.character if isinstance(error.character, int) else ord(error.character)
    return Problem(line, column, f"the control character U+{code:04X} is not allowed in YAML", "Remove it.")


def _explain(error: yaml.MarkedYAMLError) -> Problem:
    """Turn PyYAML's words into what to do."""
    mark = error.problem_mark or error.context_mark
    text = error.problem or "not valid YAML"
    if "'\\t'" in text:
        return _at(mark, "a tab where YAML wants spaces", "Indent with spaces.")
    if "expected a single document" in (error.context or "") or "but found another document" in text:
        return _at(mark, "a second document in the file", "One file holds one cluster: remove `---` and what follows.")
    if "found undefined alias" in text:
        return _at(mark, f"{text.removeprefix('found ')}", "Quote the value if it begins with `*`.")
    if "mapping values are not allowed" in text:
        return _at(mark, "a `:` that does not belong here", "Check the indentation, or quote a value with `: ` in it.")
    if "could not find expected ':'" in text:
        return _at(mark, "a key without `:`", "Write `key: value`.")
    if "cannot start any token" in text:
        return _at(mark, f"{text.removeprefix('found ')}", "Quote values that begin with % @ or `.")
    context = f" {error.context}" if error.context else ""
    return _at(mark, f"not valid YAML: {text}{context}")
