"""Specs that are not valid: each mistake is found, at its place, in words that help."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from dtfctl.launcher.errors import SpecError
from dtfctl.launcher.spec import InvalidSpec, Problem, load_spec, parse_spec
from tests.support.examples import examples


def problems(text: str) -> tuple[Problem, ...]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text, "c.yaml")
    return caught.value.problems


def one(text: str) -> Problem:
    found = problems(text)
    assert len(found) == 1, found
    return found[0]


BASE = "cluster: dev\ntasks: {ps: 1, worker: 2}\n"


@pytest.mark.parametrize(
    ("line", "column", "message", "expected"),
    [
        ("wrkers: 2", 1, "unknown key `wrkers`", "Expected `cluster`"),
        ("restrat: {}", 1, "unknown key `restrat`", "Did you mean `restart`?"),
        ("restart: {atempts: 3}", 11, "unknown key `atempts` in `restart`", "Did you mean `attempts`?"),
        ("hosts: node1\ncontroller: {place: host, host: nod1}", 27, "no host `nod1`", "Did you mean `node1`?"),
        (
            "controller: {host: localhost}",
            14,
            "`host` says on which host, but",
            "Write `place: host`",
        ),
        ("runtime: {compression: {gradients: zip}}", 36, "`gradients` is the text `zip`", "powersgd"),
        ("runtime: {compression: {parameters: topk}}", 37, "`parameters` is the text `topk`", "none, float16"),
        ("controller: remote", 13, "`controller` is the text `remote`", ""),
        ("restart: 5", 10, "`restart` is the number `5`", "Expected a block with `when`"),
        ("restart: [5]", 10, "`restart` is a list", "Expected a block"),
        ("restart: {within: 90}", 19, "`within` is the number `90`", "Add the unit: `90s`?"),
        ("restart: {within: 1:30}", 19, "`within` is the text `1:30`", "`90s`"),
        ("restart: {within: 0s}", 19, "`within` must be longer than 0", "a duration"),
        ("restart: {attempts: five}", 21, "`attempts` is the text `five`", "a whole number, 0 to 100000"),
        ("restart: {attempts: 2.5}", 21, "`attempts` is the number `2.5`", "a whole number"),
        ("restart: {attempts: 010}", 21, "begins with 0", "Leave out the zero"),
        ("restart: {attempts: -1}", 21, "`attempts` is the number `-1`", "0 to 100000"),
        ("restart: {attempts:}", 11, "`attempts` has no value", "a whole number"),
        ("restart: {when: faliure}", 17, "`when` is the text `faliure`", "Did you mean `failure`?"),
        ("restart: {delay: {jitter: 25}}", 27, "`jitter` is the number `25`", "a percentage such as 25%"),
        ("restart: {delay: {factor: .nan}}", 27, "`factor` is the number `.nan`", "a number, 1 to 100"),
        ("restart: {delay: {first: 1m, max: 2s}}", 19, "`first` is longer than `max`", ""),
        ("restart: {never_when: {log: ['(']}}", 30, "not a regular expression", ""),
        ("restart: {never_when: {log: ['(?=a)']}}", 30, "not a regular expression", "Use RE2's syntax"),
        ("env: {DEBUG: yes}", 14, "`yes` without quotes", 'Write "yes".'),
        ("env: {A: 1}", 10, "`A` is the number `1`", 'Quote it to mean the text: "1".'),
        ("env: {A: true}", 10, "`A` is the boolean `true`", "Quote it"),
        ("env: {2A: x}", 7, "`2A` cannot be the name of an environment variable", ""),
        ("env: {A: '${B C}'}", 10, "`${B C}` is not a variable", ""),
        ("hosts: 5", 8, "`5` is a number, not a host name", ""),
        ("hosts: n[1-2", 9, "`[` is never closed", "host names such as node[1-4]"),
        ("hosts: 'n[01-100]'", 11, "mixes numbers", ""),
        ("hosts: !gpu3", 8, "the tag `!gpu3` is not allowed", "Quote a value that begins with `!`."),
        ("hosts: []", 8, "no host", "host names"),
        ("hosts: {}", 8, "`hosts` has no group", ""),
        ("hosts: {a: n1, b: n1}", 19, "host n1 is listed twice", ""),
        ("hosts: 'localhost,127.0.0.1'", 1, "localhost and 127.0.0.1 are the same machine", ""),
        ("hosts: {a: {names: n1, rack: '{1}'}}", 24, "`{1}` names no bracket", "0 brackets"),
        ("hosts: {a: {names: n1, spare: true}}", 1, "every host is a spare", ""),
        ("hosts: {a: {names: n1, spare: yes}}", 31, "`spare` is the text `yes`", "YAML 1.2 writes `yes` as `true`"),
        ("hosts: {a: {slots: 2}}", 12, "`names` is missing in `hosts.a`", 'For example `names: "alice@node[1-4]"`'),
        ("ports: 70000", 8, "`ports` is the number `70000`", "a port from 1 to 65535"),
        ("ports: 2000-1000", 8, "the range 2000-1000 runs backwards", "Write 1000-2000."),
        ("ports: 2222", 1, "port clash: 3 tasks on 1 host, but `2222` is 1 port a host", "such as 2222-2224"),
        ("ports: 9000-9999\nmetrics: {port: 9464}", 11, "port clash: 9464 is in `ports: 9000-9999` too", ""),
        ("ports: 9000-9999\ndashboard: {port: 9464}", 13, "port clash: 9464 is in `ports: 9000-9999` too", ""),
        ("metrics: {port: 9464}\ndashboard: {port: 9464}", 13, "port clash: 9464 is the port of `metrics` too", ""),
        ("hosts: n1\nports: 20-30", 1, "port clash: `20-30` includes 22", ""),
        ("hosts: n1\nsecurity: {tls: none}", 12, "`tls: none` would let anyone", ""),
        ("logs: {rotate: 64}", 16, "`rotate` is the number `64`", "a size such as 512MiB"),
        ("logs: {rate: 64MiB}", 14, "`rate` is the text `64MiB`", "bytes per second"),
        ("health: {suspect_phi: 13}", 10, "`suspect_phi` is above `down_phi`", ""),
        ("health: {beat: 5s}", 10, "`beat` is not shorter than `down_after`", ""),
        ("recovery: {checkpoint: /mnt/c}", 1, "unknown key `recovery`", "It is called `checkpoints` now"),
        ("checkpoints: {every: {seconds: 5, steps: 5}}", 15, "`every` has both", "Keep one"),
        ("version: 2", 10, "`version` is the number `2`", "a whole number, 1"),
        ("controller: hsot", 13, "`controller` is the text `hsot`", "Did you mean `host`?"),
        ("tasks: {ps: 9}", 1, "`tasks` is set twice, first on line 2", "Keep one of them."),
        ("sync: {to: x}", 7, "`from` is missing in `sync.0`", ""),
        ("<<: {a: 1}", 1, "`<<` merges are not part of YAML 1.2", ""),
        ("? [a]\n: 1", 3, "a key must be a word", ""),
        ("logs: !!python/object:os.system {}", 7, "the tag `tag:yaml.org,2002:python/object:os.sy...", "Leave it out"),
    ],
)
def test_one_mistake_is_one_problem_at_its_place(line: str, column: int, message: str, expected: str) -> None:
    found = one(BASE + line + "\n")
    assert (found.line, found.column) == (2 + line.count("\n") + (1 if "? [a]" not in line else 0), column)
    assert message in found.message
    assert expected in found.expected


@pytest.mark.parametrize(
    ("tasks", "column", "message", "expected"),
    [
        ("{worker: 0}", 1, "no task", ""),
        ("{}", 1, "no task", ""),
        ("{workers: 2}", 9, "`workers` is not a job name", "Did you mean `worker`?"),
        ("{Worker: 2}", 9, "`Worker` is not a job name", "Did you mean `worker`?"),
        ("{worker: {count: 2, min: 3}}", 28, "`min` is 3, more than the 2 tasks of `worker`", "at most 2"),
        ("{worker: {count: 2, hosts: compte}}", 35, "no host group `compte`", "Groups are `all`."),
        ("{chief: 2}", 16, "2 chiefs: there can be one", "0 or 1"),
        ("{worker: {spread: rack}}", 18, "no host has a rack to spread over", ""),
        ("{worker: [1]}", 17, "`worker` is a list", "a whole number"),
        ("{worker: two}", 17, "`worker` is the text `two`", "a whole number"),
        ("5", 8, "`tasks` is the number `5`", "a block with `ps`"),
    ],
)
def test_mistakes_in_tasks(tasks: str, column: int, message: str, expected: str) -> None:
    found = one(f"cluster: dev\ntasks: {tasks}\n")
    assert (found.line, found.column) == (2, column)
    assert message in found.message
    assert expected in found.expected


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "the file is empty"),
        ("# nothing\n", 1, 1, "the file is empty"),
        ("cluster: dev\n\ttasks: 1\n", 2, 1, "a tab where YAML wants spaces"),
        ("cluster: dev\n---\ncluster: b\n", 2, 1, "a second document"),
        ("cluster: [dev\n", 2, 1, "not valid YAML"),
        ("cluster: a: b\n", 1, 11, "a `:` that does not belong here"),
        ("cluster: *x\n", 1, 10, "undefined alias"),
        ("cluster: 'dev\n", 2, 1, "not valid YAML"),
        ("cluster: \x07\n", 1, 10, "the control character U+0007"),
        ("- a\n- b\n", 1, 1, "the file is a list"),
        ("hello\n", 1, 1, "the file is the text `hello`"),
        ("~\n", 1, 1, "no value"),
        ("a: " + "[" * 200, 1, 33, "nested deeper"),
    ],
)
def test_what_is_not_a_spec_at_all(text: str, line: int, column: int, message: str) -> None:
    found = problems(text)[0]
    assert (found.line, found.column) == (line, column), found
    assert message in found.message


def test_all_mistakes_come_in_one_go_with_line_caret_and_help() -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec("cluster: dev\ntasks: {wrker: 2}\nrestart: {within: 90}\n", "c.yaml")
    assert str(caught.value).splitlines() == [
        "c.yaml:2:9: `wrker` is not a job name",
        "    2 | tasks: {wrker: 2}",
        "      |         ^^^^^",
        "        Expected `ps`, `worker`, `chief` or `evaluator`. Did you mean `worker`?",
        "c.yaml:3:19: `within` is the number `90`",
        "    3 | restart: {within: 90}",
        "      |                   ^^",
        "        Expected a duration such as 500ms, 2s, 10m or 1h. Add the unit: `90s`?",
    ]
    assert isinstance(caught.value, SpecError)
    assert caught.value.exit_code == 3


def test_a_missing_key_comes_with_an_example() -> None:
    assert one("tasks: {worker: 1}\n").expected.endswith("For example `cluster: lab`.")


def test_a_broken_part_does_not_raise_more_problems_elsewhere() -> None:
    assert len(problems(BASE + "hosts: {a: {names: 'n[1-', slots: 1}}\nports: 2222\n")) == 1


def test_gpus_are_counted_over_the_groups_a_job_may_use() -> None:
    text = "cluster: d\nhosts: {a: {names: 'n[1-2]', gpus: 4}}\ntasks: {worker: {count: 9, gpus: 1}}\n"
    assert "worker need 9 GPUs; their hosts have 8" in one(text).message


def test_jobs_that_share_hosts_are_counted_together() -> None:
    text = "cluster: d\nhosts: {a: {names: n1, slots: 2}, b: {names: n2, slots: 5}}\n"
    tasks = "tasks: {ps: {count: 2, hosts: a}, worker: {count: 1, hosts: a}, chief: {hosts: b}}\n"
    assert "ps and worker need 3 slots; their hosts have 2" in one(text + tasks).message


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"cluster: dev\nenv: {A: caf\xe9}\n")
    big = tmp_path / "big.yaml"
    big.write_bytes(b"#" * (2 << 20))
    for path, message in [
        (tmp_path / "none.yaml", "none.yaml: no such file"),
        (tmp_path, "this is a folder"),
        (latin, "latin.yaml:2:13: not UTF-8 text (byte 0xe9)"),
        (big, "longer than 1 MiB"),
        (tmp_path / "nul\0.yaml", "cannot be read"),
    ]:
        with pytest.raises(InvalidSpec) as caught:
            load_spec(path)
        assert message in str(caught.value)
        assert len(caught.value.problems) == 1


def test_a_byte_order_mark_and_windows_lines_are_fine(tmp_path: Path) -> None:
    file = tmp_path / "windows.yaml"
    file.write_bytes(b"\xef\xbb\xbfcluster: dev\r\ntasks: {worker: 1}\r\n")
    assert load_spec(file).cluster == "dev"


WORDS = st.sampled_from(
    ["cluster", "dev", "tasks", "ps", "worker", "hosts", "n[1-4]", "restart", "within", "10m", "ports", "auto"]
    + ["{", "}", "[", "]", ":", ": ", ",", "\n", "\n  ", "- ", "'", '"', "!x", "&a", "*a", "<<", "|", ">", "%", "@"]
    + [
        "~",
        "yes",
        "1:30",
        "010",
        "0x1f",
        "1e999",
        "-",
        "?",
        "? ",
        "#",
        "\t",
        "${X}",
        "{1}",
        "count",
        "1",
        "2",
        "9" * 30,
    ]
    + ["env", "ssh", "slots", "names", "rack", "gpus", "\\U00110000", '"\\x0', "...", "---\n", "\u2028", "\x85", "(*"]
)


@pytest.mark.slow
@settings(max_examples=examples(400))
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=60).map("".join)))
def test_any_text_gives_a_spec_or_a_spec_error(text: str) -> None:
    for source in (text, "cluster: dev\n" + text, BASE + text):
        try:
            parse_spec(source, "c.yaml", {})
        except InvalidSpec as error:
            assert error.problems
            lines = source.count("\n") + source.count("\r") + source.count("\x85") + source.count("\u2028") + 2
            assert all(0 < problem.line <= lines + source.count("\u2029") for problem in error.problems)
            assert str(error)


@settings(max_examples=examples(200))
@given(st.binary(max_size=200))
def test_any_bytes_give_a_spec_or_a_spec_error(data: bytes) -> None:
    from dtfctl.launcher.spec.load import decode

    try:
        parse_spec(decode(data, "c.yaml"), "c.yaml")
    except InvalidSpec as error:
        assert error.problems


def test_strict_names_what_is_valid_and_looks_like_a_mistake(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(
        "cluster: d\n"
        "hosts: {a: {names: n1}, b: {names: n2, spare: true}, c: {names: n3}}\n"
        "ssh: {key: ./none, known_hosts: ./nothing}\n"
        "sync: [{from: ./there, to: x}, {from: ./gone, to: y}]\n"
        "tasks: {worker: {count: 1, hosts: a}}\n"
        "env: {A: '${NO_SUCH_VARIABLE}'}\n"
        "restart: {attempts: 0}\n"
    )
    (tmp_path / "there").mkdir()
    assert load_spec(file).cluster == "d"
    file.write_text(file.read_text().replace("env: {A: '${NO_SUCH_VARIABLE}'}\n", ""))
    with pytest.raises(InvalidSpec) as caught:
        load_spec(file, {}, for_up=True, strict=True)
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (2, "no task may run on the hosts of `c`"),
        (3, "`./none` is not on this machine"),
        (3, "`./nothing` is not on this machine"),
        (4, "`./gone` is not on this machine"),
        (6, "`attempts: 0` gives a task up when it fails for the first time"),
    ]
