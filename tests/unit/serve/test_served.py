"""A model served in this process: both APIs over real sockets, kinds of models, versions that come and go."""

from __future__ import annotations

import http.client
import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.health.monitor import HealthLimits
from dtfctl.launcher.agent.units.health_check import judge_progress
from dtfctl.launcher.model import Progress
from dtfctl.protocol import serving_pb2 as messages
from dtfctl.runtime.framework.errors import UnavailableError
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.serve.calls import MODEL, PREDICTION, GrpcServer
from dtfctl.serve.door import Door
from dtfctl.serve.figures import Figures
from dtfctl.serve.loading import Names
from dtfctl.serve.model import SETTLED_NS, Model
from dtfctl.serve.program import work_done
from dtfctl.serve.routes import Routes
from dtfctl.serve.sources import NoModel, Policy, Source, find
from dtfctl.serve.versions import Version
from dtfctl.serve.web import WebServer

TOKEN = "a-token-of-the-tests"
DATA = Path(__file__).parents[1] / "names" / "data" / "saved_model"


def write(folder: Path, factor: float, settled: bool = True) -> Path:
    """A SavedModel of y = factor * x, which also classifies and regresses by its Examples' feature `x`."""
    part = folder.with_name(f".{folder.name}")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=np.float32(factor))
        packed = tf.placeholder(tf.string, [None], name="packed")
        read = tf.parse_example(packed, {"x": tf.FixedLenFeature([2], tf.float32)})["x"] * w
        names = tf.tile(tf.constant([["left", "right"]]), [tf.shape(packed)[0], 1])
        utils = tf.saved_model.signature_def_utils
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.Builder(str(part))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {
                "serving_default": tf.saved_model.predict_signature_def({"x": x}, {"y": x * w}),
                "sort": utils.classification_signature_def(packed, names, read),
                "mean": utils.regression_signature_def(packed, tf.reduce_sum(read, 1, keepdims=True)),
            },
        )
        builder.save()
    settle(part, 2 * SETTLED_NS if settled else -3600 * 10**9)
    part.rename(folder)
    return folder


def settle(folder: Path, age_ns: int = 2 * SETTLED_NS) -> None:
    """Have a model look as if it had been written so long ago."""
    for file in folder.rglob("*"):
        at = time.time_ns() - age_ns
        os.utime(file, ns=(at, at))


@dataclass
class Served:
    model: Model
    rest: int
    grpc: int

    def ask(self, path: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.rest, timeout=60)
        content = None if body is None else json.dumps(body)
        connection.request("GET" if body is None else "POST", path, content, {"Authorization": f"Bearer {token}"})
        reply = connection.getresponse()
        found = reply.read()
        connection.close()
        return reply.status, json.loads(found) if reply.headers["Content-Type"] == "application/json" else found

    def predict(self, *rows: Any, at: str = "") -> tuple[int, Any]:
        status, found = self.ask(f"/v1/models/m{at}:predict", {"instances": list(rows)})
        return status, found.get("predictions", found)

    def call(self, path: str, request: Any, answer: Any, token: str = TOKEN) -> Any:
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc}") as channel:
            method = channel.unary_unary(path, type(request).SerializeToString, answer.FromString)
            return method(request, timeout=60, metadata=(("authorization", f"Bearer {token}"),))


def of_source(source: Source, names: Names = Names()) -> Version:  # noqa: B008
    """Load a version here, without a cluster."""
    return Version(source, names, "", [""], 8)


@contextmanager
def serving(
    path: Path,
    policy: str = "latest",
    names: Names = Names(),  # noqa: B008
    door: Door = Door(token=TOKEN),  # noqa: B008
) -> Iterator[Served]:
    model = Model("m", str(path), Policy.parse(policy), lambda source: of_source(source, names))
    figures = Figures()
    web = WebServer(Routes(model, figures, 60.0).answer, door)
    calls = GrpcServer(model, figures, door, 60.0)
    try:
        model.start()
        web.start()
        calls.start()
        yield Served(model, web.port, calls.port)
    finally:
        calls.stop(0)
        web.close()
        model.close()


