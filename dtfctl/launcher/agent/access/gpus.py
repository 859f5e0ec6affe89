"""How busy the host's GPUs are, as `nvidia-smi` says."""

from __future__ import annotations

import shutil
import subprocess

from dtfctl.launcher.messages.looks import Gpu

ASK_S = 5.0
QUERY = "index,name,utilization.gpu,memory.used,memory.total"
MIB = 2**20


def read_gpus() -> list[Gpu]:
    """Read every GPU; none where there is no driver, or it does not answer in time."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return parse(done.stdout) if done.returncode == 0 else []


def parse(text: str) -> list[Gpu]:
    """Read `0, NVIDIA H200, 37, 1024, 143771`, a line each; what a GPU does not report stands as 0."""
    found = []
    for line in text.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) != 5 or not parts[0].isdigit():
            continue
        busy, used, total = (float(part) if part.replace(".", "", 1).isdigit() else 0.0 for part in parts[2:])
        found.append(Gpu(int(parts[0]), parts[1], busy, int(used * MIB), int(total * MIB)))
    return found
