"""What a host needs to run dtfctl, in layers: dtfctl itself, the packages its tasks cannot start without, and those
that only some programs use, which are sent once tasks run. Each goes by the hash of what it consists of.

A host that runs the same kind of Python gets the files that are installed here, with their bytecode, so it needs
neither pip nor a network. For another kind the wheels of the same versions are downloaded here.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from packaging import tags
from packaging.requirements import Requirement

import dtfctl
from dtfctl.launcher.errors import ClusterFailed
from dtfctl.launcher.providers import host_base, host_layers, host_unpack, packing, wheels
from dtfctl.launcher.providers.packing import Archive
from dtfctl.launcher.system.files import private_folder, write_whole

LAYOUT = "2"
"""The version of what is unpacked on hosts; a change makes every layer a new one."""
OLDEST_GLIBC_MINOR = 5
UNUSED_S = 3600.0
"""A layer of dtfctl's own that nobody has asked for in so long is not sent any more."""
REMEMBERED = 16
"""Kinds of hosts whose runtimes are looked for before anything is asked."""
OPERATORS_ONLY = frozenset({"typer", "rich"})
"""Dependencies that only the command line has."""
MATH = frozenset({"scipy"})
"""What few kernels use; it is as large as all else together."""
LayerName: TypeAlias = Literal["dtfctl", "core", "math", "fast"]
FIRST: frozenset[LayerName] = frozenset({"dtfctl", "core"})
"""Tasks wait for these; the others come when tasks run, unless a program asks for them: then it waits."""
SHARED_LIBRARY = re.compile(r"lib[^/]+\.so\.[0-9]+")


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
    abi: str = ""
    """How modules in C are named there, such as `.cpython-311-x86_64-linux-gnu.so`."""
    executable: str = ""
    """The interpreter that runtimes lead to."""

    @classmethod
    def of_facts(cls, facts: Mapping[str, Any]) -> Platform:
        """Read a platform from what `host_side.py` tells about a host."""
        major, minor, *_ = (int(part) for part in facts["python"].split("+")[0].split(".")[:2])
        name, version = facts["libc"]
        numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
        libc = (numbers[0], numbers[1]) if len(numbers) == 2 else (0, 0)
        return cls(
            *((major, minor), facts["python"], facts["implementation"], facts["machine"], name or "musl", libc),
            *(facts.get("abi", ""), facts.get("executable", "")),  # an agent does not say
        )

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
        """List the tags of every wheel that runs there."""
        platforms = self.platforms
        interpreter = f"cp{self.python[0]}{self.python[1]}"
        return {
            *tags.cpython_tags(self.python, platforms=platforms),
            *tags.compatible_tags(self.python, interpreter, platforms),
        }

    def markers(self) -> dict[str, str]:
        """Answer what the markers of requirements ask for."""
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

    @property
    def is_compiled_for(self) -> bool:
        """Whether this Python's bytecode is that one's."""
        return self.implementation == "CPython" == host_base.facts()["implementation"] and self.python == (
            *sys.version_info[:2],
        )

    @property
    def of_kind(self) -> tuple[object, ...]:
        """What decides which packages run there."""
        return self.python, self.implementation, self.machine, self.libc, self.libc_version

    def __str__(self) -> str:
        return f"Python {self.python[0]}.{self.python[1]} on {self.machine} ({self.libc})"


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder of modules on hosts."""

    name: LayerName
    hash: str
    pins: tuple[str, ...]
    """`numpy==2.3.1` and so on; empty for dtfctl itself."""
    modules: tuple[str, ...] = ()
    """The modules that are imported from the layer, where it may come later."""

    @property
    def is_first(self) -> bool:
        return self.name in FIRST


@dataclass(frozen=True, slots=True)
class Bundle:
    """All of a host's layers, and the name of the virtual environment that leads to them."""

    runtime: str
    layers: tuple[Layer, ...]

    def described(self) -> list[dict[str, Any]]:
        """Describe the layers for `host_layers.py`."""
        return [
            {
                "name": layer.name,
                "hash": layer.hash,
                "first": layer.is_first,
                "modules": layer.modules,
                "pins": layer.pins,
            }
            for layer in self.layers
        ]

    def layer(self, hash: str) -> Layer:
        return next(layer for layer in self.layers if layer.hash == hash)


