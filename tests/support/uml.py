"""Another kernel for a test: User-mode Linux, an ordinary program that boots with this machine's files, read-only.

What a test needs of the kernel and this machine's may not have: the one hierarchy of control groups version 2.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

KERNEL = "linux.uml"
MARK = "-- from the script:"
INIT = f"""
export PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run
mkdir -p /run/home /run/tmp /dev/shm /sys/fs/cgroup
mount -t tmpfs shm /dev/shm; mount -t cgroup2 cgroup /sys/fs/cgroup
ip link set lo up; hostname uml
export HOME=/run/home TMPDIR=/run/tmp PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8; cd $HOME
echo; echo "{MARK}"
(
"""
END = "\n) 2>&1\nhalt -f\n"


def why_not() -> str:
    """Why it cannot be booted here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root, as it reads this machine's files as root"
    for tool in (KERNEL, "ip", "halt"):
        if shutil.which(tool) is None:
            return f"needs `{tool}` (apt-get install user-mode-linux iproute2 systemd-sysv)"
    return ""


def run_in_uml(script: str, folder: Path, memory: str = "2G") -> str:
    """Boot it, run a shell script as root in a home of its own, and halt it.

    Returns:
        What the script said.
    """
    init = folder / "init.sh"
    init.write_text(f"#!/bin/bash{INIT}{script}{END}")
    init.chmod(0o755)
    words = [KERNEL, f"mem={memory}", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={init}"]
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else str(folder)
    done = subprocess.run(
        [*words, "quiet", "con=null", "con0=fd:0,fd:1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "HOME": str(folder), "TMPDIR": where},
        check=False,
    )
    text = done.stdout.decode(errors="replace").replace("\r", "")
    begun, _, said = text.partition(f"{MARK}\n")
    assert said, begun
    return said
