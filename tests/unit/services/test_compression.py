"""Gradients and parameters that are sent smaller: what is sent, what is kept, and that training ends where it would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.launcher.controller.decisions.job_orders import job_environment
from dtfctl.launcher.controller.state.job_lifecycle import JobRecord
from dtfctl.launcher.model import JobRequest
from dtfctl.launcher.spec import parse_spec
from dtfctl.runtime.compiler.partition import split_by_task
from dtfctl.runtime.compression import ENCODED, codec_names
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.node_graph import NodeGraph
from dtfctl.runtime.ops.transfer_compression import Compression
from dtfctl.runtime.services.peers import Peers
from tests.support.clusters import InProcessCluster

PS, WORKER, OTHER = "/job:ps/task:0", "/job:worker/task:0", "/job:worker/task:1"
CODECS = [
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
    ("int8", "int8"),
    ("onebit", "bfloat16"),
    ("topk:ratio=0.02,momentum=0.9,warmup=60", "int8"),
    ("powersgd:rank=4", "none"),
]
"""Of gradients and parameters, with what each of FEATURES' kinds needs to be itself."""


def regression(worker: str = WORKER, optimizer: Any = None, shape: tuple[int, int] = (64, 100)) -> tuple[Any, ...]:
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=worker)):
        weights = tf.get_variable("weights", shape, initializer=tf.zeros_initializer())
        x = tf.placeholder(tf.float32, [None, shape[0]])
        y = tf.placeholder(tf.float32, [None, shape[1]])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
        train = (optimizer or tf.train.GradientDescentOptimizer(1.0)).minimize(loss)
    return weights, x, y, loss, train


def data(shape: tuple[int, int] = (64, 100)) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((256, shape[0])).astype(np.float32)
    return x, x @ rng.standard_normal(shape).astype(np.float32)


# What is built -------------------------------------------------------------------------------------------------------


def ops_of(graph: tf.Graph) -> list[str]:
    return [op.type for op in graph.get_operations()]


def test_nothing_is_built_unless_it_is_asked_for() -> None:
    with tf.Graph().as_default() as graph:
        regression()
        assert "CompressedTransfer" not in ops_of(graph)


def test_small_variables_and_those_that_rules_name_are_left_out() -> None:
    with tf.Graph().as_default() as graph:
        tf.train.compress_transfers("topk", "int8", {"embedding/*": {"gradients": "none", "parameters": "float16"}})
        with tf.device(tf.train.replica_device_setter(ps_tasks=1)):
            sizes = {"small": (8, 8), "large": (100, 100), "embedding/table": (100, 100)}
            made = [tf.get_variable(name, size) for name, size in sizes.items()]
            tf.train.GradientDescentOptimizer(0.1).minimize(tf.add_n([tf.reduce_sum(v) for v in made]))
        found = {op.name: op.get_attr("codec") for op in graph.get_operations() if op.type == "CompressedTransfer"}
        assert found == {
            "large/sent": b"int8",
            "embedding/table/sent": b"float16",
            "large/compressed_gradient": b"topk",
        }
        assert [v.op.name for v in tf.global_variables() if "Compression" in v.name] == ["large/Compression"]


def test_the_environment_says_it_for_programs_that_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTF_COMPRESSION", json.dumps({"gradients": "int8"}))
    with tf.Graph().as_default() as graph:
        regression()
        assert ops_of(graph).count("CompressedTransfer") == 1
    with tf.Graph().as_default() as graph:
        tf.train.compress_transfers()
        regression()
        assert "CompressedTransfer" not in ops_of(graph)
    monkeypatch.setenv("DTF_COMPRESSION", "{gradients: int8}")
    with tf.Graph().as_default(), pytest.raises(InvalidArgumentError, match="DTF_COMPRESSION"):
        regression()


