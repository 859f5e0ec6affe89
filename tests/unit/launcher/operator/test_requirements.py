"""What a script asks for: requirements files as pip reads them, extras, and the script's own metadata."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from dtfctl.launcher.errors import ScriptError
from dtfctl.launcher.operator import requirements, wheels
from dtfctl.launcher.operator.requirements import Wanted
from dtfctl.launcher.providers import host_base
from tests.support.wheel import make_wheel


def of_file(tmp_path: Path, text: str) -> Wanted:
    (tmp_path / "requirements.txt").write_text(text)
    return requirements.wanted(tmp_path / "job.py", b"", [str(tmp_path / "requirements.txt")], [], python=True)


def test_a_requirements_file_is_read_as_pip_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "secret")
    (tmp_path / "more.txt").write_text("six\n")
    (tmp_path / "limits.txt").write_text("six<2\n")
    found = of_file(
        tmp_path,
        "# a comment\nnumpy>=2 ; python_version >= '3.11'  # why\nscikit-learn \\\n  >=1.4\n"
        "-r more.txt\n-c limits.txt\n--index-url=https://me:${TOKEN}@example.org/simple\n-f links\n"
        "tool @ https://example.org/tool-1.0.zip#egg=tool\n",
    )
    assert found.lines == (
        "numpy>=2 ; python_version >= '3.11'",
        "scikit-learn   >=1.4",
        "six",
        "tool @ https://example.org/tool-1.0.zip#egg=tool",
    )
    assert found.constraints == ("six<2",)
    assert found.options == ("--index-url https://me:secret@example.org/simple",)
    assert found.links == (tmp_path / "links",)


def test_wheels_and_projects_are_named_by_paths_beside_the_file(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "thing", "3.1")
    (tmp_path / "project").mkdir()
    found = of_file(tmp_path, f"./{wheel.name}\nother @ file://{tmp_path}/project\n")
    assert (found.lines, found.wheels, found.projects) == (("thing==3.1",), (wheel,), (tmp_path / "project",))


def test_hashes_are_kept_for_who_looks_for_the_files(tmp_path: Path) -> None:
    found = of_file(tmp_path, "six==1.17.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb\n")
    assert found.lines == ("six==1.17.0",)
    assert found.hashed == ("six==1.17.0 --hash=sha256:aa --hash=sha256:bb",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("numpy=>2\n", r"requirements.txt:1: `numpy=>2` is no requirement"),
        ("\nsix\n-e .\n", r"requirements.txt:3: `-e \.` cannot be sent"),
        ("./gone.whl\n", r"requirements.txt:1: there is no .*gone.whl"),
        ("--frobnicate\n", r"requirements.txt:1: `--frobnicate` is not known"),
        ("-r missing.txt\n", r"cannot read .*missing.txt"),
        ("-r requirements.txt\n", r"leads to itself"),
    ],
)
def test_a_mistake_has_its_place(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScriptError, match=words):
        of_file(tmp_path, text)


def test_the_scripts_own_metadata_counts(tmp_path: Path) -> None:
    source = b'"""Doc."""\r\n# /// script\r\n# dependencies = [\r\n#   "rich",\r\n# ]\r\n# ///\r\nprint(1)\r\n'
    found = requirements.wanted(tmp_path / "job.py", source, ["six>=1"], [], python=True)
    assert found.lines == ("rich", "six>=1")
    assert requirements.wanted(tmp_path / "job.sh", source, [], [], python=False).is_empty
    for text, words in {
        "# /// script\n# nonsense\n# ///\n": "job.py:1: the `# /// script` block is not TOML",
        "# /// script\n# dependencies = ['a b']\n# ///\n": "job.py:1: `a b` is no requirement",
        "# /// script\n# requires-python = 'new'\n# ///\n": "`requires-python` is 'new'",
        "# /// script\n# x = 1\n# ///\n\n# /// script\n# x = 1\n# ///\n": "several",
    }.items():
        with pytest.raises(ScriptError, match=words):
            requirements.wanted(Path("job.py"), text.encode(), [], [], python=True)


def test_extras_are_those_of_dtfctl(tmp_path: Path) -> None:
    found = requirements.of_extras(["examples", "fast"])
    names = [line.split(">")[0] for line in found.lines]
    assert names == ["scikit-learn", "llvmlite", "numba", "onednn-cpu-gomp"]
    assert all("extra" not in line for line in found.lines)
    same = requirements.wanted(tmp_path / "job.py", b"", ["dtfctl[examples]"], [], python=True)
    assert [line.split(">")[0] for line in same.lines] == ["scikit-learn"], "dtfctl itself is there"
    with pytest.raises(ScriptError, match="no extra 'exmaples'"):
        requirements.of_extras(["exmaples"])


def test_what_is_installed_here_becomes_the_same_wheel_every_time(tmp_path: Path) -> None:
    facts = host_base.facts()
    found = wheels.collect(Wanted(lines=("jsonschema",)), wheels.Target(facts, {"attrs": "99.0"}), tmp_path / "one")
    names = {path.name.partition("-")[0] for path in found}
    assert "jsonschema" in names and "referencing" in names
    assert "attrs" not in names, "such hosts have it"
    again = wheels.collect(Wanted(lines=("jsonschema",)), wheels.Target(facts, {"attrs": "99.0"}), tmp_path / "two")
    assert [path.read_bytes() for path in found] == [path.read_bytes() for path in again]
    with zipfile.ZipFile(next(path for path in found if path.name.startswith("jsonschema-"))) as wheel:
        assert wheel.testzip() is None
        assert any(name.endswith(".dist-info/entry_points.txt") for name in wheel.namelist())


@pytest.mark.slow
def test_what_is_not_here_and_in_no_index_cannot_be_collected(tmp_path: Path) -> None:
    wanted = Wanted(lines=("nosuchpackage-of-anybody",), options=("--no-index",))
    with pytest.raises(wheels.CannotCollect, match="nosuchpackage-of-anybody"):
        wheels.collect(wanted, wheels.Target(host_base.facts(), {}), tmp_path)