@pytest.fixture(scope="module")
def doubling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("models") / "doubling"
    folder.mkdir()
    write(folder / "3", 2.0)
    with serving(folder) as served:
        yield served


def test_rest_predicts_classifies_and_regresses(doubling: Served) -> None:
    assert doubling.predict([1, 2], [3, 4]) == (200, [[2, 4], [6, 8]])
    assert doubling.predict([1, 2], at="/versions/3") == (200, [[2, 4]])
    assert doubling.ask("/v1/models/m:predict", {"inputs": {"x": [[1, 2]]}}) == (200, {"outputs": [[2, 4]]})
    examples = [{"x": [1.0, 2.0]}, {"x": [0.5, 1.5]}]
    status, found = doubling.ask("/v1/models/m:classify", {"signature_name": "sort", "examples": examples})
    assert (status, found["results"][1]) == (200, [["left", 1.0], ["right", 3.0]])
    found = doubling.ask("/v1/models/m:regress", {"signature_name": "mean", "examples": examples})
    assert found == (200, {"results": [6.0, 4.0]})


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/v1/models/m:predict", {"instances": [[1, 2, 3]]}, 400, "of shape"),
        ("/v1/models/m:predict", {"inputs": {"z": 1}}, 400, "lacks x and knows no z"),
        ("/v1/models/m:predict", {"signature_name": "none", "instances": [1]}, 400, "not found in signature def"),
        ("/v1/models/m:predict", {"signature_name": 1, "instances": [1]}, 400, "string"),
        ("/v1/models/m:classify", {"examples": [{"x": [1.0, 2.0]}]}, 400, "Expected classification"),
        ("/v1/models/m:regress", {"signature_name": "sort", "examples": [{}]}, 400, "Expected regression"),
        ("/v1/models/m:regress", {"signature_name": "mean", "examples": [{}]}, 400, "x"),
        ("/v1/models/m:explain", {}, 404, "Malformed request"),
        ("/v1/models/other:predict", {"instances": [1]}, 404, "Servable not found"),
        ("/v1/models/m/versions/4:predict", {"instances": [[1, 2]]}, 404, "Specific\\(m, 4\\)"),
        ("/v1/models/m/versions/4", None, 404, "version 4"),
        ("/", None, 404, "Malformed"),
    ],
)
def test_rest_says_what_is_wrong(doubling: Served, path: str, body: Any, status: int, says: str) -> None:
    found = doubling.ask(path, body)
    assert found[0] == status
    with pytest.raises(ValueError, match=says):
        raise ValueError(found[1]["error"])


def test_nobody_is_answered_without_the_token(doubling: Served) -> None:
    for token in ("", "wrong", TOKEN + "x"):
        for path, body in (("/healthz", None), ("/v1/models/m", None), ("/v1/models/m:predict", {"instances": []})):
            assert doubling.ask(path, body, token)[0] == 401
        with pytest.raises(grpc.RpcError) as error:
            doubling.call(f"/{MODEL}/GetModelStatus", messages.GetModelStatusRequest(), messages.ModelSpec, token)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_grpc_answers_the_same(doubling: Served) -> None:
    request = messages.PredictRequest(model_spec=messages.ModelSpec(name="m"), output_filter=["y"])
    request.inputs["x"].CopyFrom(encode_tensor(np.array([[1, 2]], np.float32)))
    found = doubling.call(f"/{PREDICTION}/Predict", request, messages.PredictResponse)
    assert decode_tensor(found.outputs["y"]).tolist() == [[2, 4]]
    assert (found.model_spec.version.value, found.model_spec.signature_name) == (3, "serving_default")
    request.output_filter[:] = ["z"]
    with pytest.raises(grpc.RpcError, match="alias not found"):
        doubling.call(f"/{PREDICTION}/Predict", request, messages.PredictResponse)
    sort = messages.ClassificationRequest(model_spec=messages.ModelSpec(name="m", signature_name="sort"))
    sort.input.example_list.examples.add().features.feature["x"].float_list.value.extend([1, 2])
    classified = doubling.call(f"/{PREDICTION}/Classify", sort, messages.ClassificationResponse)
    assert [(c.label, c.score) for c in classified.result.classifications[0].classes] == [("left", 2), ("right", 4)]
    sort.model_spec.signature_name = "mean"
    regressed = doubling.call(f"/{PREDICTION}/Regress", sort, messages.RegressionResponse)
    assert [one.value for one in regressed.result.regressions] == [6.0]
    health = doubling.call("/grpc.health.v1.Health/Check", messages.HealthCheckRequest(), messages.HealthCheckResponse)
    assert health.status == health.SERVING


