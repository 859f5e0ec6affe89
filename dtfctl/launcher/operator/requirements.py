"""What a job's script asks for: requirements files, extras of dtfctl, and the metadata in the script (PEP 723).

>>> lines = ["# /// script", '# requires-python = ">=3.11"', '# dependencies = ["scikit-learn>=1.4"]', "# ///", ""]
>>> header("\\n".join(lines), "job.py")
Wanted(lines=('scikit-learn>=1.4',), requires_python='>=3.11')
>>> header("print(1)", "job.py") == Wanted()
True
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import tomllib
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from dtfctl.launcher.errors import ScriptError

BLOCK = re.compile(r"(?m)^# /// (?P<type>[a-zA-Z0-9-]+)$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
INDEX_OPTIONS = ("--index-url", "--extra-index-url", "--find-links", "--trusted-host")
SHORT = {"-i": "--index-url", "-f": "--find-links", "-r": "--requirement", "-c": "--constraint", "-e": "--editable"}
PLAIN_OPTIONS = ("--no-index", "--pre", "--prefer-binary", "--no-binary", "--only-binary")
DEEPEST = 20
OURS = "dtfctl"
"""Every Python that runs a job has it already."""


@dataclass(frozen=True, slots=True, repr=False)
class Wanted:
    """What was asked for, as far as this machine can tell without looking for any package."""

    lines: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    """The options of an index, for whoever asks it: here or on the hosts."""
    requires_python: str = ""
    wheels: tuple[Path, ...] = ()
    """Named by their paths."""
    projects: tuple[Path, ...] = ()
    """Source trees and archives named by their paths: wheels have to be made of them."""
    links: tuple[Path, ...] = ()
    """Folders on this machine with more wheels."""
    hashed: tuple[str, ...] = ()
    """The lines that name hashes, with the hashes."""

    def __repr__(self) -> str:
        said = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if getattr(self, f.name))
        return f"Wanted({said})"

    def __add__(self, other: Wanted) -> Wanted:
        return Wanted(**{f.name: _joined(getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})

    @property
    def is_empty(self) -> bool:
        return not (self.lines or self.requires_python or self.wheels or self.projects)


def _joined(one: Any, two: Any) -> Any:
    if isinstance(one, str):
        return ",".join(filter(None, [one, two]))
    return tuple(dict.fromkeys([*one, *two]))


def wanted(script: Path, source: bytes, requirements: Sequence[str], extras: Sequence[str], *, python: bool) -> Wanted:
    """Read everything that is asked for; `requirements` are files, or requirements themselves.

    Raises:
        ScriptError: something cannot be understood, or will not be sent; the message has file and line.
    """
    found = header(source.decode("utf-8", "replace"), str(script)) if python else Wanted()
    for item in requirements:
        path = Path(item).expanduser()
        found += _of_file(path.absolute(), 0) if path.is_file() else _of_line(item, "the requirements", Path.cwd())
    return _without_ours(found + of_extras(extras))


def header(text: str, where: str) -> Wanted:
    """Read the script's own metadata. Raises ScriptError: it is not what PEP 723 says."""
    blocks = [match for match in BLOCK.finditer(text.replace("\r\n", "\n")) if match["type"] == "script"]
    if not blocks:
        return Wanted()
    if len(blocks) > 1:
        raise ScriptError(f"{where} has several `# /// script` blocks", "keep one of them")
    lines = blocks[0]["content"].splitlines()
    at = text[: blocks[0].start()].count("\n") + 1
    try:
        data = tomllib.loads("\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines))
    except tomllib.TOMLDecodeError as error:
        raise ScriptError(f"{where}:{at}: the `# /// script` block is not TOML: {error}") from None
    dependencies, version = data.get("dependencies", []), data.get("requires-python", "")
    if not isinstance(dependencies, list) or not all(isinstance(item, str) for item in dependencies):
        raise ScriptError(f"{where}:{at}: `dependencies` is not a list of strings")
    try:
        SpecifierSet(version)
    except (InvalidSpecifier, TypeError, AttributeError):
        raise ScriptError(f"{where}:{at}: `requires-python` is {version!r}", "for example: >=3.11") from None
    for item in dependencies:
        _check(item, f"{where}:{at}")
    return Wanted(lines=tuple(dependencies), requires_python=version)


def of_extras(extras: Sequence[str]) -> Wanted:
    """Read what dtfctl itself lists under these names.

    Raises:
        ScriptError: it has no such extra.
    """
    own = importlib.metadata.distribution(OURS)
    known = own.metadata.get_all("Provides-Extra") or []
    lines = []
    for extra in extras:
        if extra not in known:
            raise ScriptError(f"dtfctl has no extra {extra!r}", f"it has {', '.join(sorted(known))}")
        word = rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]"
        for line in own.requires or ():
            text, _, marker = line.partition(";")
            if re.search(word, marker):
                rest = re.sub(rf"\s*(and\s+)?{word}", "", marker).strip()
                lines.append(f"{text.strip()}; {rest}" if rest else text.strip())
    return Wanted(lines=tuple(lines))


