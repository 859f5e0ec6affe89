"""Documents made from the kinds themselves: parser, schema and writer agree about every key."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from dtfctl.launcher.spec import InvalidSpec, from_json, parse_spec, to_document, to_json
from dtfctl.launcher.spec.kinds import (
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
    Text,
    keys_of,
)
from dtfctl.launcher.spec.model import ClusterSpec
from dtfctl.launcher.spec.schema import json_schema
from tests.support.examples import examples

NAMES = st.sampled_from(["a", "b2", "C_c"])
HOSTS = st.sampled_from(["n[1-4]", "u@m[01-03].dc1", "10.0.0.7", "r[1-2]x[1-2]", "localhost"])


def values(kind: Kind) -> st.SearchStrategy[Any]:
    """Values that `kind` takes, as JSON."""
    match kind:
        case Text(pattern=pattern):
            return (
                st.from_regex(pattern, fullmatch=True) if pattern else st.sampled_from(["x", "~/a b", "é: #1", "yes"])
            )
        case Pattern():
            return st.sampled_from(["a.*b", "Xid [0-9]+", "^$"])
        case Integer(low, high):
            return st.integers(low or 0, min(high or 9999, (low or 0) + 40))
        case Number(low, high, above):
            return st.integers(int(max(low or 0, above or 0)) + 1, int(min(high or 99, 99)))
        case Flag():
            return st.booleans()
        case Choice(options):
            return st.sampled_from(options)
        case Duration():
            return st.sampled_from(["500ms", "2s", "10m", "1h30m", "1.5h"])
        case Size():
            return st.sampled_from(["64MiB", "1.5GB", "7B"])
        case Rate():
            return st.sampled_from(["10MiB/s", "1kB/s"])
        case Percent():
            return st.sampled_from(["0%", "12.5%", "100%"])
        case PortRange():
            return st.sampled_from(["auto", 2222, "20000-20999"])
        case HostNames():
            return HOSTS | st.lists(HOSTS, min_size=1, max_size=2, unique=True)
        case ListOf(item, single):
            many = st.lists(values(item), max_size=2)
            return values(item) | many if single else many
        case MapOf(value, _, _, names):
            keys = st.sampled_from([name for name, _ in names]) if names else NAMES
            return st.dictionaries(keys, values(value), max_size=3)
        case Either(kinds):
            return st.one_of([values(part) for part in kinds])
        case HostBlock(group):
            return values(HostNames()) | st.dictionaries(NAMES, values(group), min_size=1, max_size=2)
        case Table(cls, short):
            items = keys_of(cls)
            block = st.fixed_dictionaries(
                {item.name: values(item.key.kind) for item in items if item.required},
                optional={item.name: values(item.key.kind) for item in items if not item.required},
            )
            if short is None:
                return block
            return block | values(next(item.key.kind for item in items if item.name == short))


SCHEMA = jsonschema.Draft202012Validator(json_schema())


@pytest.mark.slow
@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None
)
@given(values(Table(ClusterSpec)))
def test_values_of_every_kind_are_taken_and_read_back(document: dict[str, Any]) -> None:
    assert not list(SCHEMA.iter_errors(document)), "the schema refuses what its kinds take"
    try:
        spec = parse_spec(json.dumps(document))
    except InvalidSpec as error:
        # Parts that do not fit together are found by the checks; no value by itself may be wrong.
        wrong = [
            problem for problem in error.problems if "` is the " in problem.message or "unknown" in problem.message
        ]
        assert not wrong, error
        return
    assert from_json(to_json(spec)) == spec
    assert parse_spec(json.dumps(to_document(spec))) == spec
    assert not list(SCHEMA.iter_errors(to_document(spec)))


NEEDS = {("controller", "host"): "place: host, "}
"""Keys that mean nothing without another one."""
TABLES = [ClusterSpec, *(item.key.kind.cls for item in keys_of(ClusterSpec) if isinstance(item.key.kind, Table))]


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_every_example_of_the_reference_is_a_value_of_its_key(cls: type) -> None:
    blocks = {item.key.kind.cls: item.name for item in keys_of(ClusterSpec) if isinstance(item.key.kind, Table)}
    block = blocks.get(cls)
    for item in keys_of(cls):
        line = f"{NEEDS.get((block or '', item.name), '')}{item.name}: {item.key.example}"
        base = {"cluster": "cluster: lab", "tasks": "tasks: {worker: 1}", "hosts": "hosts: 'node[1-4]'"}
        if "slurm" in (block, item.name) or item.name == "provider":
            base = {**base, "hosts": "", "provider": "provider: slurm"}
        if "ray" in (block, item.name):
            base = {**base, "hosts": "", "provider": "provider: ray"}
        base[block or item.name] = line if block is None else f"{block}: {{{line}}}"
        parse_spec("\n".join(base.values()))