def test_several_signatures_are_asked_of_the_same_examples(doubling: Served) -> None:
    request = messages.MultiInferenceRequest()
    request.input.example_list.examples.add().features.feature["x"].float_list.value.extend([1, 2])
    for name, method in (("sort", "classify"), ("mean", "regress")):
        task = request.tasks.add(method_name=f"tensorflow/serving/{method}")
        task.model_spec.name, task.model_spec.signature_name = "m", name
    path = f"/{PREDICTION}/MultiInference"
    first, second = doubling.call(path, request, messages.MultiInferenceResponse).results
    assert [c.score for c in first.classification_result.classifications[0].classes] == [2, 4]
    assert [one.value for one in second.regression_result.regressions] == [6.0]
    assert (second.model_spec.version.value, second.model_spec.signature_name) == (3, "mean")
    for change, says in (
        (lambda r: r.tasks[1].model_spec.version.__setattr__("value", 3), "one version of a model"),
        (lambda r: r.tasks[1].__setattr__("method_name", "tensorflow/serving/predict"), "is none of"),
        (lambda r: r.tasks[1].CopyFrom(r.tasks[0]), "different signatures"),
        (lambda r: r.ClearField("tasks"), "has 1 to 64 tasks"),
    ):
        wrong = messages.MultiInferenceRequest.FromString(request.SerializeToString())
        change(wrong)
        with pytest.raises(grpc.RpcError, match=says):
            doubling.call(path, wrong, messages.MultiInferenceResponse)


def test_looks_at_the_same_time_load_a_version_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "1", 1.0)
    with serving(tmp_path) as served, caplog.at_level("INFO", "dtfctl.serve.model"):
        write(tmp_path / "2", 2.0)
        with ThreadPoolExecutor(4) as pool:
            for looked in [pool.submit(served.model.look) for _ in range(4)]:
                looked.result(60)
        assert set(served.model.versions) == {2}
    assert sum("version 2 is served after" in record.getMessage() for record in caplog.records) == 1


def test_it_is_said_when_other_versions_answer(tmp_path: Path) -> None:
    """What serves keeps them from the cycle collector, which would stop all requests to walk them."""
    write(tmp_path / "1", 1.0)
    said: list[list[int]] = []
    model = Model("m", str(tmp_path), Policy.parse("latest"), of_source, lambda: said.append(sorted(model.versions)))
    model.start()
    try:
        assert said == [[1]]
        model.look()
        assert said == [[1]]
        write(tmp_path / "2", 2.0)
        model.look()
        assert said[-1] == [2]
    finally:
        model.close()


