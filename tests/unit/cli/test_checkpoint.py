"""`dtfctl checkpoint`: what checkpoints hold, in what they differ, and safetensors files of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.cli.harness import Dtfctl

pytestmark = pytest.mark.slow

safetensors: Any = pytest.importorskip("safetensors.numpy", reason="pip install safetensors")


def saved(folder: Path, step: int, w: Any, **more: Any) -> str:
    """A Saver's checkpoint of `dense/w`, `global_step` and more variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("dense/w", initializer=np.asarray(w, np.float32))
        tf.get_variable("global_step", initializer=np.int64(step), trainable=False)
        for name, value in more.items():
            tf.get_variable(name, initializer=value)
        saver = tf.train.Saver()
        saver.recover_last_checkpoints(
            [f"{folder}/m-{s}" for s in range(step) if tf.train.checkpoint_exists(f"{folder}/m-{s}")]
        )
        session.run(tf.global_variables_initializer())
        return str(saver.save(session, str(folder / "m"), global_step=step, write_meta_graph=False))


@pytest.fixture(name="dtfctl")
def with_paths(dtfctl: Dtfctl) -> Dtfctl:
    return lambda *words: dtfctl(*map(str, words))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    saved(tmp_path, 1, [[1.0, 2.0], [3.0, 4.0]])
    saved(tmp_path, 2, [[1.0, 2.0], [3.0, 4.5]])
    return tmp_path


def test_ls_says_step_size_newest_and_what_is_not_whole(dtfctl: Dtfctl, folder: Path) -> None:
    done = dtfctl("checkpoint", "ls", folder)
    assert done.code == 0
    lines = done.out.splitlines()
    assert lines[0].split() == ["CHECKPOINT", "STEP", "AGE", "SIZE", "TENSORS", "REASON"]
    assert [line.split()[0].rpartition("/")[2] for line in lines[1:]] == ["m-1", "m-2"]
    assert [line.endswith("newest") for line in lines[1:]] == [False, True]
    os.unlink(folder / "m-1.data-00000-of-00001")
    done = dtfctl("checkpoint", "ls", folder, "-o", "json")
    assert done.code == 1
    assert [item["problem"] for item in done.json["checkpoints"]] == ["0 of 1 data files are there", ""]
    assert [item["step"] for item in done.json["checkpoints"]] == [None, 2]


@pytest.mark.parametrize(
    ("child", "number", "says"),
    [("step", None, 700), ("at", None, 700), ("weights", None, None), ("weights", 40, 40)],
    ids=["called step", "of the graph", "without", "without, numbered by the program"],
)
def test_the_step_of_a_managers_checkpoint_is_not_how_often_it_has_saved(
    dtfctl: Dtfctl, tmp_path: Path, child: str, number: int | None, says: int | None
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        made = {
            "step": lambda: tf.get_variable("count", initializer=np.int64(700)),
            "at": lambda: tf.get_variable("global_step", initializer=np.int64(700)),
            "weights": lambda: tf.get_variable("w", initializer=np.float32(700)),
        }
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(**{child: made[child]()}), str(tmp_path), 2)
        manager.checkpoint.save_counter  # noqa: B018
        session.run(tf.global_variables_initializer())
        saved = manager.save(checkpoint_number=number)
    assert [item["step"] for item in dtfctl("checkpoint", "ls", tmp_path, "-o", "json").json["checkpoints"]] == [says]
    file = tmp_path / "all.safetensors"
    assert dtfctl("checkpoint", "convert", saved, file).code == 0
    assert dtfctl("checkpoint", "show", saved, "-o", "json").json["step"] == says


def test_show_takes_a_folder_a_prefix_or_a_file_of_one(dtfctl: Dtfctl, folder: Path) -> None:
    for path in (folder, folder / "m-2", folder / "m-2.index", folder / "m-2.data-00000-of-00001"):
        done = dtfctl("checkpoint", "show", path)
        assert done.code == 0 and done.out.startswith(f"{folder}/m-2: 2 tensors, 24B, step 2\n")
        assert ["dense/w", "float32", "2x2", "16B"] in [line.split() for line in done.out.splitlines()]


def test_show_sums_up_the_tensors_that_are_named(dtfctl: Dtfctl, tmp_path: Path) -> None:
    prefix = saved(tmp_path, 3, [[np.nan, -2.0], [np.inf, 4.0]], words=np.array([b"one", b"\xff"]))
    found = dtfctl("checkpoint", "show", prefix, "dense/*", "words", "-o", "json").json
    numbers, words = found["tensors"]
    assert {k: numbers[k] for k in ("nan", "infinite", "zero", "min", "max", "mean", "std")} == {
        "nan": 1, "infinite": 1, "zero": 0, "min": -2.0, "max": 4.0, "mean": 1.0, "std": 3.0,
    }  # fmt: skip
    assert numbers["first"] == ["nan", -2.0, "inf", 4.0]
    assert words["first"] == ["one", "\\xff"] and words["bytes"] is None
    done = dtfctl("checkpoint", "show", prefix, "dens")
    assert done.code == 4 and "No tensor's name fits 'dens'" in done.err


def test_diff_compares_every_value(dtfctl: Dtfctl, folder: Path) -> None:
    one, two = folder / "m-1", folder / "m-2"
    done = dtfctl("checkpoint", "diff", one, two, "-o", "json")
    assert done.code == 1
    weights, step = done.json["differences"]
    assert (weights["name"], weights["kind"], weights["count"], weights["largest"]) == ("dense/w", "values", 1, 0.5)
    assert step["name"] == "global_step"
    assert dtfctl("checkpoint", "diff", one, one).code == 0
    assert dtfctl("checkpoint", "diff", one, two, "--atol", "1").code == 0
    assert dtfctl("checkpoint", "diff", one, two, "--rtol", "0.125").code == 1, "the step is another by all of it"


