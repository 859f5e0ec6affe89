"""Wheels for hosts whose Python is not like this machine's, and for what is not installed here: from pip's index.

pip keeps what it downloads in its cache, so a second time it asks the index for little.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dtfctl.launcher.providers.base import HostFailed
from dtfctl.launcher.system.files import private_folder

DOWNLOAD_S = 900.0
LOOK_S = 0.5
Tell = Callable[[str], None]


def download(
    folder: Path,
    kind: str,
    python: tuple[int, int],
    platforms: Sequence[str],
    requirements: Sequence[str],
    *,
    tell: Tell = lambda _: None,
) -> list[Path]:
    """Download the wheels of `requirements` for that Python into `folder`.

    Raises:
        HostFailed: the index cannot be reached, or does not have them; with pip's own words.
    """
    private_folder(folder)
    command = [sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(folder), "--progress-bar", "off"]
    command += ["--python-version", f"{python[0]}.{python[1]}", "--implementation", "cp"]
    for name in platforms:
        command += ["--platform", name]
    said = folder / "pip.log"
    with said.open("wb") as log:
        process = subprocess.Popen([*command, *requirements], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    begun, told = time.monotonic(), ""
    tell(f"asks pip's index for wheels for {kind}")
    try:
        while process.poll() is None:
            if time.monotonic() - begun > DOWNLOAD_S:
                raise HostFailed("install", f"no packages for {kind}: the download took over {DOWNLOAD_S:.0f} s")
            news = _progress(said, len(requirements))
            if news and news != told:
                told = news
                tell(f"wheels for {kind}: {news}")
            time.sleep(LOOK_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        lines = [line.strip() for line in said.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines[-1:] or ["pip said nothing"]
        raise HostFailed(
            "install",
            f"needs packages for {kind}, which this machine does not have and cannot download: {errors[0][:400]}",
            f"use the Python of this machine there ({sys.version_info.major}.{sys.version_info.minor}), or let pip "
            "here reach its index",
        )
    return sorted(folder.glob("*.whl"))


def _progress(said: Path, wanted: int) -> str:
    """Say what pip is at: `7 of 12, numpy (16.9 MB)`."""
    names = [
        line.strip().partition(" ")[2]
        for line in said.read_text(errors="replace").splitlines()
        if line.strip().startswith(("Downloading ", "Using cached ", "Collecting "))
    ]
    return f"{min(len(names), wanted)} of {wanted}, {names[-1].rpartition('/')[2]}" if names else ""


def files_of(wheel: Path) -> Iterable[tuple[str, bytes]]:
    """Yield what stands in a site-packages folder once a wheel is installed, and above it."""
    with zipfile.ZipFile(wheel) as source:
        for info in source.infolist():
            if info.is_dir():
                continue
            first, _, rest = info.filename.partition("/")
            if not first.endswith(".data"):
                yield info.filename, source.read(info)
                continue
            scheme, _, rest = rest.partition("/")
            if scheme in ("purelib", "platlib", "data"):
                yield (f"../../../{rest}" if scheme == "data" else rest), source.read(info)


def forget(folder: Path) -> None:
    """Delete what was downloaded."""
    shutil.rmtree(folder, ignore_errors=True)
