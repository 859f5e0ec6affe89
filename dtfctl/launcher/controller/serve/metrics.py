"""The cluster's numbers as Prometheus reads them (text format 0.0.4). Pure.

Names follow its habits: base units (seconds, bytes), `_total` for what only grows, one meaning a name. Counters of a
task start again at zero when `up` makes the cluster anew, which `rate()` understands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal, get_args

from dtfctl.figures import STEP_BOUNDS_S
from dtfctl.launcher.model import ClusterStatus, HostState, JobState, TaskState

Kind = Literal["gauge", "counter", "histogram"]
Labels = Mapping[str, str | int]


@dataclass(slots=True)
class Family:
    """All series of one name."""

    name: str
    kind: Kind
    help: str
    samples: list[tuple[str, Labels, float]] = field(default_factory=list)
    """What follows the name, labels and value."""

    def add(self, value: float | None, **labels: str | int) -> None:
        """Add one series; None is a number that is not known, which is no series."""
        if value is not None:
            self.samples.append(("", labels, float(value)))

    def add_histogram(self, counts: Sequence[int], total: float, bounds: Sequence[float], labels: Labels) -> None:
        """Add the series of one histogram. `counts`: of each interval up to a bound, and of the one beyond the last."""
        if not counts:
            return
        for bound, upto in zip((*map(_number, bounds), "+Inf"), accumulate(counts)):
            self.samples.append(("_bucket", {**labels, "le": bound}, upto))
        self.samples += [("_sum", labels, total), ("_count", labels, sum(counts))]


def render(status: ClusterStatus, events: int, faults: int = 0) -> str:
    """Write the page. `events`: how many have happened; `faults`: the controller's own."""
    families = [*_cluster(status, events), _faults(status, faults), *_hosts(status), *_tasks(status)]
    families += [*_runtimes(status), *_jobs(status)]
    return "".join(_text(family) for family in families if family.samples)


def _cluster(status: ClusterStatus, events: int) -> Iterable[Family]:
    controller = status.controller
    info = Family("dtfctl_build_info", "gauge", "Always 1; the label says which version the controller runs.")
    info.add(1, version=controller.version, cluster=status.name)
    yield info
    yield _one("dtfctl_cluster_healthy", "gauge", "1 when all tasks run and nothing is wrong.", status.healthy)
    yield _one("dtfctl_cluster_problems", "gauge", "Problems that `dtfctl status` names.", len(status.problems))
    yield _one("dtfctl_cluster_created_timestamp_seconds", "gauge", "When the cluster was made.", status.created)
    yield _one("dtfctl_controller_uptime_seconds", "gauge", "Since this controller started.", controller.uptime_s)
    yield _one("dtfctl_controller_starts_total", "counter", "Controllers this cluster has had.", controller.epoch)
    yield _one("dtfctl_events_total", "counter", "What happened; see `dtfctl events`.", events)


def _faults(status: ClusterStatus, own: int) -> Family:
    family = Family("dtfctl_faults_total", "counter", "What loops and threads raised, and went on after; see the log.")
    family.add(own, process="controller")
    for host in status.hosts:
        family.add(host.faults, process=f"agent:{host.name}")
    for task in status.tasks:
        family.add(task.faults, process=task.name)
    return family


def _one(name: str, kind: Kind, text: str, value: float) -> Family:
    family = Family(name, kind, text)
    family.add(value)
    return family


def _counts(name: str, text: str, states: Sequence[str], found: Counter[tuple[str, ...]], *labels: str) -> Family:
    """Count what is in each state, also where nothing is: a series that vanishes alarms nobody."""
    family = Family(name, "gauge", text)
    groups = sorted({key[:-1] for key in found}) or ([()] if not labels else [])
    for group in groups:
        for state in states:
            family.add(found[(*group, state)], **dict(zip(labels, group)), state=state)
    return family


def _hosts(status: ClusterStatus) -> Iterable[Family]:
    yield _counts(
        "dtfctl_hosts",
        "Hosts by state.",
        get_args(HostState),
        Counter((host.state,) for host in status.hosts),
    )
    gauges = {
        "up": ("dtfctl_host_up", "1 when its agent reports."),
        "load": ("dtfctl_host_load1", "Load average of one minute."),
        "cores": ("dtfctl_host_cores", "Processor cores."),
        "memory_bytes": ("dtfctl_host_memory_bytes", "Memory."),
        "memory_free_bytes": ("dtfctl_host_memory_available_bytes", "Memory that can still be used."),
        "disk_free_bytes": ("dtfctl_host_disk_free_bytes", "Free space where dtfctl keeps its files."),
        "gpus": ("dtfctl_host_gpus", "NVIDIA GPUs."),
        "tasks": ("dtfctl_host_tasks", "Tasks that have their place there."),
    }
    for name, (metric, text) in gauges.items():
        family = Family(metric, "gauge", text)
        for host in status.hosts:
            family.add(host.state == "up" if name == "up" else getattr(host, name), host=host.name)
        yield family