class Bundles:
    """Made on demand and kept in `cache`; safe for any thread. Layers are packed side by side."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._packing: dict[str, threading.Lock] = {}
        self._packed: dict[str, Archive] = {}
        self._code: tuple[str, list[tuple[str, Path | bytes]]] | None = None
        self._known: dict[tuple[Platform, bool], Bundle] = {}
        self._asked: set[Platform] = set()

    def of(self, platform: Platform, fast: bool = False) -> Bundle:
        """Find what such a host needs; nothing is packed yet.

        Args:
            fast: with what makes it faster, where that is installed here or can be had.
        """
        with self._lock:
            self._remember(platform)
            found = self._known.get((platform, fast))
            if found is None:
                found = self._known[(platform, fast)] = self._make(platform, fast)
            return found

    def likely(self) -> list[str]:
        """List the runtimes of hosts like this machine, and like those that were asked about, also by others before."""
        self.of(Platform.of_facts(host_base.facts()))
        with self._lock:
            kinds = [*self._asked, *(kind for kind in self._remembered() if kind not in self._asked)]
        found: dict[str, None] = {}
        for kind in kinds:
            for fast in (True, False):
                found[self.of(kind, fast).runtime] = None
        return list(found)

    def archive(self, platform: Platform, layer: Layer, tell: Callable[[str], None] = lambda _: None) -> Archive:
        """Pack a layer.

        Raises:
            HostFailed: this machine's packages do not run there, and no others can be downloaded.
        """
        with self._lock:
            lock = self._packing.setdefault(layer.hash, threading.Lock())
        with lock:
            known = self._packed.get(layer.hash)
            if known is None or not known.path.exists():
                path = private_folder(self._cache) / f"{layer.name}-{layer.hash}.layer"
                if not path.exists():
                    self._pack(path, platform, layer, tell)
                known = self._packed[layer.hash] = packing.described(path)
            os.utime(known.path)
            return known

    def _make(self, platform: Platform, fast: bool) -> Bundle:
        layers = [Layer("dtfctl", _digest([LAYOUT, f"{platform.python}", self._code_files()[0]]), ())]
        for name, part in _parts(platform).items():
            if part.pins and (name != "fast" or fast):
                kind = [f"{platform.python} {platform.implementation} {platform.machine} {platform.libc}"]
                if not part.run_there:
                    kind.append(f"{platform.libc_version}")  # other wheels, which one depends on how old it is
                modules = () if name in FIRST else part.modules
                layers.append(Layer(name, _digest([LAYOUT, name, *kind, *part.pins]), part.pins, modules))
        key = [LAYOUT, platform.full_version, platform.abi, platform.executable, platform.machine, platform.libc]
        return Bundle(_digest([*key, *(layer.hash for layer in layers)]), tuple(layers))

    def _pack(self, path: Path, platform: Platform, layer: Layer, tell: Callable[[str], None]) -> None:
        tell(f"packs {layer.name}")
        if layer.name == "dtfctl":
            self._forget_unused()
            packing.pack(path, self._code_files()[1], compiled=platform.is_compiled_for)
            return
        unpacked = Path(host_layers.folder_of(layer.hash))
        if host_layers.own_layers() and unpacked.exists():
            packing.pack(path, _files_below(unpacked), compiled=platform.is_compiled_for)
            return
        if _parts(platform)[layer.name].run_there:
            items = [importlib.metadata.distribution(pin.partition("==")[0]) for pin in layer.pins]
            files = (entry for item in items for entry in _placed(_installed_files(item)))
            packing.pack(path, files, compiled=platform.is_compiled_for)
            return
        folder = path.with_suffix(".wheels")
        try:
            found = wheels.download(folder, str(platform), platform.python, platform.platforms, layer.pins, tell=tell)
            files = (entry for wheel in found for entry in _placed(wheels.files_of(wheel)))
            packing.pack(path, files, compiled=platform.is_compiled_for)
        finally:
            wheels.forget(folder)

    def _forget_unused(self) -> None:
        """Remove layers that nobody has asked for lately: each change of dtfctl makes another.

        What was asked for lately may be on its way, to hosts with another Python or from another controller.
        """
        for old in self._cache.glob("dtfctl-*.layer"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - old.stat().st_mtime > UNUSED_S:
                    old.unlink()

    def _code_files(self) -> tuple[str, list[tuple[str, Path | bytes]]]:
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
            entries: list[tuple[str, Path | bytes]] = [(str(path.relative_to(root.parent)), path) for path in files]
            entries.append((f"dtfctl-{dtfctl.__version__}.dist-info/METADATA", metadata.encode()))
            self._code = (digest.hexdigest(), entries)
        return self._code

    # ------------------------------------------------------------------ kinds of hosts that were met

    def _remember(self, platform: Platform) -> None:
        if platform in self._asked:
            return
        self._asked.add(platform)
        before = self._remembered()
        if platform not in before:
            kinds = [platform, *before][:REMEMBERED]
            private_folder(self._cache)
            write_whole(self._cache / "kinds.json", json.dumps([astuple(kind) for kind in kinds]).encode())

    def _remembered(self) -> list[Platform]:
        try:
            kinds = json.loads((self._cache / "kinds.json").read_bytes())
            return [
                Platform((python[0], python[1]), full, name, machine, libc, (version[0], version[1]), abi, executable)
                for python, full, name, machine, libc, version, abi, executable in kinds
            ]
        except (OSError, ValueError, TypeError, IndexError):
            return []


def _own_metadata() -> str:
    own = importlib.metadata.distribution("dtfctl")
    text = own.read_text("METADATA") or own.read_text("PKG-INFO")  # the latter in a checkout that was built in place
    if not text:
        raise ClusterFailed("dtfctl does not know what it depends on", "install it again: pip install dtfctl")
    return text


@dataclass(frozen=True, slots=True)
class _Part:
    """The packages of a layer."""

    pins: tuple[str, ...]
    modules: tuple[str, ...]
    run_there: bool
    """Whether the modules that are here run there."""


def _parts(platform: Platform) -> dict[LayerName, _Part]:
    """Choose what the layers beside dtfctl's own consist of for such a host."""
    own = host_layers.own_layers()
    if own:  # on a host: as it was told when it got its own, of which some may still be on their way
        same = platform.of_kind == Platform.of_facts(host_base.facts()).of_kind
        return {item["name"]: _Part(tuple(item["pins"]), tuple(item["modules"]), same) for item in own if item["pins"]}
    markers = platform.markers()
    plain = _requirements("dtfctl", markers)
    extra = [name for name in _requirements("dtfctl", {**markers, "extra": "fast"}) if name not in plain]
    core = _closure([name for name in plain if name not in OPERATORS_ONLY | MATH], markers)
    math = _closure([name for name in plain if name in MATH], markers, known=core)
    installed = [name for name in extra if _is_installed(name)]
    fast = _closure(installed, markers, known={**core, **math}) if len(installed) == len(extra) else {}
    return {"core": _part(core, platform), "math": _part(math, platform), "fast": _part(fast, platform)}


