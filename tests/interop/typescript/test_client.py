"""The TypeScript client: its messages beside protobuf's own, its programs on our masters and on TensorFlow's."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.message import Message

from dtfctl.dashboard.server import Dashboard
from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobRequest
from dtfctl.protocol import graph_pb2, master_pb2, tensor_pb2
from tests.cluster.conftest import spec_of, wait_until
from tests.interop.typescript import client

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = client.FOLDER / "examples" / "train.mjs"
DTFCTL = json.dumps([sys.executable, "-m", "dtfctl"])
STOCK = """
import sys
import tensorflow as tf
print(tf.compat.v1.train.Server.create_local_server().target, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    client.node()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("typescript") / "home"))
        found = Cluster.up(spec_of("typed", ps=1, worker=1)).cluster
        assert found is not None
        yield found
        found.down(grace_s=1.0)


@pytest.fixture(scope="module")
def stock() -> Iterator[str]:
    """The target of a stock TensorFlow server."""
    client.node()
    python = os.environ.get("DTF_TEST_TENSORFLOW")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW to the python of an environment with tensorflow==2.21.0")
    process = subprocess.Popen(
        [python, "-c", STOCK],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
    )
    try:
        assert process.stdout is not None
        target = process.stdout.readline().strip()
        assert target.startswith("grpc://")
        yield target
    finally:
        process.kill()
        process.communicate()


# Messages -------------------------------------------------------------------------------------------------------------


def _request() -> master_pb2.RunStepRequest:
    request = master_pb2.RunStepRequest(session_handle="ä数", fetch=["a:0", ""], target=["t"], request_id=-5)
    request.options.timeout_in_ms = 2**62
    request.options.trace_level = 3
    request.store_errors_in_response_body = True
    tensor = request.feed.add(name="x:0").tensor
    tensor.dtype = tensor_pb2.DT_INT64
    tensor.tensor_shape.dim.add(size=-1, name="rows")
    tensor.tensor_shape.dim.add(size=0)
    tensor.int64_val.extend([-(2**63), 2**63 - 1, 0, 127, 128])
    tensor.int_val.extend([-1, 2**31 - 1, -(2**31)])
    tensor.uint64_val.extend([2**64 - 1, 2**53])
    tensor.uint32_val.extend([2**32 - 1])
    tensor.float_val.extend([0.0, -0.0, 1e-45, float("inf")])
    tensor.double_val.extend([0.1, -1e300])
    tensor.bool_val.extend([True, False])
    tensor.string_val.extend([b"", b"\xff\x00", b"x" * 300])
    tensor.tensor_content = bytes(range(256)) * 3
    return request


def _graph() -> graph_pb2.GraphDef:
    graph = graph_pb2.GraphDef(versions=tensor_pb2.VersionDef(producer=134, bad_consumers=[3, 9]))
    node = graph.node.add(name="n", op="Op", input=["a", "^b"], device="/job:ps")
    for value in (
        graph_pb2.AttrValue(i=0),
        graph_pb2.AttrValue(f=-0.0),
        graph_pb2.AttrValue(b=False),
        graph_pb2.AttrValue(s=b""),
        graph_pb2.AttrValue(type=1),
        graph_pb2.AttrValue(shape=tensor_pb2.TensorShapeProto(unknown_rank=True)),
        graph_pb2.AttrValue(list=graph_pb2.AttrValue.ListValue(i=[-1, 5], type=[1, 3], s=[b"q"], b=[True])),
        graph_pb2.AttrValue(list=graph_pb2.AttrValue.ListValue()),
        graph_pb2.AttrValue(func=graph_pb2.NameAttrList(name="f", attr={"k": graph_pb2.AttrValue(i=-7)})),
    ):
        node.attr[f"attr{len(node.attr)}"].CopyFrom(value)
    function = graph.library.function.add(ret={"y": "n:y:0"}, arg_attr={3: graph_pb2.FunctionDef.ArgAttrs()})
    function.signature.input_arg.add(name="x", type_attr="T")
    function.node_def.add(name="inner")
    return graph


