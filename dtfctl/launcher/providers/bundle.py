"""What a host needs to run dtfctl: its packages, taken from this machine's, and dtfctl itself; both by content hash.

A host that runs the same kind of Python gets the files that are installed here, so it needs neither pip nor a network.
For another kind the wheels of the same versions are downloaded here.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging import tags
from packaging.requirements import Requirement

import dtfctl
from dtfctl.durable import remove_left, whole_file
from dtfctl.launcher.errors import ClusterFailed
from dtfctl.launcher.files import private_folder
from dtfctl.launcher.providers import host_side
from dtfctl.launcher.providers.base import HostFailed

LAYOUT = "1"
"""Of what is unpacked on hosts; a change makes every bundle a new one."""
OLDEST_GLIBC_MINOR = 5
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
DOWNLOAD_S = 900.0
UNPACKED_FACTOR = 4
"""How much larger a bundle is on the disk of a host, at most, than on its way."""


@dataclass(frozen=True, slots=True)
class Platform:
    """A kind of Python on a kind of machine."""

    python: tuple[int, int]
    full_version: str
    implementation: str
    machine: str
    libc: str
    """`glibc`, `musl` or empty."""
    libc_version: tuple[int, int]

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Platform:
        """From what `host_side.py` tells about a host."""
        major, minor, *_ = (int(part) for part in facts["python"].split("+")[0].split(".")[:2])
        name, version = facts["libc"]
        numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        libc = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
        return cls((major, minor), facts["python"], facts["implementation"], facts["machine"], name or "musl", libc)

    @property
    def platforms(self) -> list[str]:
        """Platform tags of wheels that run there, the newest first."""
        machine = self.machine
        if self.libc == "glibc":
            minors = range(self.libc_version[1], OLDEST_GLIBC_MINOR - 1, -1)
            legacy = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
            found = []
            for minor in minors:
                found.append(f"manylinux_2_{minor}_{machine}")
                if minor in legacy:
                    found.append(f"{legacy[minor]}_{machine}")
        else:
            found = [f"musllinux_1_{minor}_{machine}" for minor in range(max(self.libc_version[1], 2), -1, -1)]
        return [*found, f"linux_{machine}"]

    def tags(self) -> set[tags.Tag]:
        """Of every wheel that runs there."""
        platforms = self.platforms
        interpreter = f"cp{self.python[0]}{self.python[1]}"
        return {
            *tags.cpython_tags(self.python, platforms=platforms),
            *tags.compatible_tags(self.python, interpreter, platforms),
        }

    def markers(self) -> dict[str, str]:
        """What the markers of requirements ask for."""
        return {
            "implementation_name": "cpython",
            "implementation_version": self.full_version,
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": self.implementation,
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": self.full_version,
            "python_version": f"{self.python[0]}.{self.python[1]}",
            "sys_platform": "linux",
            "extra": "",
        }

    def __str__(self) -> str:
        return f"Python {self.python[0]}.{self.python[1]} on {self.machine} ({self.libc})"


@dataclass(frozen=True, slots=True)
class Bundle:
    """Two archives and the names of what they become."""

    packages: str
    runtime: str
    requirements: tuple[str, ...]
    """`numpy==2.3.1` and so on."""


class Bundles:
    """Made on demand and kept in `cache`; safe for any thread."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._code: tuple[str, list[tuple[Path | bytes, str]]] | None = None
        self._known: dict[Platform, Bundle] = {}

    def of(self, platform: Platform) -> Bundle:
        """What such a host needs; nothing is built yet."""
        with self._lock:
            if platform not in self._known:
                wanted = _closure(platform)
                pins = tuple(sorted(f"{item.metadata['Name']}=={item.version}" for item in wanted))
                kind = f"{platform.python} {platform.machine} {platform.libc}"
                packages = _digest([LAYOUT, kind, *pins])
                runtime = _digest([LAYOUT, packages, self._code_files()[0]])
                self._known[platform] = Bundle(packages, runtime, pins)
            return self._known[platform]

    def likely(self) -> list[str]:
        """The runtimes of hosts like this machine, and like those that were asked about."""
        self.of(Platform.of_facts(host_side.facts()))
        with self._lock:
            return [bundle.runtime for bundle in self._known.values()]

    def packages_archive(self, platform: Platform) -> Path:
        """A zip of the packages, as they stand in a site-packages folder.

        Raises:
            HostFailed: this machine's packages do not run there, and no others can be downloaded.
        """
        bundle = self.of(platform)
        with self._lock:
            path = private_folder(self._cache) / f"packages-{bundle.packages}.zip"
            if not path.exists():
                installed = _closure(platform)
                runs = platform.tags()
                if all(_tags_of(item) & runs for item in installed):
                    _zip(path, (entry for item in installed for entry in _files_of(item)))
                else:
                    self._download(path, platform, bundle.requirements)
            return path

    def runtime_archive(self, platform: Platform) -> Path:
        """A zip of dtfctl's own files."""
        bundle = self.of(platform)
        with self._lock:
            path = private_folder(self._cache) / f"dtfctl-{bundle.runtime}.zip"
            if not path.exists():
                for old in self._cache.glob("dtfctl-*.zip"):
                    old.unlink()
                _zip(path, self._code_files()[1])
            return path

    def _code_files(self) -> tuple[str, list[tuple[Path | bytes, str]]]:
        if self._code is None:
            root = Path(dtfctl.__file__).parent
            files = []
            for folder, folders, names in os.walk(root):
                folders[:] = sorted(name for name in folders if name != "__pycache__")
                files += [Path(folder) / name for name in sorted(names) if not name.endswith((".pyc", ".pyo"))]
            digest = hashlib.sha256()
            for path in files:
                digest.update(f"{path.relative_to(root)}\0{path.stat().st_size}\0".encode())
                digest.update(path.read_bytes())
            # A controller that runs on a host makes bundles for the others: it has to know what it depends on.
            metadata = _own_metadata()
            digest.update(metadata.encode())
            entries: list[tuple[Path | bytes, str]] = [(path, str(path.relative_to(root.parent))) for path in files]
            entries.append((metadata.encode(), f"dtfctl-{dtfctl.__version__}.dist-info/METADATA"))
            self._code = (digest.hexdigest(), entries)
        return self._code

    def _download(self, path: Path, platform: Platform, requirements: Sequence[str]) -> None:
        folder = private_folder(path.with_suffix(".wheels"))
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]
        command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
        command += ["--python-version", f"{platform.python[0]}.{platform.python[1]}", "--implementation", "cp"]
        for name in platform.platforms:
            command += ["--platform", name]
        try:
            done = subprocess.run(
                [*command, *requirements], capture_output=True, text=True, timeout=DOWNLOAD_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise HostFailed("install", f"no packages for {platform}: the download took too long") from None
        if done.returncode != 0:
            said = (done.stderr.strip() or done.stdout.strip() or "pip failed").splitlines()[-1]
            raise HostFailed(
                "install",
                f"needs packages for {platform}, which this machine does not have and cannot download: {said}",
                f"use the Python of this machine there ({sys.version_info.major}.{sys.version_info.minor})",
            )
        _zip(path, _wheel_entries(sorted(folder.glob("*.whl"))))
        for wheel in folder.iterdir():
            wheel.unlink()
        folder.rmdir()


def _own_metadata() -> str:
    own = importlib.metadata.distribution("dtfctl")
    text = own.read_text("METADATA") or own.read_text("PKG-INFO")  # the latter in a checkout that was built in place
    if not text:
        raise ClusterFailed("dtfctl does not know what it depends on", "install it again: pip install dtfctl")
    return text


def _closure(platform: Platform) -> list[importlib.metadata.Distribution]:
    """What dtfctl depends on there, in the versions that are installed here."""
    markers = platform.markers()
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = ["dtfctl"]
    while waiting:
        name = waiting.pop()
        try:
            item = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise ClusterFailed(
                f"the package {name}, which hosts need, is not installed here", f"pip install {name}"
            ) from None
        for line in item.requires or ():
            requirement = Requirement(line)
            if requirement.marker is not None and not requirement.marker.evaluate(markers):
                continue
            key = requirement.name.lower().replace("_", "-")
            if key not in found:
                found[key] = importlib.metadata.distribution(requirement.name)
                waiting.append(requirement.name)
    return [found[name] for name in sorted(found)]


def _tags_of(item: importlib.metadata.Distribution) -> set[tags.Tag]:
    lines = (item.read_text("WHEEL") or "").splitlines()
    return {tag for line in lines if line.startswith("Tag: ") for tag in tags.parse_tag(line[5:].strip())}


def _files_of(item: importlib.metadata.Distribution) -> Iterable[tuple[Path, str]]:
    for name in item.files or ():
        text = str(name)
        if not text.startswith("..") and not text.endswith(".pyc"):
            path = Path(str(item.locate_file(name)))
            if path.is_file():
                yield path, text


def _wheel_entries(wheels: Iterable[Path]) -> Iterable[tuple[bytes, str]]:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as source:
            for info in source.infolist():
                if info.is_dir():
                    continue
                first, _, rest = info.filename.partition("/")
                if first.endswith(".data"):
                    scheme, _, rest = rest.partition("/")
                    if scheme not in ("purelib", "platlib"):
                        continue
                    yield source.read(info), rest
                else:
                    yield source.read(info), info.filename


def _zip(path: Path, entries: Iterable[tuple[Path | bytes, str]]) -> None:
    """A zip with the same bytes for the same content; there whole or not at all."""
    remove_left(path.parent)
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for content, name in entries:
            info = zipfile.ZipInfo(name, FIXED_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, content.read_bytes() if isinstance(content, Path) else content)


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
