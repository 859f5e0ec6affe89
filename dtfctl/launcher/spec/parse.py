"""Nodes to values, as the kinds say, collecting every problem on the way.

`Reader.read(kind, node, path)` gives the value, or a harmless stand-in when the node is wrong; `Reader.bad` then holds
the path, so that a later check can leave alone what is broken already.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from dtfctl.launcher.spec import units
from dtfctl.launcher.spec.hostlist import HostlistError, expand
from dtfctl.launcher.spec.kinds import (
    MISSING,
    Choice,
    Duration,
    Either,
    Flag,
    HostBlock,
    HostNames,
    Integer,
    Kind,
    ListOf,
    MapOf,
    Number,
    Pattern,
    Percent,
    PortRange,
    Rate,
    Size,
    Table,
    TableKey,
    Text,
    keys_of,
)
from dtfctl.launcher.spec.model import DEFAULT_GROUP, GROUP_NAME, HostGroup, HostName, Ports
from dtfctl.launcher.spec.nodes import BOOL, FLOAT, INT, NULL, STR
from dtfctl.launcher.spec.problems import RENAMED, Problem, did_you_mean
from dtfctl.launcher.spec.words import words
from dtfctl.launcher.system.patterns import compile_pattern

Path = tuple[str, ...]

_YAML_11_BOOLEANS = frozenset({"yes", "no", "on", "off"})
_CORE_TAGS = frozenset({NULL, BOOL, INT, FLOAT, STR, "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"})
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_PORTS = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?", re.ASCII)
_MAX_DIGITS = 300


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in the file: line and column from 1, and the length to underline."""

    line: int
    column: int
    length: int