def _tasks(status: ClusterStatus) -> Iterable[Family]:
    found: Counter[tuple[str, ...]] = Counter((task.job, task.state) for task in status.tasks)
    yield _counts("dtfctl_tasks", "Tasks by role and state.", get_args(TaskState), found, "role")
    up = Family("dtfctl_task_up", "gauge", "1 when it runs and its beats come.")
    restarts = Family("dtfctl_task_restarts_total", "counter", "Starts after the first one.")
    steps = Family("dtfctl_task_steps_total", "counter", "Graph executions since it was started.")
    incarnation = Family("dtfctl_task_incarnation", "gauge", "The number of its newest start.")
    uptime = Family("dtfctl_task_uptime_seconds", "gauge", "Since it was started.")
    cpu = Family("dtfctl_task_cpu_cores", "gauge", "Processor cores that it uses.")
    memory = Family("dtfctl_task_resident_memory_bytes", "gauge", "Memory that it uses.")
    for task in status.tasks:
        name: dict[str, str | int] = {"role": task.job, "index": task.index}
        up.add(task.state == "running" and task.health != "down", **name, host=task.host)
        restarts.add(task.restarts, **name)
        steps.add(task.steps, **name)
        incarnation.add(task.incarnation, **name)
        uptime.add(task.uptime_s if task.state == "running" else None, **name)
        cpu.add(None if task.cpu_percent is None else task.cpu_percent / 100, **name)
        memory.add(task.rss_bytes, **name)
    yield from (up, restarts, steps, incarnation, uptime, cpu, memory)


def _runtimes(status: ClusterStatus) -> Iterable[Family]:
    took = Family("dtfctl_runtime_step_seconds", "histogram", "How long a step's part in a task takes.")
    waited = Family(
        "dtfctl_runtime_waited_seconds_total", "counter", "Of steps' time, until other tasks sent something."
    )
    input = Family("dtfctl_runtime_input_seconds_total", "counter", "Of steps' time, until there was input.")
    copied = Family("dtfctl_runtime_copied_seconds_total", "counter", "Copies between host and device.")
    updates = Family("dtfctl_runtime_updates_total", "counter", "Steps that have updated variables here.")
    behind = Family(
        "dtfctl_runtime_updates_behind_total", "counter", "Updates of others since such steps began, all together."
    )
    open_steps = Family("dtfctl_runtime_open_steps", "gauge", "Steps that have begun in a task and not ended.")
    sent = Family("dtfctl_runtime_sent_bytes_total", "counter", "Bytes of tensors and messages to other tasks.")
    received = Family("dtfctl_runtime_received_bytes_total", "counter", "Bytes of tensors and messages from others.")
    spared = Family("dtfctl_runtime_spared_bytes_total", "counter", "Bytes that compression has kept off the network.")
    rate = Family("dtfctl_runtime_link_bytes_per_second", "gauge", "What the newest long transfers were carried at.")
    queues = Family("dtfctl_runtime_queue_elements", "gauge", "Elements in a queue of a program.")
    variables = Family("dtfctl_runtime_variables_bytes", "gauge", "Memory of the variables that a task holds.")
    threads = Family("dtfctl_runtime_threads", "gauge", "Threads of Python in a task.")
    for task in status.tasks:
        if task.state != "running":
            continue
        name: dict[str, str | int] = {"role": task.job, "index": task.index}
        figures = task.figures
        took.add_histogram(figures.step_counts, figures.steps_s, STEP_BOUNDS_S, name)
        waited.add(figures.waited_s, **name)
        input.add(figures.input_s, **name)
        copied.add(figures.copied_s, **name)
        updates.add(figures.updates, **name)
        behind.add(figures.behind, **name)
        open_steps.add(figures.open_steps, **name)
        spared.add(task.spared_bytes, **name)
        variables.add(figures.variables_bytes, **name)
        threads.add(figures.threads or None, **name)
        for transport, count in sorted(figures.sent.items()):
            sent.add(count, **name, transport=transport)
        for transport, count in sorted(figures.received.items()):
            received.add(count, **name, transport=transport)
        for queue, count in sorted(figures.queues.items()):
            queues.add(count, **name, queue=queue)
        for link in task.links:
            rate.add(link.bytes_s or None, **name, peer=link.peer, transport=link.transport)
    yield from (
        took,
        waited,
        input,
        copied,
        updates,
        behind,
        open_steps,
        sent,
        received,
        spared,
        rate,
        queues,
        variables,
        threads,
    )


def _jobs(status: ClusterStatus) -> Iterable[Family]:
    found: Counter[tuple[str, ...]] = Counter((job.state,) for job in status.jobs)
    yield _counts("dtfctl_jobs", "Jobs by state.", get_args(JobState), found)
    step = Family("dtfctl_job_step", "gauge", "The newest step of a job that has not ended.")
    restarts = Family("dtfctl_job_restarts_total", "counter", "Restarts of a job's processes, while it has not ended.")
    metric = Family("dtfctl_job_metric", "gauge", "The newest numbers that a job reports, such as its loss.")
    memory = Family("dtfctl_job_resident_memory_bytes", "gauge", "Memory that a process of a job uses.")
    for job in status.jobs:
        if job.is_final:
            continue
        for client in job.clients:
            memory.add(client.rss_bytes, id=job.id, process=client.name)
        restarts.add(job.restarts, id=job.id)
        if job.progress is not None:
            step.add(job.progress.step, id=job.id)
            for name, value in sorted(job.progress.metrics.items()):
                metric.add(value, id=job.id, name=name)
    yield from (step, restarts, metric, memory)


def _text(family: Family) -> str:
    lines = [f"# HELP {family.name} {family.help}", f"# TYPE {family.name} {family.kind}"]
    for suffix, labels, value in family.samples:
        inner = ",".join(f'{name}="{_escaped(str(text))}"' for name, text in labels.items())
        shown = f"{{{inner}}}" if inner else ""
        lines.append(f"{family.name}{suffix}{shown} {_number(value)}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