def test_labels_name_versions_and_move_while_requests_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in (1, 2):
        write(tmp_path / str(number), float(number))
    labels = tmp_path / "labels.json"
    labels.write_text('{"stable": 1, "next one": 2}')
    with serving(tmp_path, "latest:2") as served:
        assert served.predict([1, 1], at="/labels/stable") == (200, [[1, 1]])
        assert served.predict([1, 1], at="/labels/next%20one") == (200, [[2, 2]])
        assert served.ask("/v1/models/m/labels/stable")[1]["model_version_status"][0]["version"] == "1"
        assert served.ask("/v1/models/m/labels/stable/metadata")[1]["model_spec"]["version"] == "1"
        status, found = served.ask("/v1/models/m/labels/none:predict", {"instances": [[1, 1]]})
        assert status == 400 and found["error"] == "Unrecognized servable version label: none"
        request = messages.PredictRequest(model_spec=messages.ModelSpec(name="m", version_label="stable"))
        request.inputs["x"].CopyFrom(encode_tensor(np.array([[1, 2]], np.float32)))
        found = served.call(f"/{PREDICTION}/Predict", request, messages.PredictResponse)
        assert decode_tensor(found.outputs["y"]).tolist() == [[1, 2]] and found.model_spec.version.value == 1

        answers: list[Any] = []
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                answers.append(served.predict([1, 1], at="/labels/stable"))

        thread = threading.Thread(target=ask)
        thread.start()
        labels.write_text('{"stable": 3}')
        write(tmp_path / "3", 3.0)
        served.model.look()  # 1 goes as 3 comes
        stop.set()
        thread.join(60)
        assert set(served.model.versions) == {2, 3}
        assert answers and all(one in [(200, [[1, 1]]), (200, [[3, 3]])] for one in answers)
        for wrong in ("no JSON", "[]", '{"stable": "3"}', '{"stable": true}', '{"": 1}', " " * 70_000):
            labels.write_text(wrong)
            served.model.look()
            assert served.predict([1, 1], at="/labels/stable") == (200, [[3, 3]]), "those from before stay"
        assert sum("labels.json" in record.getMessage() for record in caplog.records) == 1
        labels.unlink()
        served.model.look()
        assert served.predict([1, 1], at="/labels/stable")[0] == 400


def test_a_label_stays_until_its_new_version_is_served(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path / "1", 1.0)
    labels = tmp_path / "labels.json"
    labels.write_text('{"stable": 1}')
    with serving(tmp_path) as served:
        labels.write_text('{"stable": 3, "canary": 3}')
        served.model.look()
        assert served.predict([1, 1], at="/labels/stable") == (200, [[1, 1]])
        assert served.predict([1, 1], at="/labels/canary")[0] == 404
        assert "label stable stays with version 1: version 3 is not served" in caplog.text
        write(tmp_path / "3", 3.0)
        served.model.look()
        assert served.predict([1, 1], at="/labels/stable") == (200, [[3, 3]])
        assert served.predict([1, 1], at="/labels/canary") == (200, [[3, 3]])


def test_a_request_whose_label_moves_under_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "1", 1.0)
    labels = tmp_path / "labels.json"
    labels.write_text('{"stable": 1}')
    number = Model.number
    with serving(tmp_path) as served:

        def slow(model: Model, label: str) -> int:
            """By the time the version is looked for, it has gone."""
            found = number(model, label)
            if found == 1:
                labels.write_text('{"stable": 3}')
                write(tmp_path / "3", 3.0)
                model.look()
                assert set(model.versions) == {3}
            return found

        monkeypatch.setattr(Model, "number", slow)
        assert served.predict([1, 1], at="/labels/stable") == (200, [[3, 3]])