def test_a_cluster_file_says_it_for_its_jobs() -> None:
    text = "{gradients: 'topk:ratio=0.02', least: 9, variables: {a/*: {parameters: int8}, b: {gradients: none}}}"
    spec = parse_spec(f"cluster: dev\ntasks: {{ps: 1, worker: 1}}\nruntime: {{compression: {text}}}\n", "c.yaml")
    job = JobRecord("j-1", JobRequest("train.py"), "", "", "", 0.0)
    read = Compression(**json.loads(job_environment(spec, job)["DTF_COMPRESSION"]))
    rules = {"a/*": {"parameters": "int8"}, "b": {"gradients": "none"}}
    assert read == Compression("topk:ratio=0.02", variables=rules, least=9)
    plain = parse_spec("cluster: dev\ntasks: {ps: 1, worker: 1}\n", "c.yaml")
    assert "DTF_COMPRESSION" not in job_environment(plain, job)


@pytest.mark.parametrize("codec", ["none", *codec_names()])
def test_a_cluster_file_takes_every_codec(codec: str) -> None:
    spec = parse_spec(f"cluster: dev\ntasks: {{ps: 1}}\nruntime: {{compression: {{gradients: {codec}}}}}\n", "c.yaml")
    assert spec.runtime.compression.gradients == codec


def test_what_cannot_be_is_refused_at_once() -> None:
    for wrong, says in (
        ({"gradients": "zip"}, "gradients: There is no codec 'zip': .*, and none"),
        ({"gradients": "float16:bits=3"}, "float16 has no parameters, and none"),
        ({"parameters": "topk"}, "parameters can be sent as bfloat16, float16, int8, not as topk"),
        ({"variables": {"w": {"gradient": "int8"}}}, "there is no 'gradient'"),
        ({"variables": {"w": {"parameters": "onebit"}}}, "not as onebit"),
    ):
        with tf.Graph().as_default(), pytest.raises(InvalidArgumentError, match=says):
            tf.train.compress_transfers(**wrong)  # type: ignore[arg-type]


def test_momentum_is_not_applied_twice() -> None:
    with tf.Graph().as_default():
        tf.train.compress_transfers("topk:momentum=0.9")
        with pytest.raises(ValueError, match="apply its gradients by a GradientDescentOptimizer, not AdamOptimizer"):
            regression(optimizer=tf.train.AdamOptimizer())


# What is sent --------------------------------------------------------------------------------------------------------


def test_tasks_of_one_host_send_it_as_it_is() -> None:
    peers = Peers(
        "/job:worker/task:0",
        1,
        {"/job:worker/task:0": "127.0.0.1:1", "/job:worker/task:1": "localhost:2", "/job:ps/task:0": "10.0.0.2:1"},
        lambda *_: None,  # type: ignore[arg-type, return-value]
        lambda *_: None,
    )
    assert not peers.is_far("/job:worker/task:0", "/job:worker/task:1")
    assert peers.is_far("/job:worker/task:0", "/job:ps/task:0")
    with tf.Graph().as_default() as graph:
        tf.train.compress_transfers("int8", "float16")
        regression()
    sides = {"/job:ps/replica:0/task:0/device:CPU:0": 1, "/job:worker/replica:0/task:0/device:CPU:0": 2}
    for is_far in (True, False):
        nodes = NodeGraph()
        nodes.extend(graph.as_graph_def())
        for node in nodes:
            node.device = next(name for name in sides if ("ps" in name) == ("ps" in node.device))
        parts = split_by_task(nodes, sides, is_far=lambda _a, _b, far=is_far: far)
        by_op = {task: [node.op for node in part] for task, part in parts.items()}
        ps, worker = by_op["/job:ps/replica:0/task:0"], by_op["/job:worker/replica:0/task:0"]
        assert ("EncodeTensor" in worker) == ("DecodeTensor" in ps) == is_far
        assert ("EncodeTensor" in ps) == ("DecodeTensor" in worker) == is_far


def test_bytes_that_cross_are_fewer_and_counted(cluster: InProcessCluster) -> None:
    xs, ys = data()
    with tf.Graph().as_default():
        tf.train.compress_transfers("topk:ratio=0.01", always=True)
        weights, x, y, _, train = regression()
        init = tf.global_variables_initializer()
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(init)
            before = ENCODED.tensors, ENCODED.bytes_before, ENCODED.bytes_after
            session.run(train, {x: xs, y: ys})
            changed = np.count_nonzero(session.run(weights))
    assert changed == 64
    after = ENCODED.tensors, ENCODED.bytes_before, ENCODED.bytes_after
    assert [b - a for a, b in zip(before, after)] == [1, 4 * 6400, 8 + 8 * 64]


