"""A codec turns itself off on a real link that is fast, and on when that link becomes slow."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lab.netns import REPOSITORY, why_not
from tests.lab.two_networks_program import ADDRESSES

NETWORKS = {"worker": ("dtfn1", "dtfnv1"), "ps": ("dtfn2", "dtfnv2")}


def ip(*words: str, check: bool = True) -> None:
    subprocess.run(["ip", *words], check=check, capture_output=not check)


@pytest.fixture
def networks() -> Iterator[None]:
    """Two networks, joined by a pair of devices."""
    problem = why_not()
    if problem:
        pytest.skip(f"the lab of SSH hosts {problem}")
    try:
        for name, _ in NETWORKS.values():
            ip("netns", "add", name)
        (one, device), (other, peer) = NETWORKS.values()
        ip("link", "add", device, "netns", one, "type", "veth", "peer", "name", peer, "netns", other)
        for job, (name, its) in NETWORKS.items():
            ip("-n", name, "addr", "add", ADDRESSES[job].partition(":")[0] + "/24", "dev", its)
            ip("-n", name, "link", "set", its, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield
    finally:
        for name, _ in NETWORKS.values():
            ip("netns", "del", name, check=False)


def start(job: str, *words: str) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", NETWORKS[job][0], sys.executable, "-m", "tests.lab.two_networks_program", job]
    return subprocess.Popen(
        [*command, *words], cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def shape(rate: str) -> None:
    name, device = NETWORKS["worker"]
    words = ["tbf", "rate", rate, "burst", "64kb", "latency", "400ms"]
    subprocess.run(["tc", "-n", name, "qdisc", "replace", "dev", device, "root", *words], check=True)


@pytest.mark.nightly
def test_a_codec_follows_what_the_link_is_measured_to_carry(networks: None) -> None:
    with start("ps") as ps, start("worker", "topk:ratio=0.01") as worker:
        assert ps.stdin and ps.stdout and worker.stdin and worker.stdout
        ps.stdout.readline()

        def wait_until(is_on: bool) -> Any:
            assert worker.stdin and worker.stdout
            print(json.dumps(is_on), file=worker.stdin, flush=True)
            return json.loads(worker.stdout.readline())

        try:
            fast = wait_until(False)
            shape("100mbit")
            slow = wait_until(True)
        finally:
            worker.stdin.close()
            ps.stdin.close()
    assert (fast["is_on"], fast["transport"]) == (False, "tcp")
    assert slow["is_on"] and slow["bytes_s"] < fast["bytes_s"]
