"""`file://` URIs name files; other schemes are refused by name. Nothing lands in a folder called `file:`."""

from __future__ import annotations

from pathlib import Path

import pytest

import dtfctl.runtime as tf
from dtfctl.runtime.framework.local_path import local_path


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        ("file:///a/b", "/a/b"),
        ("file://localhost/a/b", "/a/b"),
        ("file:/a", "file:/a"),
        ("1x://a", "1x://a"),
        ("a b://c", "a b://c"),
    ],
)
def test_the_path_of_a_name(name: str, path: str) -> None:
    assert local_path(name) == path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_saver_writes_and_reads_through_a_uri(folder: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.Variable([1.0, 2.0], name="v")
        saver = tf.train.Saver()
        session.run(tf.global_variables_initializer())
        saver.save(session, f"file://{folder}/model", write_meta_graph=False)
        assert {"model.index", "model.data-00000-of-00001"} <= {path.name for path in folder.iterdir()}
        assert not (folder / "file:").exists()
        session.run(variable.assign([0.0, 0.0]))
        newest = tf.train.latest_checkpoint(f"file://{folder}")
        assert newest == f"file://{folder}/model"
        saver.restore(session, newest)
        assert session.run(variable).tolist() == [1.0, 2.0]
        with pytest.raises(tf.errors.UnimplementedError, match="File system scheme 'gs' not implemented"):
            saver.save(session, "gs://bucket/model", write_meta_graph=False)
        assert not (folder / "gs:").exists()


def test_file_ops_take_uris(folder: Path) -> None:
    uri = f"file://{folder}/sub/x.txt"
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.write_file(uri, b"hello"))
        assert (folder / "sub" / "x.txt").read_bytes() == b"hello"
        assert session.run(tf.read_file(uri)) == b"hello"
        assert session.run(tf.matching_files(f"file://{folder}/sub/*.txt")).tolist() == [uri.encode()]
        for op in (tf.read_file("s3://b/x"), tf.write_file("s3://b/x", b""), tf.matching_files("s3://b/*")):
            with pytest.raises(tf.errors.UnimplementedError, match="File system scheme 's3' not implemented"):
                session.run(op)


def test_datasets_read_uris(folder: Path) -> None:
    (folder / "lines").write_text("a\nb\n")
    with tf.Graph().as_default(), tf.Session() as session:
        item = tf.data.TextLineDataset(f"file://{folder}/lines").make_one_shot_iterator().get_next()
        assert [session.run(item), session.run(item)] == [b"a", b"b"]


def test_what_is_matched_in_the_folder_at_hand_has_a_dot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As TensorFlow's names of files have, which programs print and read by."""
    (tmp_path / "sub").mkdir()
    for name in ("a.txt", "b.txt", "sub/c.txt"):
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path)
    assert tf.gfile.Glob("*.txt") == tf.gfile.Glob("./*.txt") == ["./a.txt", "./b.txt"]
    assert tf.gfile.Glob(["sub/*.txt", "a.txt", "no*"]) == ["sub/c.txt", "a.txt"]
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.data.Dataset.list_files("*.txt", shuffle=False).make_one_shot_iterator().get_next()
        found = session.run([tf.matching_files("*.txt"), tf.matching_files("sub/*.txt"), files])
    assert [v.tolist() if hasattr(v, "tolist") else v for v in found] == [
        [b"./a.txt", b"./b.txt"],
        [b"sub/c.txt"],
        b"./a.txt",
    ]
