"""Fused kernels as docs/custom-ops.md shows them: by numpy, numba, C and CUDA source, run instead of the ops."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf
from dtfctl.protocol import config_pb2
from dtfctl.runtime.client import targets
from dtfctl.runtime.compiler.passes.fuse import PATTERNS
from dtfctl.runtime.framework.device import Device
from dtfctl.runtime.framework.device_spec import device_name
from dtfctl.runtime.framework.resource_manager import ResourceManager
from tests.doubles.fake_cupy import compiler, fake_cupy
from tests.support.pages import c_code, c_command, fused_code

OFF = tf.GraphOptions(rewrite_options={"remapping": 2})  # RewriterConfig.OFF
draw = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def only_those_of_the_test() -> Iterator[None]:
    before = {op: [*found] for op, found in PATTERNS.items()}
    yield
    PATTERNS.clear()
    PATTERNS.update(before)


def of_page(op: str) -> dict[str, Any]:
    """Run the page's code of an op; what it defines."""
    scope: dict[str, Any] = {}
    exec(compile(fused_code(op), f"{op} of custom-ops.md", "exec"), scope)
    return scope


def run(fetch: Any, feeds: Any, **config: Any) -> tuple[Any, dict[str, str]]:
    """A step's value, and the ops that ran with the device of each."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True, **config)) as session:
        value = session.run(fetch, feeds, options=options, run_metadata=metadata)
    return value, {
        node.timeline_label.split(" = ")[1].split("(")[0]: device.device
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if " = " in node.timeline_label
    }


def check(op: str, pattern: Callable[..., Any], *shapes: tuple[int, ...], kind: Any = np.float32) -> None:
    """Hold what a graph of the pattern gives with the kernel to what it gives without, for some shapes in turn."""
    values = [draw.normal(size=shape).astype(kind) for shape in shapes]
    with tf.Graph().as_default():
        fed = [tf.placeholder(kind, [None] * len(shape)) for shape in shapes]
        y = tf.identity(pattern(*fed), name="y")
        found, ran = run(y, dict(zip(fed, values)))
        plain, without = run(y, dict(zip(fed, values)), graph_options=OFF)
    assert op in ran and op not in without
    assert len(ran) < len(without), "the ops of the pattern are gone"
    np.testing.assert_allclose(found, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_by_numpy(kind: Any) -> None:
    page = of_page("SquaredDistances")
    check("SquaredDistances", page["squared_distances"], (50, 7), (9, 7), kind=kind)


def test_by_numba() -> None:
    pytest.importorskip("numba", reason="needs numba (the fast extra)")
    page = of_page("L1Distances")
    check("L1Distances", page["l1_distances"], (50, 7), (9, 7))
    check("L1Distances", page["l1_distances"], (5, 3), (0, 3), kind=np.float64)
    with tf.Graph().as_default(), tf.Session() as session:
        three = tf.placeholder(tf.float32, [None] * 3)
        with pytest.raises(tf.errors.OpError, match="L1Distances"):
            session.run(page["l1_distances"](three, three), {three: np.ones((2, 2, 2))})


def test_by_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cffi", reason="needs cffi")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "norms.c").write_text(c_code())
    monkeypatch.chdir(tmp_path)
    subprocess.run(c_command(), check=True)
    of_page("RowNorms")
    check("RowNorms", lambda x: tf.reduce_sum(tf.square(x), axis=1), (50, 7))
    check("RowNorms", lambda x: tf.reduce_sum(tf.square(tf.transpose(x)), axis=1), (7, 50))


@pytest.fixture
def one_gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU that is a stand-in: cupy's, and in each session."""
    if compiler() is None:
        pytest.skip("needs g++ to run CUDA sources without a GPU")
    cupy = fake_cupy()

    def find(job: str, task: int, config: config_pb2.ConfigProto) -> list[Device]:
        # Not the one that is current by itself, so that all that touches it must say that it does.
        name = device_name(job, task, "GPU", 0)
        return [Device(name, resources=ResourceManager(job), array_module=cupy, physical_index=1)]

    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(targets, "find_gpus", find)
    return cupy


def test_by_cuda_source(one_gpu: Any) -> None:
    page = of_page("MyGelu")
    check("MyGelu", page["gelu"], (300, 5))
    check("MyGelu", lambda x: page["gelu"](tf.transpose(x)), (5, 300))
    check("MyGelu", page["gelu"], (0, 5))
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None])
        with tf.device("/gpu:0"):
            y = page["gelu"](x)
        _, ran = run(y, {x: [1.0]})
        assert "GPU" in ran["MyGelu"]
        with tf.device("/cpu:0"):
            y = page["gelu"](x)
        _, ran = run(y, {x: [1.0]})
        assert "MyGelu" not in ran, "it has no kernel there"
        tf.register_fused(
            "MyGelu",
            pattern=page["gelu"],
            kernel=lambda build: lambda x: 0.5 * x * (1 + np.tanh(np.float32(0.7978845608) * (x + 0.044715 * x**3))),
            types=[tf.float32],
        )
        value, ran = run(y, {x: [1.0]})
        assert "CPU" in ran["MyGelu"]
        np.testing.assert_allclose(value, [0.841192], rtol=1e-5)


@pytest.mark.slow
def test_the_cuda_source_compiles_for_a_real_gpu(one_gpu: Any) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and nvidia-cuda-nvrtc (the dev extra)")
    from tests.support.nvrtc import compile_cubin

    cubin, _ = compile_cubin(of_page("MyGelu")["source"], "sm_90")
    assert cubin[:4] == b"\x7fELF"