def test_diff_tells_names_types_and_shapes_apart_and_nan_from_nothing(dtfctl: Dtfctl, tmp_path: Path) -> None:
    first = saved(tmp_path / "a", 5, [np.nan, 1.0], x=np.int64(2**62), only=np.float32(1), s=np.array([b"q"]))
    second = saved(tmp_path / "b", 5, [np.nan, np.inf], x=np.int64(2**62 + 1), more=np.float32(1), s=np.array([b"r"]))
    found = dtfctl("checkpoint", "diff", first, second, "-o", "json").json["differences"]
    assert {item["name"]: (item["kind"], item["what"].split(",")[0]) for item in found} == {
        "dense/w": ("values", "1 of 2"),
        "only": ("missing", "float32 []"),
        "s": ("values", "1 of 1"),
        "x": ("values", "1 of 1"),
        "more": ("added", "float32 []"),
    }
    third = saved(tmp_path / "c", 5, [[1.0]], x=np.float32(1))
    found = dtfctl("checkpoint", "diff", first, third, "-o", "json").json["differences"]
    kinds = {item["name"]: item["kind"] for item in found}
    assert kinds["dense/w"] == "shape" and kinds["x"] == "type"


def test_safetensors_files_there_and_back(dtfctl: Dtfctl, tmp_path: Path) -> None:
    half, flags = np.array([1.5, -2.0], ml_dtypes.bfloat16), np.array([[True], [False]])
    prefix = saved(tmp_path, 7, [[1.0, 2.0]], half=half, flags=flags, none=np.zeros((0, 3), np.int8))
    file, back = tmp_path / "m.safetensors", tmp_path / "back"
    done = dtfctl("checkpoint", "convert", prefix, file)
    assert done.code == 0 and done.out == f"{file}: 5 tensors of {prefix}\n"
    found = safetensors.load_file(file)
    assert found["half"].dtype == half.dtype and (found["half"] == half).all()
    assert found["dense/w"].tolist() == [[1.0, 2.0]] and found["global_step"].shape == ()
    assert os.stat(file).st_mode & 0o777 == os.stat(f"{prefix}.index").st_mode & 0o777
    assert dtfctl("checkpoint", "convert", file, back).code == 0
    assert dtfctl("checkpoint", "diff", prefix, back).code == 0
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("dense/w", [1, 2])
        tf.train.Saver().restore(session, str(back))
        assert session.run(w).tolist() == [[1.0, 2.0]]
    assert {path.name for path in tmp_path.iterdir()} >= {"m.safetensors", "back.index"}
    assert not [path for path in tmp_path.iterdir() if "tempstate" in path.name]


def test_objects_of_a_checkpoint_come_back_from_safetensors(dtfctl: Dtfctl, tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable([1.0, 2.0], use_resource=True)
        session.run(variable.initializer)
        path = tf.train.Checkpoint(weights=variable).write(str(tmp_path / "objects"), session)
        assert dtfctl("checkpoint", "convert", path, tmp_path / "o.safetensors").code == 0
        assert dtfctl("checkpoint", "convert", tmp_path / "o.safetensors", tmp_path / "again").code == 0
        other = tf.Variable([0.0, 0.0], use_resource=True)
        status = tf.train.Checkpoint(weights=other).restore(str(tmp_path / "again"))
        status.assert_consumed().run_restore_ops(session)
        assert session.run(other).tolist() == [1.0, 2.0]


def test_what_has_no_place_in_safetensors_is_named_and_can_be_left_out(dtfctl: Dtfctl, tmp_path: Path) -> None:
    prefix = saved(tmp_path, 1, [1.0], words=np.array([b"a"]), big=np.complex128(1j))
    file = tmp_path / "m.safetensors"
    done = dtfctl("checkpoint", "convert", prefix, file)
    assert done.code == 7 and "'big' (complex128), 'words' (string)" in done.err and "--without" in done.err
    assert not file.exists()
    assert dtfctl("checkpoint", "convert", prefix, file, "--without", "words", "--without", "big").code == 0
    assert dtfctl("checkpoint", "convert", prefix, file, "--only", "dense/*").code == 7, "it is there already"
    assert dtfctl("checkpoint", "convert", prefix, file, "--only", "dense/*", "--force").code == 0
    assert [*safetensors.load_file(file)] == ["dense/w"]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["show", "nowhere"], 4, "there is no such checkpoint"),
        (["show", "nowhere.safetensors"], 4, "No such file"),
        (["ls", "nowhere"], 4, "No such file"),
        (["show", "empty"], 4, "has no file `checkpoint`"),
        (["diff", "bad.safetensors", "bad.safetensors"], 7, "is no whole safetensors file"),
        (["diff", "one"], 2, "It is `checkpoint diff PATH PATH`"),
        (["look"], 2, "There are `checkpoint ls [FOLDER]`"),
        (["show", "bad.safetensors", "--force"], 2, "go with `checkpoint convert` only"),
        (["ls", "--atol", "1"], 2, "go with `checkpoint diff` only"),
    ],
)
def test_what_cannot_be_done_is_said(
    dtfctl: Dtfctl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.safetensors").write_bytes(json.dumps({"not": "one"}).encode() * 3)
    done = dtfctl("checkpoint", *words)
    assert (done.code, done.out) == (code, "") and said in done.err and "Traceback" not in done.err
