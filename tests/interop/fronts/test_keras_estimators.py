"""Estimators of Keras's models find here what they find with TensorFlow: losses, names, metrics, predictions.

What TensorFlow 2.15 found, the last that has them, is in golden_keras_estimators.json; with DTF_TEST_TENSORFLOW_2_15
set it is asked again, and evaluates what was trained here; DTF_TEST_RECORD=1 then replaces the golden results.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import dtfctl.runtime as tf
from tests.interop.fronts.keras_estimators import PROGRAMS, evaluated, run
from tests.interop.fronts.test_fronts import close

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_keras_estimators.json"


@pytest.fixture(autouse=True)
def _default_graph() -> Iterator[None]:
    yield
    tf.keras.backend.clear_session()


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_estimator_of_a_model_finds_what_it_finds_with_tensorflow(name: str, tmp_path: Path) -> None:
    if name == "from_file":
        pytest.importorskip("h5py")
    want = json.loads(GOLDEN.read_text())[name]
    have = json.loads(json.dumps(run(tf, name, str(tmp_path))))
    assert have.keys() == want.keys()
    for key in want:
        assert close(have[key], want[key]), (key, have[key], want[key])


def test_what_cannot_be_made_again_is_refused(tmp_path: Path) -> None:
    class Own(tf.keras.Model):  # type: ignore[name-defined, misc]
        def call(self, inputs: object) -> object:
            return inputs

    model = Own()
    model.compile("sgd", "mse")
    with pytest.raises(NotImplementedError, match="model_fn"):
        tf.keras.estimator.model_to_estimator(model, model_dir=str(tmp_path))
    whole = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))])
    whole.compile("sgd", "mse", metrics=["mae"])
    with pytest.raises(NotImplementedError, match="save_weights"):
        tf.keras.estimator.model_to_estimator(whole, model_dir=str(tmp_path), checkpoint_format="checkpoint")


def test_live(tmp_path: Path) -> None:
    """TensorFlow still finds what is golden, and each evaluates what the other has trained."""
    python = os.environ.get("DTF_TEST_TENSORFLOW_2_15")
    if not python:
        pytest.skip("set DTF_TEST_TENSORFLOW_2_15 to the python of an environment with tensorflow==2.15")
    ours = tmp_path / "ours"
    ours.mkdir()
    mine = run(tf, "sequential", str(ours))
    subprocess.run(
        [python, "-m", "tests.interop.fronts.keras_estimators", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=HERE.parent.parent.parent,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
        timeout=600,
    )
    theirs = json.loads((tmp_path / "found.json").read_text())
    if os.environ.get("DTF_TEST_RECORD"):
        GOLDEN.write_text(json.dumps({name: theirs[name] for name in PROGRAMS}, indent=1) + "\n")
    golden = json.loads(GOLDEN.read_text())
    for name in PROGRAMS:
        assert close(theirs[name], golden[name]), name
    assert mine["again"] == theirs["evaluated"]["global_step"] == 8
    tf.keras.backend.clear_session()
    assert close(evaluated(tf, str(tmp_path / "theirs" / "sequential")), theirs["evaluated theirs"])
    assert close(evaluated(tf, str(ours)), theirs["evaluated"])
