"""Command lines of torchrun as jobs."""

from __future__ import annotations

import pytest

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.torchrun import read


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("train.py", "--framework torch --workers 1 train.py"),
        ("--standalone --nproc-per-node=4 train.py --lr 0.1", "--framework torch --workers 4 train.py --lr 0.1"),
        (
            "--nnodes=2 --nproc_per_node 8 --rdzv-backend c10d --rdzv-endpoint=h:29400 --rdzv_id 1 a/b.py -x",
            "--framework torch --workers 16 a/b.py -x",
        ),
        (
            "--nnodes 1:4 --nproc-per-node 2 --max-restarts=3 train.py",
            "--framework torch --workers 8 --min-workers 2 --retries 3 train.py",
        ),
        ("--nproc-per-node=gpu --numa-binding=node t.py", "--framework torch t.py"),
        ("-r 3 -t=1 --shutdown-timeout 9 --duplicate-stderr-filters a t.py", "--framework torch --workers 1 t.py"),
        (
            "--node_rank=0 --master_addr=h --master_port=1 t.py --nnodes 7",
            "--framework torch --workers 1 t.py --nnodes 7",
        ),
    ],
)
def test_a_command_line_of_torchrun_is_a_job(line: str, words: str) -> None:
    assert " ".join(read(line.split()).words) == words


def test_what_the_cluster_knows_itself_is_named() -> None:
    assert read(["--rdzv-id=7", "--tee", "3", "t.py"]).ignored == ("--rdzv-id", "--tee")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("--nproc-per-node=2", "no script"),
        ("-m pkg.train", "cannot be taken over"),
        ("--no-python t.sh", "cannot be taken over"),
        ("--virtual-local-rank t.py", "cannot be taken over"),
        ("--nproc-per-node=two t.py", "is no number"),
        ("--nnodes=1:4 --nproc-per-node=auto t.py", "has to be known"),
        ("--nnodes", "needs a value"),
        ("--nnodes=4:2 t.py", "ends before"),
        ("--nnodes=1: t.py", "is no number"),
        ("--wrong 1 t.py", "no `--wrong`"),
    ],
)
def test_what_cannot_be_taken_over_is_refused(line: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        read(line.split())