@dataclass(slots=True)
class Reader:
    """Turns nodes into values. `environ` fills `${NAME}`; without it they stay as they are."""

    environ: Mapping[str, str] | None = None
    problems: list[Problem] = field(default_factory=list)
    marks: dict[Path, Mark] = field(default_factory=dict)
    bad: set[Path] = field(default_factory=set)

    def read(self, kind: Kind, node: yaml.Node, path: Path) -> Any:
        """Read the value of `node`, which stands at `path`."""
        self.marks.setdefault(path, mark_of(node))
        if node.tag not in _CORE_TAGS:
            return self._refuse_tag(kind, node, path)
        if node.tag == NULL:
            if path and not node.value:
                self.problem(self.mark(*path), f"`{path[-1]}` has no value", f"Expected {words(kind)}.")
                self.bad.add(path)
                return MISSING
            return self._reject(kind, node, path, f"`{path[-1]}` is empty" if path else "no value")
        match kind:
            case Table():
                return self._table(kind, node, path)
            case MapOf():
                return self._map(kind, node, path)
            case ListOf():
                return self._list(kind, node, path)
            case HostBlock():
                return self._host_block(kind, node, path)
            case HostNames():
                return self._host_names(node, path)
            case Either(kinds):
                return self._either(kind, kinds, node, path)
        if not isinstance(node, yaml.ScalarNode):
            return self._wrong(kind, node, path)
        return self._scalar(kind, node, path)

    # Blocks

    def _table(self, kind: Table, node: yaml.Node, path: Path) -> Any:
        keys = {item.name: item for item in keys_of(kind.cls)}
        if not isinstance(node, yaml.MappingNode):
            if kind.short is None or (
                isinstance(node, yaml.SequenceNode) and not isinstance(keys[kind.short].key.kind, HostNames)
            ):
                self._wrong(kind, node, path)
                return self._build(kind.cls, keys, {}, path)
            self.marks[(*path, kind.short)] = mark_of(node)
            value = self.read(keys[kind.short].key.kind, node, path)
            return self._build(kind.cls, keys, {kind.short: value}, path)
        values: dict[str, Any] = {}
        for name, key_node, value_node in self._pairs(node, path):
            if name not in keys:
                options = list(keys)
                where = f" in `{'.'.join(path)}`" if path else ""
                advice = RENAMED.get((*path, name))
                self.problem(
                    mark_of(key_node),
                    f"unknown key `{name}`{where}",
                    advice or f"Expected {_listing(options)}.{did_you_mean(name, options)}",
                )
                self.bad.add((*path, name))
                continue
            values[name] = self.read(keys[name].key.kind, value_node, (*path, name))
        missing = [name for name, item in keys.items() if item.required and name not in values]
        for name in missing:
            self.problem(
                mark_of(node, 1),
                f"`{name}` is missing" + (f" in `{'.'.join(path)}`" if path else ""),
                f"{keys[name].key.help} For example `{name}: {keys[name].key.example}`.",
            )
            self.bad.add((*path, name))
        return self._build(kind.cls, keys, values, path)

    def _build(self, cls: type, keys: Mapping[str, TableKey], values: Mapping[str, Any], path: Path) -> Any:
        """Build `cls` from what is valid, with stand-ins for required keys that are not there."""
        arguments = {}
        for name, item in keys.items():
            if name in values and values[name] is not MISSING:
                arguments[item.attribute] = values[name]
            elif item.required:
                self.bad.add((*path, name))
                arguments[item.attribute] = _stand_in(item.key.kind)
        return cls(**arguments)

    def _map(self, kind: MapOf, node: yaml.Node, path: Path) -> Any:
        if not isinstance(node, yaml.MappingNode):
            return self._wrong(kind, node, path)
        names = [name for name, _ in kind.names]
        values: dict[str, Any] = {}
        for name, key_node, value_node in self._pairs(node, path):
            if names and name not in names:
                self.problem(
                    mark_of(key_node),
                    f"`{name}` is not {kind.what}",
                    f"Expected {_listing(names)}.{did_you_mean(name, names)}",
                )
            elif kind.pattern is not None and not re.fullmatch(kind.pattern, name):
                self.problem(
                    mark_of(key_node),
                    f"`{name}` cannot be the name of {kind.what}",
                    "Expected letters, digits and underscores.",
                )
            else:
                value = self.read(kind.value, value_node, (*path, name))
                if value is not MISSING:
                    values[name] = value
                continue
            self.bad.add((*path, name))
        return values

    def _pairs(self, node: yaml.MappingNode, path: Path) -> list[tuple[str, yaml.Node, yaml.Node]]:
        """Read the entries of a block, each name once; what cannot be a name is a problem and left out."""
        pairs: list[tuple[str, yaml.Node, yaml.Node]] = []
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.problem(mark_of(key_node), "a key must be a word", "Expected `name: value`.")
                self.bad.add(path)
                continue
            name = key_node.value
            if name == "<<" and key_node.style is None:
                self.problem(mark_of(key_node), "`<<` merges are not part of YAML 1.2", "Write the keys out.")
                self.bad.add(path)
            elif name in first:
                self.problem(
                    mark_of(key_node), f"`{name}` is set twice, first on line {first[name]}", "Keep one of them."
                )
                self.bad.add((*path, name))
            elif key_node.tag == NULL:
                self.problem(mark_of(key_node, 1), "a value without a key", "Expected `name: value`.")
                self.bad.add(path)
            else:
                first[name] = key_node.start_mark.line + 1
                self.marks[(*path, name)] = mark_of(key_node)
                pairs.append((name, key_node, value_node))
        return pairs

    def _list(self, kind: ListOf, node: yaml.Node, path: Path) -> Any:
        if not isinstance(node, yaml.SequenceNode):
            if not kind.single:
                return self._wrong(kind, node, path)
            value = self.read(kind.item, node, (*path, "0"))
            return MISSING if value is MISSING else (value,)
        values = [self.read(kind.item, child, (*path, str(i))) for i, child in enumerate(node.value)]
        return tuple(value for value in values if value is not MISSING)

    def _host_block(self, kind: HostBlock, node: yaml.Node, path: Path) -> Any:
        if not isinstance(node, yaml.MappingNode):
            names = self.read(HostNames(), node, (*path, DEFAULT_GROUP, "names"))
            return MISSING if names is MISSING else {DEFAULT_GROUP: HostGroup(names)}
        groups = self._map(MapOf(kind.group, "a host group", GROUP_NAME), node, path)
        if not groups and not node.value:
            return self._reject(kind, node, path, "`hosts` has no group")
        return groups

    def _host_names(self, node: yaml.Node, path: Path) -> Any:
        parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not parts:
            return self._reject(HostNames(), node, path, "no host")
        found: list[HostName] = []
        for part in parts:
            if not isinstance(part, yaml.ScalarNode) or part.tag == NULL:
                return self._wrong(HostNames(), part, path)
            if part.tag not in _CORE_TAGS:
                return self._refuse_tag(HostNames(), part, path)
            if part.tag in (INT, FLOAT, BOOL):
                return self._reject(
                    HostNames(), part, path, f"`{_short(part.value)}` is a {_type_name(part)}, not a host name"
                )
            try:
                found += expand(part.value)
            except HostlistError as error:
                self.problem(_inside(part, error.offset, error.length), str(error), f"Expected {words(HostNames())}.")
                self.bad.add(path)
                return MISSING
        return tuple(found)

    def _either(self, kind: Either, kinds: tuple[Kind, ...], node: yaml.Node, path: Path) -> Any:
        for part in kinds:
            trial = Reader(self.environ)
            value = trial.read(part, node, path)
            if not trial.problems:
                return value
        return self._wrong(kind, node, path)

    # Scalars

    def _scalar(self, kind: Kind, node: yaml.ScalarNode, path: Path) -> Any:
        text = node.value
        match kind:
            case Text(pattern=pattern):
                return self._text(kind, pattern, node, path)
            case Pattern():
                return self._pattern(node, path)
            case Integer(low, high):
                return self._integer(kind, low, high, node, path)
            case Number(low, high, above):
                return self._number(kind, low, high, above, node, path)
            case Flag():
                if node.tag == BOOL:
                    return text.lower() == "true"
                if text.lower() in _YAML_11_BOOLEANS:
                    word = "true" if text.lower() in ("yes", "on") else "false"
                    return self._wrong(kind, node, path, f" YAML 1.2 writes `{text}` as `{word}`.")
            case Choice(options):
                if text in options:
                    return text
                return self._wrong(kind, node, path, did_you_mean(text, options))
            case PortRange():
                return self._ports(node, path)
            case Duration(positive):
                return self._duration(positive, node, path)
            case Size() | Rate() | Percent():
                read: Any = {
                    Size: units.parse_size,
                    Rate: units.parse_rate,
                    Percent: units.parse_percent,
                }[type(kind)]
                try:
                    return read(text)
                except ValueError:
                    return self._wrong(kind, node, path)
        return self._wrong(kind, node, path)

    def _text(self, kind: Kind, pattern: str | None, node: yaml.ScalarNode, path: Path) -> Any:
        text = node.value
        if node.tag != STR:
            return self._wrong(kind, node, path, f' Quote it to mean the text: "{_short(text)}".')
        if node.style is None and text.lower() in _YAML_11_BOOLEANS:
            return self._reject(
                kind, node, path, f"`{text}` without quotes: some tools read it as true or false", f'Write "{text}".'
            )
        if "\0" in text:
            return self._reject(kind, node, path, "a NUL character in a text")
        if path and (path[0] == "ssh" or "env" in path[:-1]):
            filled = self._fill(text, node, path)
            if filled is None:
                return MISSING
            text = filled
        if pattern is not None and not re.fullmatch(pattern, text):
            return self._wrong(kind, node, path)
        if not text and path and "env" not in path[:-1]:
            return self._reject(kind, node, path, f"`{path[-1]}` is empty")
        return text

    def _fill(self, text: str, node: yaml.ScalarNode, path: Path) -> str | None:
        """Fill `${NAME}` in `text` from the environment; None after a problem."""
        for match in _VARIABLE.finditer(text):
            name = match[1]
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                self._reject(
                    Text(), node, path, f"`{_short(match[0])}` is not a variable", "Expected ${NAME}, nothing more."
                )
                return None
            if self.environ is not None and name not in self.environ:
                self._reject(
                    Text(), node, path, f"the environment variable {name} is not set", "Set it, or write the value."
                )
                return None
        if self.environ is None:
            return text
        environ = self.environ
        return _VARIABLE.sub(lambda match: environ[match[1]], text)

    def _pattern(self, node: yaml.ScalarNode, path: Path) -> Any:
        if node.tag != STR:
            return self._wrong(Pattern(), node, path)
        try:
            compile_pattern(node.value)
        except ValueError as error:
            return self._reject(
                Pattern(), node, path, f"not a regular expression: {error}", "Use RE2's syntax: no look-around."
            )
        return node.value

    def _integer(self, kind: Kind, low: int | None, high: int | None, node: yaml.ScalarNode, path: Path) -> Any:
        text = node.value
        if node.tag != INT:
            return self._wrong(kind, node, path)
        if re.fullmatch(r"[-+]?0[0-9]+", text):
            return self._reject(
                kind, node, path, f"`{_short(text)}` begins with 0: some tools read it as octal", "Leave out the zero."
            )
        if len(text) > _MAX_DIGITS:
            return self._wrong(kind, node, path)
        value = int(text, 0)
        if (low is not None and value < low) or (high is not None and value > high):
            return self._wrong(kind, node, path)
        return value

    def _number(
        self,
        kind: Kind,
        low: float | None,
        high: float | None,
        above: float | None,
        node: yaml.ScalarNode,
        path: Path,
    ) -> Any:
        text = node.value
        if node.tag not in (INT, FLOAT) or len(text) > _MAX_DIGITS:
            return self._wrong(kind, node, path)
        value = (
            float(int(text, 0))
            if text.startswith(("0x", "0o"))
            else float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        )
        outside = (low is not None and value < low) or (high is not None and value > high)
        if not math.isfinite(value) or outside or (above is not None and value <= above):
            return self._wrong(kind, node, path)
        return value

    def _duration(self, positive: bool, node: yaml.ScalarNode, path: Path) -> Any:
        text = node.value
        kind = Duration(positive)
        if re.fullmatch(r"[0-9]{1,9}(?::[0-9]{2}){1,2}", text):
            seconds = 0
            for part in text.split(":"):
                seconds = seconds * 60 + int(part)
            hint = f" Durations have units: `{units.format_duration(seconds)}`."
            return self._wrong(kind, node, path, hint)
        if node.tag in (INT, FLOAT) and text != "0":
            return self._wrong(kind, node, path, f" Add the unit: `{_short(text)}s`?")
        try:
            value = 0.0 if text == "0" else units.parse_duration(text)
        except ValueError:
            return self._wrong(kind, node, path)
        if positive and value <= 0:
            return self._reject(kind, node, path, f"`{path[-1]}` must be longer than 0", f"Expected {words(kind)}.")
        return value

    def _ports(self, node: yaml.ScalarNode, path: Path) -> Any:
        if node.value == "auto":
            return Ports()
        match = _PORTS.fullmatch(node.value)
        if match is None:
            return self._wrong(PortRange(), node, path)
        first, last = int(match[1]), int(match[2] or match[1])
        if not (1 <= first <= 65535 and 1 <= last <= 65535):
            return self._wrong(PortRange(), node, path)
        if first > last:
            return self._reject(
                PortRange(), node, path, f"the range {node.value} runs backwards", f"Write {last}-{first}."
            )
        return Ports(first, last)

    # Problems

    def problem(self, mark: Mark, message: str, expected: str = "") -> None:
        """Note that something at `mark` is wrong."""
        self.problems.append(Problem(mark.line, mark.column, message, expected, mark.length))

    def _wrong(self, kind: Kind, node: yaml.Node, path: Path, hint: str = "") -> Any:
        """Note the common problem: a value that is not of its kind."""
        name = path[-2] if len(path) > 1 and path[-1].isdigit() else path[-1] if path else ""
        self.problem(
            mark_of(node),
            (f"`{name}`" if name else "the file") + f" is {_found(node)}",
            f"Expected {words(kind)}.{hint}",
        )
        self.bad.add(path)
        return MISSING

    def _reject(self, kind: Kind, node: yaml.Node, path: Path, message: str, expected: str = "") -> Any:
        self.problem(mark_of(node), message, expected or f"Expected {words(kind)}.")
        self.bad.add(path)
        return MISSING

    def _refuse_tag(self, kind: Kind, node: yaml.Node, path: Path) -> Any:
        tag = str(node.tag)
        hint = "Quote a value that begins with `!`." if not tag.startswith("tag:") else "Leave it out."
        return self._reject(kind, node, path, f"the tag `{_short(tag)}` is not allowed in a spec", hint)

    def is_good(self, *path: str) -> bool:
        """Tell whether nothing at, above or under `path` is broken."""
        return not any(other[: len(path)] == path[: len(other)] for other in self.bad)

    def mark(self, *path: str) -> Mark:
        """Return the place of `path`, or of the nearest thing above it that the file has."""
        while path and path not in self.marks:
            path = path[:-1]
        return self.marks.get(path, Mark(1, 1, 1))