def test_messages_are_what_protobuf_reads_and_writes() -> None:
    unknown = master_pb2.RunStepResponse(status_code=3)
    # A field that the client has no table of comes in between.
    unknown.metadata.step_stats.dev_stats.add(device="d")
    unknown.tensor.add(name="y").tensor.float_val.append(2.0)
    known = master_pb2.RunStepResponse(status_code=3)
    known.tensor.extend(unknown.tensor)
    empty = master_pb2.CreateSessionRequest()
    cases: list[tuple[Message, Message]] = [(one, one) for one in (_request(), _graph(), empty)] + [(unknown, known)]
    lines = [
        json.dumps({"kind": sent.DESCRIPTOR.name, "data": base64.b64encode(sent.SerializeToString()).decode()})
        for sent, _ in cases
    ]
    whole = _request().SerializeToString()
    cut = [whole[:length] for length in (1, len(whole) // 2, len(whole) - 1)]
    bad = [*cut, b"\x0a\xff\xff\xff\xff\x0f", b"\x80" * 11, b"\x0f\x00"]
    lines += [json.dumps({"kind": "RunStepRequest", "data": base64.b64encode(data).decode()}) for data in bad]
    done = subprocess.run(
        [client.node(), "test/echo.mjs"],
        cwd=client.built(),
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    for (_, wanted), answer in zip(cases, answers):
        found = type(wanted)()
        found.ParseFromString(base64.b64decode(answer["data"]))
        assert found == wanted
    assert [answer["error"] for answer in answers[len(cases) :]] == ["RangeError"] * len(bad)


# Programs -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_programs_on_a_task_of_a_cluster_over_tls(cluster: Cluster) -> None:
    client.run_tests("programs.test.mjs", SERVER=cluster.name, DTFCTL=DTFCTL)


@pytest.mark.slow
@pytest.mark.interop
def test_programs_on_a_stock_server(stock: str) -> None:
    client.run_tests("programs.test.mjs", SERVER=stock)


@pytest.mark.slow
def test_programs_of_a_page_through_the_dashboard(cluster: Cluster, tmp_path: Path) -> None:
    """As a browser's, over HTTP by Connect: about a job that runs."""
    script = tmp_path / "job.py"
    script.write_text("import time\nprint('begun', flush=True)\ntime.sleep(3600)\n")
    job = cluster.submit(JobRequest(str(script), replication="in-graph"))
    dashboard = Dashboard(lambda: Cluster.open(cluster.name))
    dashboard.start()
    try:
        wait_until(lambda: (dashboard.feed.known("job", job) or {}).get("state") == "running", "the page knows the job")
        base = f"http://127.0.0.1:{dashboard.port}"
        connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=60)
        connection.request("POST", "/login", json.dumps({"token": dashboard.token}), {"Origin": base})
        cookie = connection.getresponse().headers["Set-Cookie"].partition(";")[0]
        headers = json.dumps({"Cookie": cookie, "Origin": base})
        client.run_tests("programs.test.mjs", SERVER=f"{base}/rpc/{job}/worker/0", HEADERS=headers)
    finally:
        dashboard.close()
        cluster.cancel([job])


@pytest.mark.slow
def test_the_dashboard_has_the_client_as_it_is_now(tmp_path: Path) -> None:
    client.node()
    command = json.loads((client.FOLDER / "package.json").read_text())["scripts"]["bundle"]
    committed = ROOT / "dtfctl" / "dashboard" / "static" / "client.js"
    command = command.replace("../../dtfctl/dashboard/static/client.js", str(tmp_path / "client.js"))
    path = f"{client.TOOLS}:{os.environ['PATH']}"
    subprocess.run(command, shell=True, cwd=client.FOLDER, env={**os.environ, "PATH": path}, check=True, timeout=280)
    assert (tmp_path / "client.js").read_text() == committed.read_text(), "npm run bundle in clients/typescript"


@pytest.mark.slow
def test_a_task_answers_nobody_without_a_certificate(cluster: Cluster) -> None:
    address = next(task.address for task in cluster.status().tasks if task.name == "worker/0")
    client.run_tests("stranger.test.mjs", SERVER=f"grpc://{address}", CLUSTER=cluster.name)


def test_the_page_has_the_example_as_it_is() -> None:
    assert f"```js\n{EXAMPLE.read_text()}```" in (ROOT / "docs" / "typescript.md").read_text()


@pytest.mark.slow
def test_the_example_learns(cluster: Cluster, tmp_path: Path) -> None:
    folder = client.built()
    # As a program of a user's, whose packages have the client among them.
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "dtfctl-client").symlink_to(folder)
    (tmp_path / "dtfctl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dtfctl "$@"\n')
    (tmp_path / "dtfctl").chmod(0o755)
    script = tmp_path / "train.mjs"
    script.write_text(EXAMPLE.read_text())
    assert len(script.read_text().splitlines()) <= 26
    done = subprocess.run(
        [client.node(), script, cluster.name],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "exclusive or: 0 1 1 0"
