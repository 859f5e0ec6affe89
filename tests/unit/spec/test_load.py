"""Specs that are valid, and what they become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from dtfctl.launcher.errors import SpecError
from dtfctl.launcher.spec import (
    ClusterSpec,
    InvalidSpec,
    from_json,
    load_spec,
    parse_spec,
    require_available,
    settings,
    to_document,
    to_json,
)
from dtfctl.launcher.spec.model import Every, Ports
from dtfctl.launcher.spec.schema import json_schema

EXAMPLES = sorted((Path(__file__).parents[3] / "cluster-examples").glob("*.yaml"))


def spec_of(text: str) -> ClusterSpec:
    return parse_spec("cluster: dev\n" + text)


def test_two_keys_are_a_local_cluster() -> None:
    spec = parse_spec("cluster: demo\ntasks: {ps: 1, worker: 2}\n")
    assert spec.task_names == ("ps/0", "worker/0", "worker/1")
    assert [host.name for host in spec.hosts] == ["localhost"]
    assert spec.is_local
    assert spec.ports.is_auto
    assert spec.restart.attempts == 5
    assert spec.checkpoints.every == Every(seconds=30.0)


def test_hosts_in_each_form() -> None:
    one = spec_of("hosts: alice@node[1-2]\ntasks: {worker: 2}")
    assert [(host.name, host.user) for host in one.hosts] == [("node1", "alice"), ("node2", "alice")]
    several = spec_of("hosts: [node1, 'gpu[1-2]']\ntasks: {worker: 2}")
    assert [host.name for host in several.hosts] == ["node1", "gpu1", "gpu2"]
    groups = spec_of("hosts: {a: x1, b: {names: 'y[1-2]', slots: 2, rack: 'r{1}', spare: true}}\ntasks: {worker: 1}")
    assert [(host.name, host.group, host.slots, host.rack, host.spare) for host in groups.hosts] == [
        ("x1", "a", None, None, False),
        ("y1", "b", 2, "r1", True),
        ("y2", "b", 2, "r2", True),
    ]


def test_the_ssh_user_is_for_hosts_that_name_none() -> None:
    spec = spec_of("hosts: a,bob@b\nssh: {user: train}\ntasks: {worker: 1}")
    assert [host.user for host in spec.hosts] == ["train", "bob"]


@pytest.mark.parametrize(
    ("written", "ports"), [("auto", Ports()), ("2222", Ports(2222, 2222)), ("20000-20999", Ports(20000, 20999))]
)
def test_ports_in_each_form(written: str, ports: Ports) -> None:
    assert spec_of(f"tasks: {{worker: 1}}\nports: {written}").ports == ports


def test_one_item_stands_for_a_list() -> None:
    spec = spec_of("tasks: {worker: {count: 1, hosts: a}}\nhosts: {a: n1}\nsetup: echo hi\nssh: {jump: bastion}")
    assert (spec.tasks["worker"].hosts, spec.setup, spec.ssh.jump) == (("a",), ("echo hi",), ("bastion",))


def test_values_are_in_base_units() -> None:
    spec = spec_of(
        "tasks: {worker: {memory: 2GiB}}\nhealth: {beat: 250ms}\nlogs: {rate: 1MiB/s}\nrestart: {delay: {jitter: 10%}}"
    )
    assert spec.tasks["worker"].memory == 2 << 30
    assert spec.health.beat == 0.25
    assert spec.logs.rate == 1 << 20
    assert spec.restart.delay.jitter == 0.1


def test_yaml_12_text_stays_text() -> None:
    spec = spec_of("tasks: {worker: 1}\nenv: {A: 'yes', B: \"1\", C: 12:30:45, D: 0b1, E: 1_000, F: =, G: ''}")
    assert spec.env == {"A": "yes", "B": "1", "C": "12:30:45", "D": "0b1", "E": "1_000", "F": "=", "G": ""}


def test_variables_are_filled_only_when_asked() -> None:
    text = "cluster: dev\ntasks: {worker: 1}\nenv: {TOKEN: 'x${SECRET}y'}\nssh: {user: '${WHO}'}\n"
    assert parse_spec(text, "f").env["TOKEN"] == "x${SECRET}y"
    filled = parse_spec(text, "f", {"SECRET": "123", "WHO": "me"})
    assert (filled.env["TOKEN"], filled.ssh.user) == ("x123y", "me")
    with pytest.raises(InvalidSpec, match="variable SECRET is not set"):
        parse_spec(text, "f", {"WHO": "me"})


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_valid_and_read_back(path: Path) -> None:
    spec = load_spec(path)
    assert from_json(to_json(spec)) == spec
    assert parse_spec(yaml.safe_dump(to_document(spec))) == spec
    jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), json_schema())


def test_there_are_three_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["lab.yaml", "local.yaml", "rack.yaml"]


@pytest.mark.slow
def test_the_schema_is_a_schema_and_refuses_what_the_parser_refuses() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    wrong: list[dict[str, Any]] = [
        {"tasks": {"worker": 1}},
        {"cluster": "x", "tasks": {"wrker": 1}},
        {"cluster": "x", "tasks": {"worker": 1}, "restart": {"within": 5}},
        {"cluster": "x", "tasks": {"worker": 1}, "ports": 70000},
        {"cluster": "x", "tasks": {"worker": {"memory": "5"}}},
        {"cluster": "X y", "tasks": {"worker": 1}},
    ]
    for document in wrong:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, schema)
        with pytest.raises(InvalidSpec):
            parse_spec(json.dumps(document))


def test_each_setting_has_its_origin(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("cluster: dev\ntasks:\n  worker: 2\nrestart: {attempts: 7}\n")
    found = {item.key: (item.value, item.origin) for item in settings(file)}
    assert found["cluster"] == ("dev", f"{file}:1:1")
    assert found["tasks.worker.count"] == ("2", f"{file}:3:11")
    assert found["restart.attempts"] == ("7", f"{file}:4:11")
    assert found["restart.within"] == ("10m", "default")
    assert found["hosts.all.names"] == ("localhost", "default")


UNAVAILABLE = [
    ("ssh: {retries: 3}", 1, "SSH settings without a host over SSH are"),
]


@pytest.mark.parametrize(("line", "column", "message"), UNAVAILABLE)
def test_what_this_version_cannot_do_is_valid_but_refused_by_up(
    tmp_path: Path, line: str, column: int, message: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"cluster: dev\ntasks: {{worker: 1}}\n{line}\n")
    spec = load_spec(file)
    with pytest.raises(InvalidSpec) as caught:
        load_spec(file, {}, for_up=True)
    assert f"c.yaml:3:{column}: {message} not available in this version" in str(caught.value)
    with pytest.raises(SpecError, match="not available in this version"):
        require_available(spec)


def test_what_this_version_can_do_is_available() -> None:
    require_available(spec_of("tasks: {ps: 1, worker: 2}\nrestart: {attempts: 3}\nports: 20000-20999\nenv: {A: b}"))
