"""What the text links to is there, and the specs that it shows are valid."""

from __future__ import annotations

import re
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


@pytest.mark.parametrize("page", [ROOT / "docs" / "architecture.md", *INTERNALS], ids=name_of)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    files = {f"/{file.relative_to(ROOT)}" for part in ("dtfctl", "tests") for file in (ROOT / part).rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", page.read_text()))
    assert not {name for name in named if not any(file.endswith(f"/{name}") for file in files)}


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
