"""Wheels for hosts that reach no package index: of what is installed here, or else what pip finds from here.

What is installed here is taken first: the job then runs with the versions that it was tried with.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import io
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path

from packaging import tags
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import Version

from dtfctl.errors import Signal
from dtfctl.launcher.errors import ScriptError
from dtfctl.launcher.operator.requirements import OURS, Wanted
from dtfctl.launcher.providers import host_base
from dtfctl.launcher.providers.bundle import Platform
from dtfctl.launcher.system.files import explained, private_folder
from dtfctl.values import value

PIP_S = 900.0
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
NOT_REPEATED = ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")


class CannotCollect(Signal):
    """The wheels cannot be had here; the text says why."""


@value
class Target:
    """A kind of Python on hosts, and what it has."""

    facts: Mapping[str, object]
    have: Mapping[str, str]
    """Normal name to version: what every such host has."""


def collect(wanted: Wanted, target: Target, cache: Path) -> list[Path]:
    """Collect wheels of all that such hosts lack, without those that `wanted` names by their paths.

    Raises:
        CannotCollect: they can be had neither from this Python nor from an index.
    """
    platform = Platform.of_facts(target.facts)
    if not wanted.hashed:
        found = _installed(wanted, platform, target.have)
        if found is not None:
            return [repack(item, cache) for item in found]
    return _downloaded(wanted, platform, cache)


def _installed(
    wanted: Wanted, platform: Platform, have: Mapping[str, str]
) -> list[importlib.metadata.Distribution] | None:
    """List what of this Python such a host lacks; None where something is not here, or does not run there."""
    markers, runs = platform.markers(), platform.tags()
    own = {canonicalize_name(parse_wheel_filename(path.name)[0]): path for path in wanted.wheels}
    found: dict[str, importlib.metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(line, "") for line in wanted.lines]
    while waiting:
        line, extra = waiting.pop()
        item = Requirement(line)
        if item.marker is not None and not item.marker.evaluate({**markers, "extra": extra}):
            continue
        name = canonicalize_name(item.name)
        if name in own:
            requires = _requires_of(own[name])
        elif name == OURS or (name in have and item.specifier.contains(have[name], prereleases=True)):
            continue
        else:
            here = _distribution(item, runs)
            if here is None:
                return None
            found[name], requires = here, list(here.requires or ())
        for inner in ("", *sorted(item.extras)):
            if (name, inner) not in seen:
                seen.add((name, inner))
                waiting += [(line, inner) for line in requires]
    return [found[name] for name in sorted(found)]


def _distribution(item: Requirement, runs: set[tags.Tag]) -> importlib.metadata.Distribution | None:
    """Find what is installed here, if it is what is asked for and can be made a wheel again."""
    try:
        here = importlib.metadata.distribution(item.name)
    except importlib.metadata.PackageNotFoundError:
        return None
    fits = item.url is None and item.specifier.contains(Version(here.version), prereleases=True)
    is_editable = '"editable"' in (here.read_text("direct_url.json") or "")
    return here if fits and not is_editable and here.files and _tags_of(here) & runs else None


def _tags_of(item: importlib.metadata.Distribution) -> set[tags.Tag]:
    lines = (item.read_text("WHEEL") or "").splitlines()
    return {tag for line in lines if line.startswith("Tag: ") for tag in tags.parse_tag(line[5:].strip())}


def _requires_of(wheel: Path) -> list[str]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            text = archive.read(name).decode("utf-8", "replace")
    except (OSError, zipfile.BadZipFile, StopIteration) as error:
        raise ScriptError(f"{wheel} is no wheel: {error or 'it has no METADATA'}") from None
    return HeaderParser().parsestr(text).get_all("Requires-Dist") or []


def repack(item: importlib.metadata.Distribution, cache: Path) -> Path:
    """Make a wheel of what is installed, the same bytes every time. Its scripts are made where it is installed."""
    record = item.read_text("RECORD") or ""
    known = hashlib.sha256(f"{item.metadata['Name']} {item.version} {record}".encode()).hexdigest()[:24]
    parts = [_tags_of(item)]
    tag = ".".join(sorted({t.interpreter for t in parts[0]})), ".".join(sorted({t.abi for t in parts[0]}))
    platforms = ".".join(sorted({t.platform for t in parts[0]}))
    name = str(item.metadata["Name"]).replace("-", "_").replace(".", "_")
    wheel = private_folder(cache / known) / f"{name}-{item.version}-{tag[0]}-{tag[1]}-{platforms}.whl"
    if wheel.exists():
        os.utime(wheel)
        return wheel
    fresh = wheel.with_name(f".{os.getpid()}")
    with explained(wheel):
        try:
            _write_wheel(fresh, item)
            fresh.replace(wheel)
        finally:
            fresh.unlink(missing_ok=True)
    return wheel


def _write_wheel(path: Path, item: importlib.metadata.Distribution) -> None:
    rows = []
    information = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:

        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = mode << 16
            archive.writestr(entry, data)

        for name in sorted(str(file) for file in item.files or ()):
            source = Path(str(item.locate_file(name)))
            folder = name.partition("/")[0]
            if folder.endswith(".dist-info"):
                information = folder
            if name.startswith(("..", "/")) or name.endswith(".pyc") or not source.is_file():
                continue
            if folder.endswith(".dist-info") and name.rpartition("/")[2] in NOT_REPEATED:
                continue
            data = source.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append((name, f"sha256={digest}", str(len(data))))
            add(name, data, 0o755 if os.access(source, os.X_OK) else 0o644)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (f"{information}/RECORD", "", "")])
        add(f"{information}/RECORD", text.getvalue().encode(), 0o644)


def _downloaded(wanted: Wanted, platform: Platform, cache: Path) -> list[Path]:
    """Download wheels with this Python's pip, from wherever it takes packages."""
    here = platform == Platform.of_facts(host_base.facts())
    with tempfile.TemporaryDirectory(dir=private_folder(cache), prefix="pip-") as folder:
        place = Path(folder)
        hashed = {line.split(" --hash=")[0]: line for line in wanted.hashed}
        lines = [hashed.get(line, line) for line in wanted.lines]
        (place / "requirements.txt").write_text("\n".join([*wanted.options, *lines, ""]))
        (place / "constraints.txt").write_text("\n".join([*wanted.constraints, ""]))
        command = ["wheel", "--wheel-dir"] if here else ["download", "--only-binary", ":all:", "--dest"]
        command += [str(place / "wheels"), "-r", str(place / "requirements.txt"), "-c", str(place / "constraints.txt")]
        for link in (*wanted.links, *{path.parent for path in wanted.wheels}):
            command += ["--find-links", str(link)]
        if not here:
            command += ["--python-version", f"{platform.python[0]}.{platform.python[1]}", "--implementation", "cp"]
            for name in platform.platforms:
                command += ["--platform", name]
        pip(command)
        found = []
        own = {path.name for path in wanted.wheels}
        for wheel in sorted((place / "wheels").glob("*.whl")):
            if wheel.name not in own and canonicalize_name(wheel.name.partition("-")[0]) != OURS:
                known = private_folder(cache / hashlib.sha256(wheel.read_bytes()).hexdigest()[:24]) / wheel.name
                found.append(wheel.replace(known))
        return found


def built(project: Path, cache: Path) -> Path:
    """Build the wheel of a source tree or archive on this machine.

    Raises:
        CannotCollect: it cannot be built.
    """
    folder = Path(tempfile.mkdtemp(dir=private_folder(cache), prefix="built-"))
    pip(["wheel", "--no-deps", "--wheel-dir", str(folder), str(project)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def pip(words: Sequence[str]) -> None:
    """Run this Python's pip. Raises CannotCollect: it is not there, or fails."""
    command = [sys.executable, "-P", "-m", "pip", *words[:1], "--quiet", "--disable-pip-version-check", "--no-input"]
    command += ["--retries", "1", "--timeout", "10", *words[1:]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCollect(str(error)) from None
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "pip said nothing").splitlines()
        raise CannotCollect(next((line for line in reversed(said) if "ERROR" in line), said[-1]))


def own_pip(cache: Path) -> Path | None:
    """Make a wheel of this Python's pip, for hosts that have none; None where there is none here either."""
    try:
        return repack(importlib.metadata.distribution("pip"), cache)
    except importlib.metadata.PackageNotFoundError:
        return None
