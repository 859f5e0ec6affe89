"""The spec's JSON Schema, made from the same kinds as the parser.

Editors use it to complete and check a spec while it is written. What a schema cannot say (host patterns that are
listed twice, tasks that do not fit) only `dtfctl validate` finds.
"""

from __future__ import annotations

from typing import Any

from dtfctl.launcher.spec.document import plain
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
from dtfctl.launcher.spec.model import GROUP_NAME, ClusterSpec

SCHEMA_ID = "urn:dtfctl:cluster-spec:1"


def json_schema() -> dict[str, Any]:
    """Make the schema of a spec file, JSON Schema draft 2020-12."""
    definitions: dict[str, Any] = {}
    root = _table(Table(ClusterSpec), definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "dtfctl cluster spec",
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _of(kind: Kind, definitions: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case Text(pattern=pattern):
            return {"type": "string", **({"pattern": f"^(?:{pattern})$"} if pattern else {})}
        case Pattern():
            return {"type": "string", "format": "regex"}
        case Integer(low, high):
            return {"type": "integer", **_bounds(low, high)}
        case Number(low, high, above):
            limit = {} if above is None else {"exclusiveMinimum": above}
            return {"type": "number", **_bounds(low, high), **limit}
        case Flag():
            return {"type": "boolean"}
        case Choice(options):
            return {"enum": list(options)}
        case Duration():
            return {"type": ["string", "integer"], "pattern": r"^(\d+(\.\d+)?\s?(ms|s|m|h|d)\s*)+$", "maximum": 0}
        case Size():
            return {"type": "string", "pattern": r"^\d+(\.\d+)?\s?([kKMGT]B|[KMGT]iB|B)$"}
        case Rate():
            return {"type": "string", "pattern": r"^\d+(\.\d+)?\s?([kKMGT]B|[KMGT]iB|B)/s$"}
        case Percent():
            return {"type": "string", "pattern": r"^\d{1,3}(\.\d+)?\s?%$"}
        case PortRange():
            return {
                "oneOf": [
                    {"const": "auto"},
                    {"type": "integer", "minimum": 1, "maximum": 65535},
                    {"type": "string", "pattern": r"^\d+(\s*-\s*\d+)?$"},
                ]
            }
        case HostNames():
            return {
                "oneOf": [
                    {"type": "string", "minLength": 1},
                    {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}},
                ]
            }
        case ListOf(item, single):
            one = _of(item, definitions)
            many = {"type": "array", "items": one}
            return {"anyOf": [one, many]} if single else many
        case MapOf(value, _, pattern, names):
            if names:
                part = _of(value, definitions)
                properties = {name: {**part, "description": text} for name, text in names}
                return {"type": "object", "properties": properties, "additionalProperties": False}
            names_rule = {"propertyNames": {"pattern": f"^(?:{pattern})$"}} if pattern else {}
            return {"type": "object", **names_rule, "additionalProperties": _of(value, definitions)}
        case HostBlock(group):
            groups = {
                "type": "object",
                "minProperties": 1,
                "propertyNames": {"pattern": f"^(?:{GROUP_NAME})$"},
                "additionalProperties": _of(group, definitions),
            }
            return {"anyOf": [*_of(HostNames(), definitions)["oneOf"], groups]}
        case Either(kinds):
            return {"anyOf": [_of(part, definitions) for part in kinds]}
        case Table(cls, short):
            if cls.__name__ not in definitions:
                definitions[cls.__name__] = {}
                definitions[cls.__name__] = _table(kind, definitions)
            reference = {"$ref": f"#/$defs/{cls.__name__}"}
            if short is None:
                return reference
            brief = next(item.key.kind for item in keys_of(cls) if item.name == short)
            return {"anyOf": [_of(brief, definitions), reference]}


def _table(kind: Table, definitions: dict[str, Any]) -> dict[str, Any]:
    items = keys_of(kind.cls)
    required = [item.name for item in items if item.required]
    return {
        "type": "object",
        "description": (kind.cls.__doc__ or "").strip(),
        "properties": {item.name: _property(item, definitions) for item in items},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _property(item: TableKey, definitions: dict[str, Any]) -> dict[str, Any]:
    made = {**_of(item.key.kind, definitions), "description": item.key.help}
    if item.default is not MISSING and item.default not in (None, (), {}) and item.key.default_text is None:
        value = plain(item.key.kind, item.default, defaults=False)
        if value != {}:
            made["default"] = value
    return made


def _bounds(low: float | None, high: float | None) -> dict[str, float]:
    found = {"minimum": low, "maximum": high}
    return {name: bound for name, bound in found.items() if bound is not None}
