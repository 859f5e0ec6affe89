"""python -m benchmarks.micro.compression: a training step over slow links, by how what crosses them is made smaller.

Three hosts with networks of their own on this machine (root, Linux), encrypted, as `up` makes them; each link
is shaped to a rate. The step is that of the large perceptron (1.6 million parameters, batch 256), its weights on a ps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack

from benchmarks.hosts import LabHosts, bring_up, inside
from tests.lab.netns import Lab, why_not

WAYS = [
    ("none", "none"),
    ("float16", "float16"),
    ("int8", "int8"),
    ("onebit", "int8"),
    ("topk:ratio=0.01", "int8"),
    ("powersgd", "int8"),
]
RATES = {"100 Mbit/s": "100mbit"}


def steps(target: str, seconds: float) -> None:
    """Run steps for a while in this process; print the median and the bytes that crossed."""
    import dtfctl.runtime as tf
    from benchmarks.programs import mlp

    tf.Session.reset(target)
    program = mlp.build(tf, target, 256, 2048)
    for _ in range(4):
        program.step()
    times: list[float] = []
    begun, crossed = time.perf_counter(), _crossed()
    while time.perf_counter() - begun < seconds or len(times) < 5:
        started = time.perf_counter()
        program.step()
        times.append(time.perf_counter() - started)
    print(json.dumps({"seconds": statistics.median(times), "bytes": (_crossed() - crossed) / len(times)}))
    program.close()


def _crossed() -> int:
    """Bytes that this host has sent and received."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:")).split(":")[1].split()
    return int(line[0]) + int(line[8])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each way and rate")
    parser.add_argument("--inside", metavar="TARGET", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        steps(options.inside, options.seconds)
        return
    problem = why_not()
    if problem:
        sys.exit(f"three hosts on this machine: {problem}")
    with tempfile.TemporaryDirectory(prefix="dtf-bench-home-") as home, ExitStack() as stack:
        os.environ["DTFCTL_HOME"] = home
        lab = Lab.of_environment()
        lab.up(3)
        stack.callback(lab.down)
        lab.lend_packages()
        target = bring_up(LabHosts(lab), "auto", stack)["worker/0"]
        print(f"{'link':12} {'gradients':18} {'parameters':10} {'ms':>9} {'times':>6} {'MB a step':>10}")
        for link, rate in RATES.items():
            for host in lab.names if rate else ():
                lab.slow(host, rate)
            base = 0.0
            for gradients, parameters in WAYS:
                said = json.dumps({"gradients": gradients, "parameters": parameters})
                command = [sys.executable, "-m", "benchmarks.micro.compression_now", "--inside", target]
                command = inside(lab, lab.names[1], "env", f"DTF_COMPRESSION={said}", *command)
                command += ["--seconds", str(options.seconds)]
                found = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                base = base or found["seconds"]
                print(
                    f"{link:12} {gradients:18} {parameters:10} {found['seconds'] * 1e3:9.1f} "
                    f"{base / found['seconds']:5.1f}x {found['bytes'] / 1e6:10.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
