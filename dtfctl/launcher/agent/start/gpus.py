"""How busy the host's GPUs are, as `nvidia-smi` says."""

from __future__ import annotations

from dtfctl.launcher.messages.looks import Gpu

ASK_S = 5.0
QUERY = "index,name,utilization.gpu,memory.used,memory.total"
MIB = 2**20


def read_gpus() -> list[Gpu]:
    """Read every GPU; none where there is no driver, or it does not answer in time."""
    return parse(_ask(QUERY))


def read_use() -> dict[int, float]:
    """Read how busy each GPU is, in percent, by its number; without those that do not say."""
    return parse_use(_ask("index,utilization.gpu"))


def _ask(fields: str) -> str:
    import shutil
    import subprocess

    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    try:
        done = subprocess.run(
            [program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ASK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


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


def parse_use(text: str) -> dict[int, float]:
    """Read `0, 37`, a line each; one that is split into instances says `[N/A]`.

    >>> parse_use("0, 37\\n1, [N/A]\\n2, 0\\n")
    {0: 37.0, 2: 0.0}
    """
    found = {}
    for line in text.splitlines():
        number, _, busy = (part.strip() for part in line.partition(","))
        if number.isdigit() and busy.replace(".", "", 1).isdigit():
            found[int(number)] = float(busy)
    return found