def _part(items: Mapping[str, importlib.metadata.Distribution], platform: Platform) -> _Part:
    pins = tuple(sorted(f"{item.metadata['Name']}=={item.version}" for item in items.values()))
    found = {file.parts[0] for item in items.values() for file in item.files or () if file.name == "__init__.py"}
    runs = platform.tags()
    return _Part(
        pins,
        tuple(sorted(module for module in found if module.isidentifier())),
        all(_tags_of(item) & runs for item in items.values()),
    )


def _closure(
    names: Iterable[str],
    markers: Mapping[str, str],
    known: Mapping[str, importlib.metadata.Distribution] | None = None,
) -> dict[str, importlib.metadata.Distribution]:
    """Find these and what they depend on there, without what is `known`, in the versions that are installed here."""
    found: dict[str, importlib.metadata.Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name in found or name in (known or ()):
            continue
        try:
            found[name] = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            raise ClusterFailed(
                f"the package {name}, which hosts need, is not installed here", f"pip install {name}"
            ) from None
        waiting += _requirements(name, markers)
    return {name: found[name] for name in sorted(found)}


def _requirements(name: str, markers: Mapping[str, str]) -> list[str]:
    asked = [Requirement(line) for line in importlib.metadata.distribution(name).requires or ()]
    wanted = [item for item in asked if item.marker is None or item.marker.evaluate(dict(markers))]
    return [item.name.lower().replace("_", "-") for item in wanted]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _tags_of(item: importlib.metadata.Distribution) -> set[tags.Tag]:
    lines = (item.read_text("WHEEL") or "").splitlines()
    return {tag for line in lines if line.startswith("Tag: ") for tag in tags.parse_tag(line[5:].strip())}


def _installed_files(item: importlib.metadata.Distribution) -> Iterable[tuple[str, Path]]:
    for name in item.files or ():
        path = Path(str(item.locate_file(name)))
        if path.is_file():
            yield str(name), path


def _files_below(folder: Path) -> Iterable[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_file() and name != host_unpack.LISTING and not name.endswith(".pyc"):
            yield name, path


def _placed(files: Iterable[tuple[str, Path | bytes]]) -> Iterator[tuple[str, Path | bytes]]:
    """Place the files of a package in a layer.

    Libraries that lie beside site-packages elsewhere lie in it, and the package's RECORD says so: they are found by it.
    """
    record, names = "", []
    for name, content in files:
        to = name
        if name.endswith(".dist-info/RECORD"):
            record = name
            continue
        if name.startswith("..") and SHARED_LIBRARY.fullmatch(name.rpartition("/")[2]):
            to = f"libraries/{name.rpartition('/')[2]}"
        elif not packing.is_needed(name):
            continue
        names.append(to)
        yield to, content
    if record:
        yield record, "".join(f'"{name}",,\n' for name in names).encode()


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
