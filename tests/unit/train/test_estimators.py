"""`tf.estimator`: what no comparison with TensorFlow shows: tasks, errors, what is written down where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.support.ports import free_ports

X = np.linspace(-1.0, 1.0, 16, dtype=np.float32).reshape(8, 2)


def model(features: Any, labels: Any, mode: str) -> Any:
    weights = tf.get_variable("w", [2, 1], initializer=tf.ones_initializer())
    output = tf.matmul(features, weights)
    loss = None if labels is None else tf.reduce_mean(tf.square(output - labels))
    train = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, output, loss, train)


def data() -> Any:
    return tf.data.Dataset.from_tensor_slices((X, X[:, :1])).repeat().batch(4)


def test_the_chief_of_a_cluster_trains_on_its_ps_and_evaluates(tmp_path: Path, monkeypatch: Any) -> None:
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    cluster = {"ps": [ps], "worker": [worker]}
    served = tf.train.Server(cluster, "ps", 0)
    task = {"cluster": cluster, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    placed = []

    def watched(features: Any, labels: Any, mode: str) -> Any:
        spec = model(features, labels, mode)
        placed.append((mode, tf.global_variables()[-1].device))
        return spec

    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=4)
    assert (config.task_type, config.is_chief, config.num_ps_replicas, config.num_worker_replicas) == (
        "worker",
        True,
        1,
        1,
    )
    made = tf.estimator.Estimator(watched, config=config)
    metrics, _ = tf.estimator.train_and_evaluate(
        made, tf.estimator.TrainSpec(data, max_steps=8), tf.estimator.EvalSpec(data, steps=2, throttle_secs=0)
    )
    assert metrics["global_step"] == 8
    assert ("train", "/job:ps/task:0") in placed
    del served


def test_an_evaluator_goes_on_where_a_checkpoint_is_gone_before_it_is_read(tmp_path: Path, monkeypatch: Any) -> None:
    """Training that saves faster than is evaluated has deleted what the evaluator found; that ended the evaluator."""
    config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=2, keep_checkpoint_max=1)
    trained = tf.estimator.Estimator(model, config=config).train(data, steps=2)
    asked = []

    def while_training_goes_on() -> Any:
        if not asked:
            with tf.Graph().as_default():
                trained.train(data, steps=4)
        asked.append(trained.latest_checkpoint())
        return data()

    task = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "evaluator", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(task))
    evaluator = tf.estimator.Estimator(model, config=tf.estimator.RunConfig(str(tmp_path)))
    spec = tf.estimator.EvalSpec(while_training_goes_on, steps=2, start_delay_secs=0, throttle_secs=0)
    metrics, _ = tf.estimator.train_and_evaluate(evaluator, tf.estimator.TrainSpec(data, max_steps=6), spec)
    assert metrics["global_step"] == 6
    assert len(asked) == 2


def test_an_evaluator_whose_checkpoint_cannot_be_read_fails(tmp_path: Path, monkeypatch: Any) -> None:
    def wider(features: Any, labels: Any, mode: str) -> Any:
        tf.get_variable("another", [2])
        return model(features, labels, mode)

    tf.estimator.Estimator(model, str(tmp_path)).train(data, steps=2)
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": {}, "task": {"type": "evaluator", "index": 0}}))
    evaluator = tf.estimator.Estimator(wider, str(tmp_path))
    spec = tf.estimator.EvalSpec(data, steps=2, start_delay_secs=0, throttle_secs=0)
    with pytest.raises(tf.errors.NotFoundError, match="another"):
        tf.estimator.train_and_evaluate(evaluator, tf.estimator.TrainSpec(data, max_steps=2), spec)


def test_tasks_of_tf_config(monkeypatch: Any) -> None:
    cluster = {"chief": ["a:1"], "ps": ["b:1", "b:2"], "worker": ["c:1", "c:2"]}

    def config(kind: str, index: int) -> Any:
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}}))
        return tf.estimator.RunConfig()

    second = config("worker", 1)
    assert (second.is_chief, second.master, second.global_id_in_cluster) == (False, "grpc://c:2", 2)
    assert (second.num_ps_replicas, second.num_worker_replicas) == (2, 3)
    assert list(second.session_config.device_filters) == ["/job:ps", "/job:worker/task:1"]
    assert config("chief", 0).is_chief
    assert config("evaluator", 0).cluster_spec.as_dict() == {}
    with pytest.raises(ValueError, match="not a valid task_id"):
        config("worker", 2)
    with pytest.raises(ValueError, match="not a valid task_type"):
        config("helper", 0)


def test_what_contradicts_itself_is_refused(tmp_path: Path) -> None:
    e = tf.estimator
    with pytest.raises(ValueError, match="cannot be both set"):
        e.RunConfig(save_checkpoints_steps=1, save_checkpoints_secs=1)
    with pytest.raises(ValueError, match="not supported"):
        e.RunConfig().replace(task_id=3)
    with pytest.raises(ValueError, match="different values"):
        e.Estimator(model, str(tmp_path), e.RunConfig(str(tmp_path / "x")))
    with pytest.raises(ValueError, match="must include features"):
        e.Estimator(lambda labels: None, str(tmp_path))
    with pytest.raises(ValueError, match="does not include params"):
        e.Estimator(model, str(tmp_path), params={})
    made = e.Estimator(model, str(tmp_path))
    with pytest.raises(ValueError, match="both steps and max_steps"):
        made.train(data, steps=1, max_steps=1)
    with pytest.raises(ValueError, match="Could not find trained model"):
        made.get_variable_names()
    with pytest.raises(ValueError, match="shuffle must be provided"):
        e.inputs.numpy_input_fn(X)
    with pytest.raises(ValueError, match="return an EstimatorSpec"):
        e.Estimator(lambda features: None, str(tmp_path)).train(lambda: tf.constant(X), steps=1)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"Missing train_op\."):
            e.EstimatorSpec(e.ModeKeys.TRAIN, loss=tf.constant(1.0))
        with pytest.raises(ValueError, match=r"Missing predictions\."):
            e.EstimatorSpec(e.ModeKeys.PREDICT)
        with pytest.raises(ValueError, match="must be scalar"):
            e.EstimatorSpec(e.ModeKeys.EVAL, loss=tf.constant([1.0, 2.0]))


def test_arrays_come_in_batches_across_passes() -> None:
    def batches(count: int, **options: Any) -> Any:
        with tf.Graph().as_default():
            x, y = tf.estimator.inputs.numpy_input_fn(
                {"a": np.arange(5), "s": np.array(["p", "q", "r", "s", "t"])}, np.arange(5) * 10, 2, **options
            )()
            with tf.train.MonitoredSession() as session:
                return [session.run([x["a"], x["s"], y]) for _ in range(count)]

    got = batches(5, num_epochs=2, shuffle=False)
    assert [b[0].tolist() for b in got] == [[0, 1], [2, 3], [4, 0], [1, 2], [3, 4]]
    assert [b[2].tolist() for b in got] == [[0, 10], [20, 30], [40, 0], [10, 20], [30, 40]]
    assert got[2][1].tolist() == [b"t", b"p"]
    shuffled = batches(10, num_epochs=4, shuffle=True)
    assert sorted(n for b in shuffled for n in b[0]) == sorted(list(range(5)) * 4)
    assert [len(b[0]) for b in batches(3, num_epochs=1, shuffle=False)] == [2, 2, 1]
    # The end of the input ends a monitored session without an error.
    assert batches(4, num_epochs=1, shuffle=False) is None


def test_the_best_model_is_exported_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    def receiver() -> Any:
        return tf.estimator.export.TensorServingInputReceiver(x := tf.placeholder(tf.float32, [None, 2]), x)

    made = tf.estimator.Estimator(model, str(tmp_path))
    made.train(data, steps=1)
    best = tf.estimator.BestExporter("best", receiver, exports_to_keep=1)
    path = made.latest_checkpoint()
    folder = str(tmp_path / "best")
    results = [best.export(made, folder, path, {"loss": loss}, False) is not None for loss in (3.0, 4.0, 1.0)]
    assert results == [True, False, True]
    assert len(list((tmp_path / "best").iterdir())) == 1
