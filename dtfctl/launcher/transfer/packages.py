"""Which of a job's requirements a Python lacks. Pure.

>>> have = [Installed("numpy", "2.1.0"), Installed("scikit-learn", "1.7.0", ("numpy>=1.22", "pandas; extra == 'x'"))]
>>> unmet(["scikit_learn>=1.4"], have, {}), unmet(["numpy>=3", "pillow"], have, {})
([], ['numpy>=3', 'pillow'])
>>> unmet(["scikit-learn[x]"], have, {})
["pandas; extra == 'x'"]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from dtfctl.values import value


@value
class Installed:
    """A package that is there."""

    name: str
    version: str
    requires: tuple[str, ...] = ()


def kind_of(facts: Mapping[str, Any]) -> str:
    """Name the kind of Pythons for which the same wheels are right, as far as a name can say.

    >>> kind_of({"python": "3.11.7", "implementation": "CPython", "machine": "x86_64", "libc": ["glibc", "2.36"]})
    'CPython 3.11 x86_64 glibc 2.36'
    """
    name, version = facts["libc"]
    python = ".".join(str(facts["python"]).split(".")[:2])
    return f"{facts['implementation']} {python} {facts['machine']} {name} {version}".strip()


def unmet(lines: Sequence[str], have: Iterable[Installed], markers: Mapping[str, str]) -> list[str]:
    """List the requirements, and those of what they lead to, that are not met by `have`; a URL never is.

    `markers`: of the Python that is meant, where it is not this one.

    Raises:
        InvalidRequirement: a line is none.
    """
    known = {canonicalize_name(item.name): item for item in have}
    missing: list[str] = []
    seen: set[tuple[str, str]] = set()
    waiting = [(line, Requirement(line), frozenset({""})) for line in reversed(lines)]
    while waiting:
        line, wanted, extras = waiting.pop()
        if not _applies(wanted, extras, markers):
            continue
        item = known.get(canonicalize_name(wanted.name))
        if item is None or wanted.url is not None or not _fits(wanted, item.version):
            missing.append(line)
            continue
        for extra in ("", *sorted(wanted.extras)):
            if (item.name, extra) in seen:
                continue
            seen.add((item.name, extra))
            for inner in item.requires:
                try:
                    waiting.append((inner, Requirement(inner), frozenset({extra})))
                except InvalidRequirement:
                    continue  # written by somebody whom nobody can ask; pip knows what to make of it
    return list(dict.fromkeys(missing))


def _applies(wanted: Requirement, extras: frozenset[str], markers: Mapping[str, str]) -> bool:
    if wanted.marker is None:
        return extras == {""}
    if "extra" not in str(wanted.marker) and extras != {""}:
        return False
    return any(wanted.marker.evaluate({**markers, "extra": extra}) for extra in extras)


def _fits(wanted: Requirement, version: str) -> bool:
    try:
        return wanted.specifier.contains(Version(version), prereleases=True)
    except InvalidVersion:
        return False
