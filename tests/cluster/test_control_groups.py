"""Limits as a kernel with control groups of version 2 holds them, as most hosts have it: a real one, booted for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import dtfctl
from tests.support.uml import run_in_uml, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=f"a kernel with control groups 2 {why_not()}")

SYSTEMD = """
cd /sys/fs/cgroup
echo "+memory +pids" > cgroup.subtree_control
mkdir -p user.slice/user-0.slice/session-1.scope
echo "+memory +pids" > user.slice/cgroup.subtree_control
echo "+memory +pids" > user.slice/user-0.slice/cgroup.subtree_control
echo $BASHPID > user.slice/user-0.slice/session-1.scope/cgroup.procs
cd $HOME
"""
"""As systemd puts who logs in: a group with processes, so that it can have no groups that limit."""
ASK = """
import json, os, subprocess, sys
from pathlib import Path
from dtfctl.launcher.messages.orders import ClientOrder
from dtfctl.launcher.agent.start.limits import Limits

def limits(number, **order):
    return Limits(Path("/run/agent"), "job:a:worker/0", number, ClientOrder("a", "worker", 0, **order))

def entered(held):
    '''A process that has entered, and what limits it.'''
    code = "import sys; [open(g, 'w').write('0') for g in sys.argv[1].split(';') if g];"
    code += "print(open('/proc/self/cgroup').read())"
    said = subprocess.run([sys.executable, "-c", code, held.arguments[0]], capture_output=True, text=True)
    group = Path("/sys/fs/cgroup" + said.stdout.strip().partition("::")[2])
    def of(name): return (group / name).read_text().strip() if (group / name).exists() else "-"
    return {"group": str(group), "words": held.words, "memory": of("memory.max"), "all": of("memory.oom.group"),
            "cpu": of("cpu.max"), "error": said.stderr}

def dig(): return [str(p) for p in Path("/sys/fs/cgroup").rglob("dtfctl*")]

def show(**what): print("told", json.dumps(what), flush=True)
"""


def asked(tmp_path: Path, arrangement: str, program: str) -> list[dict[str, object]]:
    """What a program told (`show`) that ran there, its groups arranged by a piece of shell script."""
    python = f"PYTHONPATH='{Path(dtfctl.__file__).parents[1]}' '{sys.executable}'"
    said = run_in_uml(f"{arrangement}\n{python} - <<'END'\n{ASK}{program}\nEND\n", tmp_path)
    found = [json.loads(line.removeprefix("told ")) for line in said.splitlines() if line.startswith("told ")]
    assert found, said
    return found


BOTH = "one = limits(1, memory_bytes=200 << 20, cpus=0.5); show(**entered(one.hold([0])))"
GONE = "one.release(); show(left=dig())"


def test_of_one_who_has_logged_in_the_kernel_holds_the_limits(tmp_path: Path) -> None:
    held, after = asked(tmp_path, SYSTEMD, f"{BOTH}; {GONE}")
    assert held["error"] == ""
    assert held["words"] == "memory 200 MiB (control group), cpus 0.5 (control group)"
    assert (held["memory"], held["cpu"], held["all"]) == (str(200 << 20), "50000 100000", "1")
    assert after == {"left": []}


def test_a_new_agent_in_another_session_finds_the_groups_of_the_former(tmp_path: Path) -> None:
    program = """
held = limits(1, memory_bytes=100 << 20).hold([0])
show(**entered(held))
Path("/sys/fs/cgroup/user.slice/user-0.slice/session-2.scope").mkdir()
Path("/sys/fs/cgroup/user.slice/user-0.slice/session-2.scope/cgroup.procs").write_text(str(os.getpid()))
code = "import sys; open(sys.argv[1], 'w').write('0'); x = bytearray(300 << 20)"
subprocess.run([sys.executable, "-c", code, held.arguments[0]])
killed, peak = limits(1, memory_bytes=100 << 20).release()
show(killed=killed, peak=peak, left=dig())
"""
    held, after = asked(tmp_path, SYSTEMD, program)
    assert held["words"] == "memory 100 MiB (control group)"
    assert after["killed"] is True and after["left"] == []
    assert after["peak"] == 100 << 20


def test_nobody_gets_out_of_a_limit_that_was_set_above(tmp_path: Path) -> None:
    arrangement = SYSTEMD + "echo 1G > /sys/fs/cgroup/user.slice/user-0.slice/memory.max\n"
    (held,) = asked(tmp_path, arrangement, BOTH)
    assert str(held["group"]).startswith("/sys/fs/cgroup/user.slice/user-0.slice/dtfctl-"), held
    assert held["words"] == "memory 200 MiB (control group), cpus 0.5 (cores 0)", "cpu is not to be had below it"


def test_at_the_root_of_all_groups_nothing_is_there_to_begin_with(tmp_path: Path) -> None:
    """As in a machine without systemd."""
    held, after = asked(tmp_path, "", f"{BOTH}; {GONE}")
    assert held["words"] == "memory 200 MiB (control group), cpus 0.5 (control group)"
    assert (held["memory"], held["cpu"]) == (str(200 << 20), "50000 100000")
    assert after == {"left": []}


def test_of_one_to_whom_nothing_is_delegated_the_keeper_holds_them(tmp_path: Path) -> None:
    arrangement = f"{SYSTEMD}mount --bind -o ro /sys/fs/cgroup /sys/fs/cgroup\n"
    (held,) = asked(tmp_path, arrangement, BOTH)
    assert held["words"] == "memory 200 MiB (watched), cpus 0.5 (cores 0)"


def test_a_job_that_uses_too_much_there_is_told_so_and_leaves_no_group(tmp_path: Path) -> None:
    command = f"'{sys.executable}' -m dtfctl"
    script = f"""{SYSTEMD}
export PYTHONPATH='{Path(dtfctl.__file__).parents[1]}' NO_COLOR=1
printf 'cluster: v2\\ntasks: {{worker: 1}}\\n' > c.yaml
printf 'x = bytearray(400 * 2**20)\\nprint("has it")\\n' > eater.py
{command} up c.yaml > up.log 2>&1 || cat up.log
{command} submit --memory 100MiB --cpus 0.5 eater.py; echo "exit $?"
{command} job eater-1 -o json | grep '"limits"'
{command} why eater-1
{command} down --yes > down.log 2>&1 || cat down.log
find /sys/fs/cgroup -name 'dtfctl*'; echo end
"""
    said = run_in_uml(script, tmp_path, "3G")
    assert "exit 137" in said and "has it" not in said, said
    assert '"limits": "memory 100 MiB (control group), cpus 0.5 (control group)"' in said, said
    assert "eater-1 has failed: worker/0: out of memory: it used 100 MiB, its limit is 100 MiB" in said, said
    assert "\nend\n" in said and "/sys/fs/cgroup" not in said, said
