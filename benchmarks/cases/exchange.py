"""Two workers add up their gradients: ours through a ps step, gloo's and MPICH's all-reduce of the same vector.

Not the same work (a ps step also applies the sum, and goes through a third process), but the same need.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from benchmarks.bench import Bench, Case, CustomCase
from benchmarks.cases.steps import MB, dense, size_text
from benchmarks.peers import Missing
from benchmarks.processes import Child, ChildError
from benchmarks.results import Row, judge, timing
from benchmarks.rounds import Runner

PEERS = {"gloo": "torch", "MPICH": "mpi"}


def start_ranks(bench: Bench, name: str, count: int) -> Child:
    """Start ranks of gloo or MPICH that sum vectors when they are told to."""
    python = bench.peer(PEERS[name])
    command = [python, "-m", "benchmarks.peer_programs.exchange"]
    if name == "gloo":
        command += ["gloo", str(count)]
    else:
        launcher = os.path.join(os.path.dirname(python), "mpiexec")
        command = [launcher, "-n", str(count), *command, "mpi"]
    child = Child(command, f"{name} all-reduce")
    try:
        child.read()
    except BaseException:
        child.stop()
        raise
    return child


def _run(bench: Bench, size: int) -> Iterator[Row]:
    case = dense(size, 1.0, {}, quick=False)
    for name in PEERS:
        row = Row(
            f"exchange-{size_text(size).replace(' ', '')}",
            f"2 workers sum gradients of {size_text(size)}: ps step against all-reduce",
            peer_name=name,
        )
        try:
            peer = start_ranks(bench, name, 2)
        except (Missing, ChildError) as e:
            row.note = str(e)
            yield row
            continue
        ours = Runner(bench.ours, case)
        try:
            ours.warm(bench.plan.warm_s, case.most)
            steps = max(int(bench.plan.seconds / (size / 2e9 + 1e-4)), 2)
            peer.ask({"do": "measure", "elements": size // 4, "steps": 2})
            theirs = []
            for _ in range(bench.plan.rounds):
                ours.round(bench.plan.seconds, case.most)
                theirs.append(peer.ask({"do": "measure", "elements": size // 4, "steps": steps})["times"])
            row.ours, row.peer = timing(ours.times, ours.steps), timing(theirs)
            yield judge(row, 2 * size)
        finally:
            peer.stop()
            ours.end()


def _case(size: int) -> CustomCase:
    text = size_text(size)
    what = f"2 workers sum gradients of {text}: our ps step against gloo's and MPICH's all-reduce"
    return CustomCase(
        f"exchange-{text.replace(' ', '')}", what, lambda bench: _run(bench, size), tuple(PEERS.values()), quick=False
    )


CASES: list[Case] = [_case(1 * MB), _case(100 * MB)]
