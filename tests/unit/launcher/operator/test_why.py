"""`why` names what led to the state that a task is in."""

from __future__ import annotations

from dtfctl.launcher.model import ClusterStatus, ControllerStatus, Event, HostStatus, TaskStatus
from dtfctl.launcher.operator.why import explain


def status_of(task: TaskStatus) -> ClusterStatus:
    return ClusterStatus(
        name="lab",
        created=0.0,
        controller=ControllerStatus(1, "127.0.0.1:1", 1, 1.0, "0"),
        hosts=(HostStatus("node3", "up"),),
        tasks=(task,),
        jobs=(),
        problems=(),
    )


def test_a_task_that_was_moved_says_from_where_and_why() -> None:
    status = status_of(TaskStatus("worker", 0, "running", "healthy", "node3", incarnation=2, restarts=1))
    events = [
        Event(1, 1.0, "task.running", "worker/0", "", 1),
        Event(2, 2.0, "task.moved", "worker/0", "from node2 to node3: node2 is lost", 1),
        Event(3, 3.0, "task.running", "worker/0", "", 2),
    ]
    answer = explain("worker/0", status, events).answer
    again = "worker/0 runs again on node3 (incarnation 2, 1 restarts)"
    assert answer == f"{again}; it was moved from node2 to node3: node2 is lost"
    events[1:2] = [
        Event(2, 2.0, "task.moving", "worker/0", "to node3: it failed 2 times on node2", 1),
        Event(3, 2.0, "task.moved", "worker/0", "from node2 to node3", 1),
    ]
    answer = explain("worker/0", status, events).answer
    assert answer == f"{again}; it was moved from node2 to node3: it failed 2 times on node2"


def test_the_end_of_what_is_still_shown_as_running_started_nothing_yet() -> None:
    status = status_of(TaskStatus("worker", 0, "running", "healthy", "node3", incarnation=2, restarts=1))
    events = [
        Event(1, 1.0, "task.ended", "worker/0", "exit code 3", 1),
        Event(2, 2.0, "task.running", "worker/0", "", 2),
        Event(3, 3.0, "task.ended", "worker/0", "killed by SIGKILL", 2),
    ]
    assert explain("worker/0", status, events).answer.endswith("it was restarted because of: exit code 3")
    again = status_of(TaskStatus("worker", 0, "running", "healthy", "node3", incarnation=3, restarts=2))
    assert explain("worker/0", again, events).answer.endswith("it was restarted because of: killed by SIGKILL")


def test_a_task_that_was_restarted_on_request_says_so_and_one_that_failed_later_does_not() -> None:
    events = [
        Event(1, 1.0, "task.restart-requested", "worker/0", "by the user", 1),
        Event(2, 2.0, "task.ended", "worker/0", "restarted on request; starts again in 0.0 s", 1),
        Event(3, 3.0, "task.running", "worker/0", "", 2),
    ]
    status = status_of(TaskStatus("worker", 0, "running", "healthy", "node3", incarnation=2, restarts=1))
    assert explain("worker/0", status, events).answer.endswith("it was restarted on request")
    events += [Event(4, 4.0, "task.ended", "worker/0", "exit code 3; starts again in 0.5 s", 2)]
    status = status_of(TaskStatus("worker", 0, "running", "healthy", "node3", incarnation=3, restarts=2))
    assert explain("worker/0", status, events).answer.endswith("it was restarted because of: exit code 3")
