"""`dtfctl simulate`: what it prints, draws and refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from dtfctl.launcher.spec import parse_spec
from dtfctl.simulate.scenario import MACHINE_FORMAT, places_of, read_machine, write_machine
from dtfctl.simulate.world import Machine
from tests.unit.cli.harness import Dtfctl

RACKS = "cluster: c\nhosts: {all: {names: 'r[1-2]n[1-2]', slots: 3, rack: '{1}'}}\ntasks: {ps: 1, worker: 4}\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "lab.yaml"
    path.write_text(RACKS)
    return path


def test_it_prints_a_line_for_each_and_draws_them(dtfctl: Dtfctl, spec: Path, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    words = ["--model", "1MB:5ms:8", "--workers", "2,4", "--to", str(page)]
    done = dtfctl("simulate", str(spec), *words)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["STRATEGY", "WORKERS"],
        *([name, count] for name in ("all-reduce", "ps-sync", "ps-async") for count in ("2", "4")),
    ]
    text = page.read_text()
    drawn = [ET.fromstring(part.partition("</svg>")[0].join(["<svg", "</svg>"])) for part in text.split("<svg")[1:]]
    assert len(drawn) == 3
    assert all(len(plot.findall("{*}polyline")) == 3 for plot in drawn)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "it needs nothing from elsewhere"


def test_data_has_what_was_assumed_and_what_came_of_it(dtfctl: Dtfctl, spec: Path) -> None:
    words = ["--model", "1MB:5ms:8", "--workers", "4", "--strategies", "all-reduce", "--compression", "none,int8"]
    done = dtfctl("-o", "json", "simulate", str(spec), *words, "--link", "10MB/s")
    content = json.loads(done.out)
    assert (content["kind"], content["machine"]["link_bytes_s"]) == ("Simulation", 1e7)
    plain, coded = content["runs"]
    assert (coded["compression"], coded["workers"], coded["hosts"]) == ("int8", 4, 4)
    assert 0.2 < coded["bytes"] / plain["bytes"] < 0.3 and coded["step_s"] < plain["step_s"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--model", "25MB"], "is no model"),
        (["--model", "0B:5ms"], "is no model"),
        (["--model", "1MB:5ms:x"], "is no model"),
        ([], "--model is missing"),
        (["--model", "1MB:5ms", "--workers", "two"], "no numbers of workers"),
        (["--model", "1MB:5ms:\u00b2"], "is no model"),
        (["--model", "1MB:5ms", "--workers", "\u00b2"], "no numbers of workers"),
        (["--model", "1MB:5ms", "--workers", "9" * 5000], "no numbers of workers"),
        (["--model", "1MB:5ms", "--workers", "9999999"], "at most"),
        (["--model", "1MB:5ms", "--cores", "100000000"], "--cores"),
        (["--model", "1MB:5ms", "--ps", "100000000"], "--ps"),
        (["--measure", "."], "that is a folder"),
        (["--model", "1MB:5ms", "--strategies", "tpu"], "is no strategy"),
        (["--model", "1MB:5ms", "--algorithms", "best"], "is no order"),
        (["--model", "1MB:5ms", "--compression", "zip"], "is no codec"),
        (["--model", "1MB:5ms", "--link", "fast"], "is no rate"),
        (["--model", "1MB:5ms", "--machine", "/nowhere"], "cannot be read"),
        (["--model", "1MB:5ms", "--to", "/nowhere/a.html"], "there is no folder"),
    ],
)
def test_what_makes_no_sense_is_refused(dtfctl: Dtfctl, spec: Path, words: list[str], says: str) -> None:
    done = dtfctl("simulate", str(spec), *words)
    assert done.code == 2 and says in done.err, done.err


def test_an_empty_list_is_the_default(dtfctl: Dtfctl, spec: Path) -> None:
    words = [
        "--model",
        "1MB:5ms",
        "--workers",
        "2",
        "--strategies",
        "all-reduce",
        "--algorithms",
        "",
        "--compression",
        ",",
    ]
    (run,) = json.loads(dtfctl("-o", "json", "simulate", str(spec), *words).out)["runs"]
    assert run["compression"] == "none" and run["algorithm"]


@pytest.mark.parametrize(
    "line",
    [
        "variables: .inf",
        "variables: [1.5]",
        "variables: 999999999TB",
        "variables: true",
        "compute_s: .inf",
        "compute_s: .nan",
        "batch: .inf",
        "batch: 1.5",
        f"batch: {10**400}",
        "parallel: .nan",
        "pack: .inf",
    ],
)
def test_numbers_of_a_model_are_what_they_can_be(dtfctl: Dtfctl, spec: Path, tmp_path: Path, line: str) -> None:
    model = tmp_path / "net.yaml"
    content = {"variables": "3MB", "compute_s": "5ms"}
    content.update([line.split(": ")])
    model.write_text("".join(f"{key}: {value}\n" for key, value in content.items()))
    done = dtfctl("simulate", str(spec), "--model", str(model), "--workers", "2")
    assert done.code == 2 and "is no model" in done.err, done.err


@pytest.mark.parametrize(
    "cost",
    [
        '"cores": 1e400',
        '"cores": 0',
        '"cores": 100000000',
        '"slowdown": NaN',
        '"crowded": 0',
        '"messages_4": 0',
        '"cached_bytes_s": 0',
        '"message_s": -1',
        '"link_bytes_s": Infinity',
        '"nothing": 1',
    ],
)
def test_costs_are_what_they_can_be(dtfctl: Dtfctl, spec: Path, tmp_path: Path, cost: str) -> None:
    costs = tmp_path / "costs.json"
    costs.write_text(f'{{"version": {MACHINE_FORMAT}, {cost}}}')
    done = dtfctl("simulate", str(spec), "--model", "1MB:5ms", "--machine", str(costs), "--workers", "4")
    assert done.code == 2 and str(costs) in done.err, done.err


def test_models_are_files_too(dtfctl: Dtfctl, spec: Path, tmp_path: Path) -> None:
    model = tmp_path / "net.yaml"
    model.write_text("name: net\nvariables: [3MB, 4kB]\ncompute_s: 5ms\nbatch: 32\npack: 4MB\n")
    done = dtfctl("-o", "json", "simulate", str(spec), "--model", str(model), "--workers", "2")
    content = json.loads(done.out)
    assert content["model"]["variables"] == [3_000_000, 4_000] and content["model"]["batch"] == 32
    model.write_text("variables: 3MB\ncompute_s: 5ms\nlayers: 3\n")
    assert "is no model" in dtfctl("simulate", str(spec), "--model", str(model)).err


def test_costs_survive_a_file(tmp_path: Path) -> None:
    machine = Machine(cores=8, message_s=3e-5)
    write_machine(machine, tmp_path / "costs.json", "a test")
    assert read_machine(tmp_path / "costs.json") == machine


def test_hosts_beyond_those_of_the_spec_are_like_them() -> None:
    places = places_of(parse_spec(RACKS.replace("worker: 4", "worker: 8")), 16, 2)
    assert list(places.hosts)[:16] == [worker // 2 for worker in range(16)]
    assert list(places.racks) == [0, 0, 1, 1, 2, 2, 3, 3]
    local = places_of(parse_spec("cluster: c\ntasks: {ps: 1, worker: 2}\n"), 8, 1)
    assert set(local.hosts) == {0}