def test_a_value_that_is_not_finite_reaches_the_variable(cluster: InProcessCluster) -> None:
    xs, ys = data()
    ys[0, 0] = np.nan
    with tf.Graph().as_default():
        tf.train.compress_transfers("onebit", always=True)
        weights, x, y, _, train = regression()
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {x: xs, y: ys})
            assert np.isnan(session.run(weights)).any()


# What is kept --------------------------------------------------------------------------------------------------------


def test_what_was_not_sent_is_in_the_checkpoint_of_the_chief(cluster: InProcessCluster, tmp_path: Path) -> None:
    xs, ys = data()

    def build() -> Any:
        tf.train.compress_transfers("topk:ratio=0.01", always=True)
        return regression()

    with tf.Graph().as_default():
        _, x, y, _, train = build()
        saver, (kept,) = tf.train.Saver(), [v for v in tf.global_variables() if v.op.name == "weights/Compression"]
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {x: xs, y: ys})
            path, then = saver.save(session, str(tmp_path / "model")), session.run(kept)
    assert np.count_nonzero(then) == 6400 - 64
    tf.Session.reset(cluster.target("worker", 0))
    with tf.Graph().as_default():
        build()
        (kept,) = [v for v in tf.global_variables() if v.op.name == "weights/Compression"]
        with tf.Session(cluster.target("worker", 0)) as session:
            tf.train.Saver().restore(session, path)
            assert np.array_equal(session.run(kept), then)


def test_beside_a_chief_worker_0_is_one_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {"chief": ["a:1"], "worker": ["b:1"]}}))
    for worker, kept in ((WORKER, []), ("/job:chief/task:0", ["weights/Compression"])):
        with tf.Graph().as_default():
            tf.train.compress_transfers("onebit")
            regression(worker)
            assert [v.op.name for v in tf.global_variables() if "Compression" in v.name] == kept


def test_what_other_workers_have_not_sent_is_in_the_chiefs_checkpoint_and_given_back_once(
    cluster: InProcessCluster, tmp_path: Path
) -> None:
    xs, ys = data()

    def graph_of(worker: str) -> tuple[Any, ...]:
        tf.train.compress_transfers("topk:ratio=0.01", always=True)
        found = regression(worker)
        kept = tf.get_default_graph().get_tensor_by_name("weights/Compression:0")
        return *found, kept, tf.tables_initializer()

    def state_of_other(kept: Any, take_back: Any) -> Any:
        with tf.Session(cluster.target("worker", 1)) as session:
            session.run(take_back)
            return session.run(kept)

    with tf.Graph().as_default() as chiefs:
        graph_of(WORKER)
        saver = tf.train.Saver()
        chief = tf.Session(cluster.target("worker", 0))
        chief.run(tf.global_variables_initializer())
        chiefs.finalize()
    with tf.Graph().as_default() as others:
        _, x, y, _, train, kept, take_back = graph_of(OTHER)
        with tf.Session(cluster.target("worker", 1)) as session:
            session.run(train, {x: xs, y: ys})
            then = session.run(kept)
        path = saver.save(chief, str(tmp_path / "model"))
        # It is only on its way: nothing is left where it would be given back later.
        with tf.Session(cluster.target("worker", 1)) as session:
            session.run(train, {x: xs, y: ys})
            later = session.run(kept)
        assert np.array_equal(state_of_other(kept, take_back), later)
    assert np.count_nonzero(then) == 6400 - 64 and not np.array_equal(then, later)
    chief.close()
    tf.Session.reset(cluster.target("worker", 0))
    with tf.Session(cluster.target("worker", 0), graph=chiefs) as chief:
        saver.restore(chief, path)
        with others.as_default():
            assert np.array_equal(state_of_other(kept, take_back), then)
            with tf.Session(cluster.target("worker", 1)) as session:
                session.run(train, {x: xs, y: ys})
                later = session.run(kept)
            assert np.array_equal(state_of_other(kept, take_back), later), "it is given back once"


