"""The failure table: 37 faults, what is promised of each, and the numbers to hold.

`make bench-faults` runs the tests of this folder, and those of others that name a row, and prints what was measured
beside these goals. Numbers are shown, never asserted: a loaded machine is no fault of ours. What is promised is
asserted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    """One fault.

    Attributes:
        goals: measured thing -> the most it may be, in the unit that ends its name (`s`, `MB`, `%`, or none: a count).
    """

    number: int
    fault: str
    promise: str
    goals: Mapping[str, float] = field(default_factory=dict)


ROWS = (
    Row(
        1,
        "kill -9 of a worker",
        "only it starts again; the others go on training",
        {"seen s": 0.2, "new process s": 0.5, "training again s": 4.0},
    ),
    Row(
        2,
        "kill -9 of a ps",
        "restored from the newest complete checkpoint, the job resumes by itself, an event tells what was lost",
        {"seen s": 0.2, "new process s": 0.5, "training again s": 5.0},
    ),
    Row(
        3,
        "kill -9 of the chief",
        "as 1; its role moves to nobody else, one process writes checkpoints",
        {"training again s": 4.0, "checkpoints lost": 0},
    ),
    Row(4, "SIGSTOP of a task", "seen as stopped, killed, started again", {"suspect s": 2.5, "restarted s": 6.0}),
    Row(
        5,
        "a loop hangs while its beats go on",
        "progress alarm, stacks of all threads in its log, started again",
        {"acted on after the limit s": 1.5},
    ),
    Row(
        6,
        "the link of a host goes down",
        "the host is down, its tasks run on a spare",
        {"suspect s": 2.5, "down s": 6.0, "running on the spare s": 10.0, "false alarms": 0},
    ),
    Row(
        7, "a host loses power and boots", "nothing of the old run survives, the host is back", {"usable again s": 5.0}
    ),
    Row(
        8,
        "partition of controller and host, both ways and one way",
        "one live incarnation at most; the cut-off side stops at the end of its lease",
        {"stale writes accepted": 0, "self-stop after the lease s": 2.0},
    ),
    Row(
        9,
        "partition of worker and ps only",
        "named as a fault of that link; nothing is restarted",
        {"named s": 10.0, "restarts": 0},
    ),
    Row(
        10,
        "kill -9 of the controller",
        "tasks do not notice; no event is lost",
        {"adopted again s": 3.0, "restarts": 0},
    ),
    Row(11, "kill -9 of an agent", "tasks go on, exit codes stay right", {"agent back s": 3.0, "restarts": 0}),
    Row(
        12,
        "full disk",
        "tasks go on, the old checkpoint stays whole, status says so, all recovers by itself",
        {"shown s": 10.0, "corrupt files": 0},
    ),
    Row(13, "no login on some of the hosts", "the others run; one grouped reason", {"up s": 12.0}),
    Row(14, "a wrong host key", "never connected; file and line are named", {"refused s": 2.0}),
    Row(15, "a port is taken", "auto: another one; fixed: an error that names the holder", {"error s": 2.0}),
    Row(
        16, "clocks an hour apart, and a jump", "no effect on detection or on the order of events", {"false alarms": 0}
    ),
    Row(17, "a slow start", "shown as starting, not restarted", {"false restarts": 0}),
    Row(18, "a crash loop", "`crashed`, with the last lines of stderr; others untouched", {"gives up s": 15.0}),
    Row(19, "out of memory", "called so, with limit and use", {"labelled wrongly": 0}),
    Row(
        20,
        "an old worker thaws after its replacement runs",
        "what it sends is refused, its agent ends it",
        {"writes accepted": 0, "gone s": 2.0},
    ),
    Row(
        21,
        "a flood of output",
        "bounded disk and memory, the writer waits, deleted lines counted, beats unharmed",
        {"controller MB": 200, "disk MB": 300, "false alarms": 0},
    ),
    Row(
        22,
        "1,000 tasks, 100 of them killed at once",
        "all start, all killed start again",
        {
            "up s": 30.0,
            "status s": 1.0,
            "100 restarts s": 10.0,
            "controller idle % of a core": 10,
            "controller MB": 200,
        },
    ),
    Row(23, "Ctrl-C in up; up twice at once", "the next up completes it; the second is a conflict", {"duplicates": 0}),
    Row(24, "the user stops a failing task", "it stays stopped", {"restarts after the stop": 0}),
    Row(
        25,
        "half of the hosts die",
        "the job waits at `min`; no storm of starts on the rest",
        {"starts on one host in one second": 10},
    ),
    Row(
        26, "a checkpoint truncated or with a flipped bit", "refused, the one before is used", {"wrong state loaded": 0}
    ),
    Row(27, "the journal cut in its last record", "the controller starts without that record", {"failed starts": 0}),
    Row(28, "a slow link to one host during sync", "the others are not delayed", {"others up s": 10.0}),
    Row(
        29,
        "Slurm: a node is lost",
        "left before Slurm notices; the allocation goes on",
        {"tasks elsewhere s": 10.0},
    ),
    Row(
        30,
        "Slurm: a step is ended",
        "another step, another agent, its tasks again; others do not notice",
        {"tasks again s": 10.0, "restarts of others": 0},
    ),
    Row(31, "Slurm: scancel of the allocation", "named; the next up asks for another", {"named s": 10.0}),
    Row(
        32,
        "Slurm: preemption of single nodes",
        "the others go on; they come back when they are granted",
        {"tasks again after the grant s": 30.0, "nodes lost beside them": 0},
    ),
    Row(
        33,
        "Slurm: the allocation begins anew on other nodes, whose disks are empty",
        "the same job goes on from its newest checkpoint",
        {"checkpoints lost": 0},
    ),
    Row(
        34,
        "Slurm: the time limit comes near",
        "jobs save; given back for another before it, where the same jobs go on",
        {"after the limit s": 0, "checkpoints lost": 0},
    ),
    Row(35, "Ray: an actor is killed", "Ray begins it anew, and its tasks run again", {"tasks again s": 20.0}),
    Row(36, "Ray: a node is lost", "its host is another node, and its tasks run there", {"tasks again s": 40.0}),
    Row(
        37,
        "torch: kill -9 of a rank",
        "all start again together, from the newest checkpoint",
        {"training again, imports included s": 10.0},
    ),
)

BY_NUMBER = {row.number: row for row in ROWS}
