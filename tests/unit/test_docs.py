"""What the text links to is there, and the specs that it shows are valid."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from dtfctl.launcher.spec import load_spec

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INTERNALS = sorted((ROOT / "docs" / "internals").glob("*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
WHOLE = re.compile(r"(?:#[^\n]*\n)*(?:version: 1\n)?cluster: ")
"""How a block begins that is a whole spec."""


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors_of(page: Path) -> set[str]:
    """Return the names under which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


def test_pages_about_mechanisms_are_all_in_their_index() -> None:
    folder = ROOT / "docs" / "internals"
    named = set(LINK.findall((folder / "README.md").read_text()))
    assert {page.name for page in folder.glob("*.md")} - {"README.md"} <= named


SOURCES = ("dtfctl", "tests", "tools", "benchmarks", "examples")
FILE = re.compile(r"(?<![\w/.*-])\w[\w/]*\.py\b")
FOLDER = re.compile(r"`([\w/]+/)`")
SCRIPTS = {"job.py", "train.py", "script.py", "ddp.py", "tf1_script.py", "x.py"}
"""What examples call the script of a program."""


def missing_from(text: str) -> set[str]:
    """Return the files of this repository that a text names, in words and pictures, and that are not there."""
    return {name for name in FILE.findall(text) if name not in SCRIPTS and f"/{name}" not in endings()}


@cache
def endings() -> set[str]:
    """Every way to name a file or folder of the sources: `/queue.py`, `/kernels/queue.py` and so on."""
    found = set()
    for part in SOURCES:
        for path in [ROOT / part, *(ROOT / part).rglob("*")]:
            if path.suffix == ".py" or path.is_dir():
                names = path.relative_to(ROOT).parts
                end = "/" if path.is_dir() else ""
                found |= {f"/{'/'.join(names[i:])}{end}" for i in range(len(names))}
    return found


@pytest.mark.parametrize(
    "page", [ROOT / "docs" / "architecture.md", ROOT / "docs" / "custom-ops.md", *INTERNALS], ids=name_of
)
def test_files_and_folders_that_a_page_names_are_there(page: Path) -> None:
    assert not missing_from(page.read_text())
    assert not {name for name in FOLDER.findall(page.read_text()) if f"/{name}" not in endings()}


def test_files_that_comments_and_docstrings_name_are_there() -> None:
    found = {name_of(file): missing_from(file.read_text()) for file in (ROOT / "dtfctl").rglob("*.py")}
    assert not {name: missing for name, missing in found.items() if missing}


def test_a_file_that_is_not_there_is_found() -> None:
    assert missing_from("`kernels/quantum.py`, see ops/layers.py of job.py; `*_pb2.py`") == {"kernels/quantum.py"}


def specs() -> list[tuple[str, str]]:
    """Return (page and number, text) of every whole spec in the pages."""
    blocks = [(name_of(page), text) for page in PAGES for text in BLOCK.findall(page.read_text())]
    found = [(page, text) for page, text in blocks if WHOLE.match(text)]
    return [(f"{page}-{number}", text) for number, (page, text) in enumerate(found)]


def test_there_are_specs() -> None:
    assert len(specs()) >= 3


@pytest.mark.parametrize("text", [text for _, text in specs()], ids=[name for name, _ in specs()])
def test_specs_are_valid(text: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(text)
    load_spec(file, {})


@pytest.mark.parametrize("file", sorted((ROOT / "cluster-examples").glob("*.yaml")), ids=lambda file: file.name)
def test_example_specs_are_valid(file: Path) -> None:
    load_spec(file, {})