def test_other_workers_begin_without_anybody_initializing_theirs(cluster: InProcessCluster) -> None:
    xs, ys = data()
    for index, worker in enumerate((WORKER, OTHER)):
        with tf.Graph().as_default():
            tf.train.compress_transfers("onebit", always=True)
            _, x, y, loss, train = regression(worker)
            names = [v.op.name for v in tf.global_variables()]
            with tf.Session(cluster.target("worker", index)) as session:
                if not index:
                    session.run(tf.global_variables_initializer())
                before = session.run(loss, {x: xs, y: ys})
                for _ in range(5):
                    session.run(train, {x: xs, y: ys})
                assert session.run(loss, {x: xs, y: ys}) < before
        assert names == (["weights"] if index else ["weights", "weights/Compression"])


def test_another_codecs_state_is_not_taken_for_its_own(cluster: InProcessCluster) -> None:
    xs, ys = data()
    for codec in ("onebit", "topk:momentum=0.5"):
        with tf.Graph().as_default():
            tf.train.compress_transfers(codec, always=True)
            weights, x, y, _, train = regression(OTHER)
            with tf.Session(cluster.target("worker", 1)) as session:
                session.run(weights.initializer)
                if codec == "onebit":
                    session.run(train, {x: xs, y: ys})
                else:
                    with pytest.raises(InvalidArgumentError, match="another codec's"):
                        session.run(train, {x: xs, y: ys})


# Training ------------------------------------------------------------------------------------------------------------


def accuracy(target: str, gradients: str, parameters: str) -> float:
    """Train a perceptron on 1,437 handwritten digits for 400 steps; how many of 360 others it names."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    digits = load_digits()
    images, labels = digits.data.astype(np.float32) / 16, digits.target
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order], labels[order]
    tf.Session.reset(target)
    with tf.Graph().as_default():
        tf.train.compress_transfers(gradients, parameters, least=500, always=True)
        tf.set_random_seed(1)
        momentum = "momentum" in gradients
        with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
            x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.int64, [None])
            hidden = tf.layers.dense(x, 128, tf.nn.relu)
            logits = tf.layers.dense(hidden, 10)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
            optimizer: Any = tf.train.MomentumOptimizer(0.05, 0.9)
            train = (tf.train.GradientDescentOptimizer(0.05) if momentum else optimizer).minimize(loss)
            right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            rng = np.random.default_rng(2)
            for _ in range(400):
                batch = rng.integers(0, 1437, 128)
                session.run(train, {x: images[batch], y: labels[batch]})
            return float(session.run(right, {x: images[1437:], y: labels[1437:]}))


@pytest.mark.slow
def test_training_ends_with_the_accuracy_that_it_has_without(cluster: InProcessCluster) -> None:
    pytest.importorskip("sklearn", reason="the data set comes with scikit-learn")
    target = cluster.target("worker", 0)
    without = accuracy(target, "none", "none")
    found = {f"{gradients} {parameters}": accuracy(target, gradients, parameters) for gradients, parameters in CODECS}
    print(without, found)
    assert without > 0.95
    assert {name: value for name, value in found.items() if value < without - 0.005} == {}


def test_synchronous_training_sends_each_workers_gradient_smaller(cluster: InProcessCluster) -> None:
    xs, ys = data()
    with tf.Graph().as_default() as graph:
        tf.train.compress_transfers("powersgd", always=True)
        inner = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.train.SyncReplicasOptimizer(inner, replicas_to_aggregate=1, total_num_replicas=1)
        with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=WORKER)):
            weights = tf.get_variable("weights", [64, 100], initializer=tf.zeros_initializer())
            x, y = tf.placeholder(tf.float32, [None, 64]), tf.placeholder(tf.float32, [None, 100])
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
            train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
        assert ops_of(graph).count("CompressedTransfer") == 1
        hook = optimizer.make_session_run_hook(is_chief=True, num_tokens=0)
        before = ENCODED.tensors
        with tf.train.MonitoredTrainingSession(cluster.target("worker", 0), hooks=[hook]) as session:
            first = session.run(loss, {x: xs, y: ys})
            for _ in range(30):
                session.run(train, {x: xs, y: ys})
            assert session.run(loss, {x: xs, y: ys}) < 0.5 * first
        assert ENCODED.tensors - before == 30