def mark_of(node: yaml.Node, length: int | None = None) -> Mark:
    """Return where `node` begins; a scalar on one line is underlined whole."""
    start, end = node.start_mark, node.end_mark
    if length is None:
        length = end.column - start.column if end.line == start.line else 1
    return Mark(start.line + 1, start.column + 1, max(1, length))


def _inside(node: yaml.ScalarNode, offset: int, length: int) -> Mark:
    """Mark a part of a scalar; the whole of it where the text in the file is not the value (escapes, folded lines)."""
    whole = mark_of(node)
    quotes = 0 if node.style is None else 1
    if whole.length != len(node.value) + 2 * quotes:
        return whole
    return Mark(whole.line, whole.column + quotes + offset, max(1, min(length, len(node.value) - offset)))


def _stand_in(kind: Kind) -> Any:
    return {MapOf: {}, HostNames: ()}.get(type(kind), "")


def _listing(options: list[str]) -> str:
    quoted = [f"`{option}`" for option in options]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + " or " + quoted[-1]


def _short(text: str) -> str:
    """Make `text` fit for a message: one line, not long."""
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= 40 else line[:37] + "..."


def _type_name(node: yaml.Node) -> str:
    return {INT: "number", FLOAT: "number", BOOL: "boolean", STR: "text"}.get(node.tag, "value")


def _found(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a block of keys"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    if node.tag == NULL:
        return "empty"
    return f"the {_type_name(node)} `{_short(node.value)}`" if node.value else "an empty text"