def _without_ours(found: Wanted) -> Wanted:
    """Replace `dtfctl[examples]` by what that extra lists; dtfctl itself is there."""
    lines, extras = [], []
    for line in found.lines:
        item = Requirement(line)
        if canonicalize_name(item.name) == OURS:
            extras += sorted(item.extras)
        else:
            lines.append(line)
    if len(lines) == len(found.lines):
        return found
    values = {f.name: getattr(found, f.name) for f in fields(found)}
    return Wanted(**{**values, "lines": tuple(lines)}) + of_extras(extras)


# ---------------------------------------------------------------- requirements files


def _of_file(path: Path, depth: int) -> Wanted:
    if depth > DEEPEST:
        raise ScriptError(f"{path} leads to itself")
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, ValueError) as error:
        raise ScriptError(f"cannot read {path}: {error}") from None
    found = Wanted()
    for number, line in _lines(text):
        found += _of_line(line, f"{path}:{number}", path.parent, depth)
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield whole lines without comments, with the numbers at which they begin."""
    begun, at = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        at = at or number
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            begun += line[:-1]
            continue
        whole = re.sub(r"(^|\s)#.*$", "", begun + line).strip()
        if whole:
            yield at, re.sub(r"\$\{([A-Z0-9_]+)\}", lambda m: os.environ.get(m[1], m[0]), whole)
        begun, at = "", 0


def _of_line(line: str, where: str, folder: Path, depth: int = 0) -> Wanted:
    if line.startswith("-"):
        return _of_option(line, where, folder, depth)
    line, *hashes = re.split(r"\s+--hash[= ]", line)
    path = _path_of(line, folder)
    if path is not None:
        return _of_path(path, line, where)
    _check(line, where)
    hashed = (" ".join([line, *(f"--hash={item.strip()}" for item in hashes)]),) if hashes else ()
    return Wanted(lines=(line,), hashed=hashed)


def _of_option(line: str, where: str, folder: Path, depth: int) -> Wanted:
    option, _, value = (part.strip() for part in re.sub(r"^(--[a-z-]+)=", r"\1 ", line).partition(" "))
    option = SHORT.get(option, option)
    if option in ("--requirement", "--constraint"):
        inner = _of_file((folder / Path(value).expanduser()).absolute(), depth + 1)
        return inner if option == "--requirement" else Wanted(constraints=inner.lines)
    if option == "--editable":
        raise ScriptError(
            f"{where}: `{line}` cannot be sent", "send its folder with --working-dir, or name it without -e"
        )
    if option == "--find-links" and "://" not in value:
        return Wanted(links=((folder / Path(value).expanduser()).absolute(),))
    if option in INDEX_OPTIONS or option in PLAIN_OPTIONS:
        return Wanted(options=(f"{option} {value}".strip(),))
    if option in ("--require-hashes", "--use-feature"):
        return Wanted()
    raise ScriptError(f"{where}: `{option}` is not known", f"known are {', '.join((*INDEX_OPTIONS, *PLAIN_OPTIONS))}")


def _path_of(line: str, folder: Path) -> Path | None:
    """Find the file or folder that a line names; None where it names a package."""
    text = line.partition(" @ ")[2].strip() or line
    text = re.split(r"\s+;|\s*\[[^\]]*\]$", text)[0].strip()
    if text.startswith("file:"):
        return Path(urllib.parse.unquote(urllib.parse.urlsplit(text).path))
    if "://" in text or "+" in text.partition("/")[0]:
        return None
    if text.startswith((".", "/", "~")) or text.endswith((".whl", ".tar.gz", ".zip")):
        return (folder / Path(text).expanduser()).absolute()
    return None


def _of_path(path: Path, line: str, where: str) -> Wanted:
    if not path.exists():
        raise ScriptError(f"{where}: there is no {path}", "paths are relative to the file that names them")
    if path.suffix != ".whl":
        return Wanted(projects=(path,))
    try:
        name, version, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise ScriptError(f"{where}: {error}") from None
    extras = re.search(r"\[[^\]]*\]$", line)
    return Wanted(lines=(f"{name}{extras[0] if extras else ''}=={version}",), wheels=(path,))


def _check(line: str, where: str) -> None:
    try:
        Requirement(line)
    except InvalidRequirement as error:
        said = str(error).splitlines()[0]
        raise ScriptError(f"{where}: `{line}` is no requirement: {said}", "for example: scikit-learn>=1.4") from None