def test_metadata_status_and_figures(doubling: Served) -> None:
    found = doubling.ask("/v1/models/m/metadata")[1]
    assert found["model_spec"] == {"name": "m", "signature_name": "", "version": "3"}
    described = found["metadata"]["signature_def"]["signature_def"]
    assert described["serving_default"]["inputs"]["x"]["dtype"] == "DT_FLOAT"
    ask = messages.GetModelMetadataRequest(model_spec=messages.ModelSpec(name="m"), metadata_field=["signature_def"])
    held = doubling.call(f"/{PREDICTION}/GetModelMetadata", ask, messages.GetModelMetadataResponse)
    packed = held.metadata["signature_def"]
    assert packed.type_url.endswith("/tensorflow.serving.SignatureDefMap")
    assert set(messages.SignatureDefMap.FromString(packed.value).signature_def) == set(described)
    state = {"version": "3", "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
    assert doubling.ask("/v1/models/m") == (200, {"model_version_status": [state]})
    asked = messages.GetModelStatusRequest(model_spec=messages.ModelSpec(name="m"))
    (one,) = doubling.call(f"/{MODEL}/GetModelStatus", asked, messages.GetModelStatusResponse).model_version_status
    assert (one.version, one.state) == (3, one.AVAILABLE)
    assert doubling.ask("/healthz")[1]["ready"] is True
    doubling.predict([1, 2])
    text = doubling.ask("/monitoring/prometheus/metrics")[1].decode()
    assert 'dtfctl_serve_requests_total{verb="predict",code="OK"}' in text


def test_what_nobody_asks_is_not_taken_for_a_job_that_hangs(doubling: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    limits, figures = HealthLimits(), Figures()
    for has_advanced in (False, True):
        step, total = work_done(doubling.model, figures)
        assert judge_progress(Progress(step, total), 1e6, limits, has_advanced=has_advanced) is None
        figures.note("predict", "OK", 0.1)
    monkeypatch.setattr(Version, "waiting", 1)
    step, total = work_done(doubling.model, figures)
    assert (step, total) == (2, 3)
    assert judge_progress(Progress(step, total), 1e6, limits, has_advanced=True) is not None


def test_what_does_not_say_how_long_it_is_is_refused(doubling: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", doubling.rest, timeout=60)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    # What follows the head is not read, and a sender may not get rid of it.
    connection.putrequest("POST", "/v1/models/m:predict")
    for name, value in {**headers, "Transfer-Encoding": "chunked"}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()
    connection.putrequest("POST", "/v1/models/m:predict")
    for name, value in {**headers, "Content-Length": str(2**40)}.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


def test_versions_are_switched_while_requests_run(tmp_path: Path) -> None:
    write(tmp_path / "1", 1.0)
    with serving(tmp_path) as served:
        answers: list[Any] = []
        stop = threading.Event()

        def ask() -> None:
            while not stop.is_set():
                answers.append(served.predict([1, 1]))

        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        write(tmp_path / "2", 2.0, settled=False)
        served.model.look()
        assert set(served.model.versions) == {1}, "it may still be being written"
        settle(tmp_path / "2")
        served.model.look()
        stop.set()
        for thread in threads:
            thread.join(60)
        assert served.predict([1, 1]) == (200, [[2, 2]])
        assert answers and all(a in [(200, [[1, 1]]), (200, [[2, 2]])] for a in answers)
        states = {s["version"]: s["state"] for s in served.ask("/v1/models/m")[1]["model_version_status"]}
        assert states == {"1": "END", "2": "AVAILABLE"}
        # What cannot be loaded is told, and takes nobody's place.
        (tmp_path / "3").mkdir()
        (tmp_path / "3" / "saved_model.pb").write_bytes(b"nothing of that kind")
        settle(tmp_path / "3")
        served.model.look()
        assert served.predict([1, 1]) == (200, [[2, 2]])
        told = served.ask("/v1/models/m/versions/3")[1]["model_version_status"][0]
        assert told["state"] == "END" and told["status"]["error_message"]


def test_several_versions_keep_their_own_variables(tmp_path: Path) -> None:
    write(tmp_path / "1", 1.0)
    write(tmp_path / "5", 5.0)
    with serving(tmp_path, "all") as served:
        assert served.predict([1, 1], at="/versions/1") == (200, [[1, 1]])
        assert served.predict([1, 1], at="/versions/5") == served.predict([1, 1]) == (200, [[5, 5]])


def test_a_model_of_tensorflow_is_served() -> None:
    """With a vocabulary file and variables of both kinds."""
    with serving(DATA) as served:
        request = {"inputs": {"x": [[1, 2]], "words": ["two", "none"]}}
        assert served.ask("/v1/models/m:predict", request) == (200, {"outputs": {"ids": [2, -1], "y": [[51.5]]}})


def test_frozen_graphs_and_checkpoints_are_served_by_their_tensors(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.identity(x * tf.get_variable("w", initializer=3.0), name="y")
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "saves" / "model.ckpt"), global_step=40)
        frozen = tf.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
    (tmp_path / "m.pb").write_bytes(frozen.SerializeToString())
    with serving(tmp_path / "m.pb") as served:
        assert served.predict(1, 2) == (200, [3, 6])
    named = Names(inputs=("in=x",), outputs=("out=y",))
    with serving(tmp_path / "saves", names=named) as served:
        assert set(served.model.versions) == {40}
        found = served.ask("/v1/models/m:predict", {"instances": [{"in": 2.0}]})
        assert found == (200, {"predictions": [6.0]})
    with pytest.raises(NoModel, match="--outputs"), serving(tmp_path / "saves"):
        pass
    with pytest.raises(NoModel, match="no tensor"), serving(tmp_path / "m.pb", names=Names(outputs=("nothing",))):
        pass


def test_recorded_requests_warm_a_version_up(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    model = write(tmp_path / "model", 1.0)
    (model / "assets.extra").mkdir()
    good = messages.PredictionLog()
    good.predict_log.request.inputs["x"].CopyFrom(encode_tensor(np.ones((1, 2), np.float32)))
    bad = messages.PredictionLog()
    bad.predict_log.request.inputs["z"].CopyFrom(encode_tensor(np.ones(1, np.float32)))
    sort = messages.PredictionLog()
    sort.classify_log.request.model_spec.signature_name = "sort"
    sort.classify_log.request.input.example_list.examples.add().features.feature["x"].float_list.value.extend([1, 2])
    with tf.python_io.TFRecordWriter(str(model / "assets.extra" / "tf_serving_warmup_requests")) as out:
        for record in (good, bad, sort):
            out.write(record.SerializeToString())
    with serving(model) as served:
        assert served.predict([1, 2]) == (200, [[1, 2]])
    said = [record.getMessage() for record in caplog.records if "warm up" in record.getMessage()]
    assert len(said) == 1 and "knows no z" in said[0]


def test_an_older_version_is_served_where_the_newest_cannot_be_loaded_at_the_start(tmp_path: Path) -> None:
    write(tmp_path / "0", 2.0)
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "saved_model.pb").write_bytes(b"no graph")
    with serving(tmp_path) as served:
        assert sorted(served.model.versions) == [0]
        assert served.predict([1, 2]) == served.predict([1, 2], at="/versions/0") == (200, [[2, 4]])


def test_a_start_is_tried_again_at_once_where_tasks_were_away(tmp_path: Path) -> None:
    write(tmp_path / "1", 2.0)
    write(tmp_path / "2", 3.0)
    asked: list[int] = []

    def load(source: Source) -> Version:
        asked.append(source.version)
        raise UnavailableError("the task is away")

    model = Model("m", str(tmp_path), Policy.parse("latest"), load)
    for _ in range(2):
        with pytest.raises(UnavailableError, match="is away"):
            model.start()
    assert asked == [2, 2], "an older version is no answer to that"


def test_which_versions_are_chosen(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "saved_model.pb").write_bytes(b"")
    (tmp_path / "notes").mkdir()
    (tmp_path / "01").mkdir()  # would be another version 1
    (tmp_path / "01" / "saved_model.pb").write_bytes(b"")

    def chosen(text: str) -> list[int]:
        return [source.version for source in Policy.parse(text).choose(find(str(tmp_path)))]

    assert [chosen(text) for text in ("latest", "latest:2", "all", "2,1", "7")] == [
        [10],
        [2, 10],
        [1, 2, 10],
        [1, 2],
        [],
    ]
    for wrong in ("newest", "latest:0", "latest:x", "", "1,-2"):
        with pytest.raises(NoModel, match="says of no versions"):
            Policy.parse(wrong)
    with pytest.raises(NoModel, match="nothing of that name"):
        find(str(tmp_path / "none"))
    with pytest.raises(NoModel, match="none of these"):
        find(str(tmp_path / "notes"))
