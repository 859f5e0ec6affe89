"""What servers record of steps that run over them, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from dtfctl import runtime as tf
from dtfctl.protocol import profile_pb2
from dtfctl.runtime.framework import spans
from dtfctl.runtime.profiler.capture import Target, TaskRecord, capture
from dtfctl.runtime.profiler.summary import summarize
from dtfctl.runtime.services import profile_service
from dtfctl.runtime.services.profile_service import NAME
from dtfctl.runtime.steps import recording
from dtfctl.runtime.steps.recording import Kind
from dtfctl.runtime.steps.tally import UpdateTally
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow

SERVE = Path(__file__).parents[2] / "support" / "serve.py"
PS, WORKER = "/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0"


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, list[str]]]:
    ports = free_ports(2)
    cluster = {"ps": [f"127.0.0.1:{ports[0]}"], "worker": [f"127.0.0.1:{ports[1]}"]}
    servers = [
        subprocess.Popen([sys.executable, str(SERVE), str(cluster), job, "0"], stdout=subprocess.PIPE, text=True)
        for job in cluster
    ]
    try:
        for server in servers:
            assert server.stdout is not None
            assert server.stdout.readline() == "serving\n"
        yield cluster
    finally:
        for server in servers:
            server.kill()
            server.wait()
            assert server.stdout is not None
            server.stdout.close()


@pytest.fixture
def training(addresses: dict[str, list[str]]) -> Iterator[None]:
    """Steps that read a variable of the ps, multiply in the worker and update the variable, until the test ends."""
    with tf.Graph().as_default():
        with tf.device(PS):
            weights = tf.Variable(np.ones((64, 64), "f4"), name="weights")
        with tf.device(WORKER):
            product = tf.matmul(weights, weights, name="product")
        with tf.device(PS):
            step = tf.assign(weights, tf.clip_by_value(product, -1.0, 1.0)).op
        with tf.Session(f"grpc://{addresses['worker'][0]}") as session:
            session.run(tf.global_variables_initializer())
            is_over = threading.Event()

            def run() -> None:
                while not is_over.is_set():
                    session.run(step)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                yield
            finally:
                is_over.set()
                thread.join()


def targets(addresses: dict[str, list[str]]) -> list[Target]:
    return [Target("ps/0", addresses["ps"][0]), Target("worker/0", addresses["worker"][0])]


def flows(record: TaskRecord, kind: Kind) -> set[int]:
    return {event.flow for event in record.events if event.kind is kind}


def test_parts_nodes_and_tensors_are_recorded_on_one_clock(addresses: dict[str, list[str]], training: None) -> None:
    ps, worker, client = capture(targets(addresses), None, steps=20, seconds=60)
    # What this process itself has done is there, too, in its own terms and within the parts' time.
    assert client.is_client and not client.problem
    runs = [event for event in client.events if event.kind is Kind.RUN]
    assert client.steps == len(runs) >= 15
    assert {event.name for event in runs} == {"Assign"}
    parts = [event for event in worker.events if event.kind is Kind.PART]
    assert any(run.start < part.start and part.end < run.end for run in runs for part in parts)
    for record in (ps, worker):
        assert not record.problem and not record.lost
        assert record.steps >= 20
        assert sum(event.kind is Kind.PART for event in record.events) == record.steps
        assert 1 <= record.traced < record.steps
    assert "MatMul" in {event.about for event in worker.events if event.kind is Kind.NODE}
    assert "Assign" in {event.about for event in ps.events if event.kind is Kind.NODE}
    # Steps that ran at the beginning and the end of the record are in one of the tasks only.
    assert len(flows(ps, Kind.SEND) & flows(worker, Kind.ARRIVAL)) >= 15
    assert len(flows(worker, Kind.SEND) & flows(ps, Kind.ARRIVAL)) >= 15
    assert {event.bytes for event in worker.events if event.kind is Kind.ARRIVAL} == {64 * 64 * 4}
    arrivals = {event.flow: event.start for event in worker.events if event.kind is Kind.ARRIVAL}
    error = ps.error_ns + worker.error_ns
    for event in ps.events:
        if event.kind is Kind.SEND and event.flow in arrivals:
            assert arrivals[event.flow] >= event.start - error


def test_a_step_that_waits_in_a_loop_is_seen_to_wait(addresses: dict[str, list[str]]) -> None:
    """A loop over two tasks is run by a plan that goes on with whatever comes."""
    with tf.Graph().as_default():

        def body(count: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            with tf.device(PS):
                late = tf.reduce_sum(tf.linalg.inv(tf.random_uniform([300, 300]) + (300.0 + value) * tf.eye(300)))
            return count + 1, value + late

        with tf.device(WORKER):
            total = tf.while_loop(lambda count, _: count < 3, body, (0, 0.0))[1]
        with tf.Session(f"grpc://{addresses['worker'][0]}") as session:
            is_over = threading.Event()

            def run() -> None:
                while not is_over.is_set():
                    session.run(total)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                records = capture(targets(addresses), None, 5, 30.0)
            finally:
                is_over.set()
                thread.join()
    (worker,) = [record for record in records if record.name == "worker/0"]
    waits = [event for event in worker.events if event.kind is Kind.WAIT and event.about == PS]
    arrivals = flows(worker, Kind.ARRIVAL)
    assert len(waits) >= 5 and sum(wait.flow in arrivals for wait in waits) >= 4
    (task,) = [task for task in summarize(records)["tasks"] if task["task"] == "worker/0"]
    assert 0.2 < task["sync"] == task["waits"]["ps/0"] <= 1


def test_tasks_of_one_host_have_its_clock(addresses: dict[str, list[str]], training: None) -> None:
    together = [replace(target, host="node1") for target in targets(addresses)]
    ps, worker, client = capture(together, None, steps=20, seconds=60)
    assert ps.ahead_ns == worker.ahead_ns == client.ahead_ns and ps.error_ns == worker.error_ns == 0
    arrivals = {event.flow: event.start for event in worker.events if event.kind is Kind.ARRIVAL}
    sent = [event for event in ps.events if event.kind is Kind.SEND and event.flow in arrivals]
    assert sent and all(event.start <= arrivals[event.flow] for event in sent)
    apart = [replace(target, host=target.name) for target in together]
    assert all(record.error_ns for record in capture(apart, None, steps=1, seconds=60))


def test_nothing_is_recorded_of_other_jobs(addresses: dict[str, list[str]], training: None) -> None:
    records = capture(targets(addresses), None, steps=1, seconds=0.3, job="another-1")
    assert [record.steps for record in records] == [0, 0]
    assert {event.kind for record in records for event in record.events} <= {Kind.COLLECTION}


def test_a_task_that_is_gone_is_named_and_the_others_are_asked(addresses: dict[str, list[str]]) -> None:
    (port,) = free_ports(1)
    worker, gone = capture([targets(addresses)[1], Target("worker/1", f"127.0.0.1:{port}")], None, steps=1, seconds=0.1)
    assert not worker.problem and worker.error_ns
    assert gone.problem and not gone.events


def test_who_comes_second_is_told_to_wait(addresses: dict[str, list[str]]) -> None:
    with grpc.insecure_channel(addresses["ps"][0]) as channel:
        start = channel.unary_unary(
            f"/{NAME}/Start",
            request_serializer=profile_pb2.ProfileStart.SerializeToString,
            response_deserializer=profile_pb2.ProfileState.FromString,
        )
        start(profile_pb2.ProfileStart(id="first", seconds=30))
        with pytest.raises(grpc.RpcError) as caught:
            start(profile_pb2.ProfileStart(id="second", seconds=30))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION  # type: ignore[attr-defined]
        stop = channel.unary_unary(
            f"/{NAME}/Stop",
            request_serializer=profile_pb2.ProfileQuestion.SerializeToString,
            response_deserializer=profile_pb2.ProfileState.FromString,
        )
        assert not stop(profile_pb2.ProfileQuestion(id="first")).running
        for wrong in ({"id": "", "seconds": 1}, {"id": "x", "seconds": 0}, {"id": "x" * 99, "seconds": 1}):
            with pytest.raises(grpc.RpcError) as caught:
                start(profile_pb2.ProfileStart(**wrong))  # type: ignore[arg-type]
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT  # type: ignore[attr-defined]


def test_a_recording_ends_with_its_time_also_when_who_began_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recording.Recorder("id", "/job:localhost/replica:0/task:0", seconds=30)
    recording.start(recorder)
    try:
        with tf.Graph().as_default(), tf.Session() as session:
            answer = tf.constant(2) * tf.placeholder_with_default(3, [])
            assert session.run(answer) == 6
            assert recorder.steps == 1
            late = recording.clock() + 31 * 10**9
            monkeypatch.setattr(recording, "clock", lambda: late)
            session.run(answer)
        assert recording.ACTIVE is None and recorder.steps == 1
    finally:
        recorder.end()


def test_keys_of_any_form_can_be_recorded() -> None:
    recorder = recording.Recorder("id", PS)
    assert recorder.key(f"{WORKER}/device:CPU:0;01;{PS}/device:CPU:0;x:0;0:0").source == WORKER
    assert not recorder.key("what is no key; at all").comes


def test_what_there_is_no_room_for_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "MOST_EVENTS", 3)
    recorder = recording.Recorder("id", PS)
    for _ in range(5):
        recorder.add(Kind.COLLECTION, "generation 0", "", 1, 2)
    assert (len(recorder.wanted()), recorder.lost) == (3, 2)
    recorder.end()
    recorder.add(Kind.COLLECTION, "generation 0", "", 1, 2)
    assert len(recorder.wanted()) == 3


@pytest.mark.parametrize("ends", ["it is told to", "who began it is gone"])
def test_tasks_are_told_to_stop_when_the_process_that_records_ends(addresses: dict[str, list[str]], ends: str) -> None:
    asked: dict[str, Any] = {"targets": [asdict(target) for target in targets(addresses)], "tls": []}
    asked |= {"job": "", "steps": 9, "seconds": 60, "file": "", "format": "chrome", "links": {}}
    command = [sys.executable, "-m", "dtfctl.profile_tasks"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asked) + "\n")
        process.stdin.flush()
        assert "steps" in json.loads(process.stdout.readline())
        if ends == "it is told to":
            process.terminate()
        else:
            process.stdin.close()
        process.wait(60)
    records = capture(targets(addresses), None, steps=1, seconds=0.1)
    assert [record.problem for record in records] == ["", ""]


def test_what_makes_no_sense_is_a_tasks_problem() -> None:
    def answer(method: str) -> Any:
        said: dict[str, Any] = {
            "Take": profile_pb2.ProfilePart(events=profile_pb2.ProfileEvents(kind=[1])),
        }
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: said.get(method, profile_pb2.ProfileState(now_ns=1, steps=1)).SerializeToString()
        )

    server = grpc.server(futures.ThreadPoolExecutor(1))
    methods = {name: answer(name) for name in ("Start", "Look", "Stop", "Take")}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(NAME, methods)])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        (record,) = capture([Target("ps/0", f"127.0.0.1:{port}")], None, steps=1, seconds=1)
    finally:
        server.stop(None)
    assert "makes no sense" in record.problem


def test_input_queues_and_checkpoints_are_told_apart_from_computing(tmp_path: Path) -> None:
    recorder = recording.Recorder("id", "/job:localhost/replica:0/task:0", seconds=30)
    with tf.Graph().as_default(), tf.Session() as session:
        element = tf.data.Dataset.range(9).make_one_shot_iterator().get_next()
        queue = tf.FIFOQueue(2, [tf.int32], [()])
        put, got = queue.enqueue(3), queue.dequeue()
        tf.Variable(1.0, name="v")
        session.run(tf.global_variables_initializer())
        recording.start(recorder)
        try:
            session.run(element)
            session.run(put)
            session.run(got)
            tf.train.Saver().save(session, str(tmp_path / "model"))
        finally:
            recorder.end()
    events = recorder.wanted()
    found = {(event.kind, event.name) for event in events}
    assert {(Kind.INPUT, "IteratorGetNext"), (Kind.CHECKPOINT, "save"), (Kind.CHECKPOINT, "save/SaveV2")} <= found
    assert {event.name for event in events if event.kind is Kind.QUEUE} == {put.name, got.op.name}
    (run, *_) = [event for event in events if event.kind is Kind.RUN]
    (read,) = [event for event in events if event.kind is Kind.INPUT]
    assert run.name == element.name and run.start <= read.start and read.end <= run.end
    before = recorder.noted
    spans.note(spans.Span.INPUT, "later", recording.clock())
    assert recorder.noted == before


def test_updates_of_others_since_a_step_began_are_counted() -> None:
    tally = UpdateTally()
    slow, fast, other = tally.begin("job"), tally.begin("job"), tally.begin("another")
    assert [tally.end("job", fast), tally.end("job", tally.begin("job")), tally.end("job", slow)] == [0, 0, 2]
    assert tally.end("another", other) == 0
    assert (tally.updates, tally.overtaken, tally.between) == (4, 1, 2)


def test_a_ps_counts_the_steps_that_update_its_variables(addresses: dict[str, list[str]]) -> None:
    with tf.Graph().as_default():
        with tf.device(PS):
            weights = tf.Variable(np.ones(4, "f4"), name="trained")
        with tf.device(WORKER):
            loss = tf.reduce_sum(weights * weights)
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session(f"grpc://{addresses['worker'][0]}") as session:
            session.run(tf.global_variables_initializer())
            is_over = threading.Event()

            def run() -> None:
                while not is_over.is_set():
                    session.run(step)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                ps, worker, _client = capture(targets(addresses), None, steps=10, seconds=60)
            finally:
                is_over.set()
                thread.join()
    # One after another: nobody comes in between.
    assert ps.updates >= 10 and (ps.overtaken, ps.between, worker.updates) == (0, 0, 0)


def test_calls_of_a_session_with_hooks_go_the_usual_way_and_are_recorded(addresses: dict[str, list[str]]) -> None:
    is_over = threading.Event()
    with tf.Graph().as_default():
        tf.train.get_or_create_global_step()
        with tf.device(WORKER):
            product = tf.matmul(tf.ones([8, 8]), tf.ones([8, 8]), name="of_hooks")
        creator = tf.train.ChiefSessionCreator(master=f"grpc://{addresses['worker'][0]}")
        with tf.train.MonitoredSession(creator, [tf.train.StopAtStepHook(num_steps=10**9)]) as session:

            def run() -> None:
                while not is_over.is_set():
                    session.run(product)

            thread = threading.Thread(target=run)
            thread.start()
            try:
                records = capture(targets(addresses), None, steps=10, seconds=60)
            finally:
                is_over.set()
                thread.join()
    (client,) = [record for record in records if record.is_client]
    assert client.steps and {event.kind for event in client.events} >= {Kind.RUN}


def test_what_clients_hand_over_has_a_bound_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_service, "MOST_BYTES", 5000)
    service = profile_service.ProfileService("/job:worker/replica:0/task:0", 1, needs_certificate=False)
    service.start(profile_pb2.ProfileStart(id="a", seconds=30))

    def hand_over(name: str, length: int, last: bool = False) -> None:
        events = [recording.Event(Kind.RUN, "n" * length, "", 0, 1, 1)] if length else []
        told = profile_pb2.ClientRecord(id="a", name=name, events=profile_service.packed(events, 0), last=last)
        service.recorded(told.SerializeToString())

    for name in ("one", "two", "three"):
        hand_over(name, 2000)
        hand_over(name, 0, last=True)
    assert service.take(profile_pb2.ProfileQuestion(id="a")).client == ["one", "three", "two"]
    parts = {n: service.take(profile_pb2.ProfileQuestion(id="a", client=n)) for n in ("one", "two", "three")}
    found = {name: (len(part.events.kind), part.lost) for name, part in parts.items()}
    assert found == {"one": (1, 0), "two": (1, 0), "three": (0, 1)}
    # What is left out of one recording has its room in the next.
    service.start(profile_pb2.ProfileStart(id="a", seconds=30))
    hand_over("three", 2000, last=True)
    service.take(profile_pb2.ProfileQuestion(id="a"))
    assert service.take(profile_pb2.ProfileQuestion(id="a", client="three")).lost == 0


def test_a_client_that_has_handed_over_nothing_yet_is_waited_for() -> None:
    told: list[bytes] = []

    def tell(start: bytes) -> int:
        told.append(start)
        if not start:
            record = profile_pb2.ClientRecord(id="a", name="slow", last=True)
            threading.Timer(0.1, service.recorded, [record.SerializeToString()]).start()
        return 1

    service = profile_service.ProfileService("/job:worker/replica:0/task:0", 1, False, tell)
    service.start(profile_pb2.ProfileStart(id="a", seconds=30))
    assert service.take(profile_pb2.ProfileQuestion(id="a")).client == ["slow"] and told[1:] == [b""]
