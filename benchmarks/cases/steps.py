"""Steps that are nothing but steps: latency, transfers between tasks, parameter-server updates."""

from __future__ import annotations

from benchmarks.bench import Case
from benchmarks.limits import Limits
from benchmarks.rounds import StepCase
from benchmarks.transports import TRANSPORTS, WITH_TLS

JOBS = {"ps": 1, "worker": 2}
MB = 1_000_000


def trips(limits: Limits, count: float) -> float:
    """That many socket round trips."""
    return count * limits.unix_round_trip_s


def moved(limits: Limits, transport: str, copies: float) -> float:
    """Bytes moved between processes: by memory where that is possible, over sockets where a transport wants that."""
    return copies / (limits.memcpy_bytes_s if transport in ("", "shm") else limits.tcp_bytes_s)


def size_text(size: int) -> str:
    return f"{size // MB} MB" if size >= MB else f"{size} B"


def recv(size: int, goal: float, goals: dict[str, float], quick: bool) -> StepCase:
    return StepCase(
        name=f"recv-{size_text(size).replace(' ', '')}",
        what=f"Recv of {size_text(size)} from another process",
        program="recv",
        params={"elements": max(size // 4, 1)},
        jobs=JOBS,
        goal=goal,
        goals=goals,
        limit=lambda limits, transport: trips(limits, 2) + (moved(limits, transport, size) if transport else 0.0),
        limit_is="2 socket round trips, and the bytes through loopback TCP where they do not lie in shared memory",
        bytes_moved=size,
        transports=WITH_TLS,
        quick=quick,
    )


def dense(size: int, goal: float, goals: dict[str, float], quick: bool, computed: bool = False) -> StepCase:
    def limit(limits: Limits, transport: str) -> float:
        return trips(limits, 3) + moved(limits, transport, (3 if transport in ("", "shm") else 4) * size)

    return StepCase(
        name=f"dense-{'computed-' if computed else ''}{size_text(size).replace(' ', '')}",
        what=f"dense ps step of {size_text(size)}, 1 ps + 2 workers{', gradients computed' if computed else ''}",
        program="ps_step",
        params={"elements": max(size // 4, 1), "computed": computed},
        jobs=JOBS,
        goal=goal,
        goals=goals,
        limit=limit,
        limit_is="3 round trips + 2 pulls and 2 pushes over TCP, or 3 passes over shared memory",
        bytes_moved=4 * size,
        transports=() if computed else WITH_TLS,
        quick=quick,
    )


def sparse(size: int, rows: int, quick: bool, full: bool = False) -> StepCase:
    text = f"{size >> 20} MB" if size < 1 << 30 else f"{size >> 30} GB"
    return StepCase(
        name=f"sparse-{text.replace(' ', '')}-{rows}",
        what=f"sparse ps step, {rows} rows of a table of {text}, 2 workers",
        program="sparse_step",
        params={"table_bytes": size, "rows": rows},
        jobs=JOBS,
        goal=10.0,
        limit=lambda limits, _: trips(limits, 4) + 4 * rows * 256 / limits.memcpy_bytes_s,
        limit_is="4 round trips + the rows",
        quick=quick,
        full=full,
    )


CASES: list[Case] = [
    StepCase(
        name="null-step",
        what="null step, 3 tasks",
        program="null_step",
        jobs=JOBS,
        goal=5.0,
        limit=lambda limits, _: trips(limits, 2),
        limit_is="2 socket round trips",
        transports=TRANSPORTS,
    ),
    StepCase(
        name="scalar-ps",
        what="scalar synchronous ps step, 1 ps + 2 workers",
        program="ps_step",
        params={"elements": 1},
        jobs=JOBS,
        goal=15.0,
        limit=lambda limits, _: trips(limits, 3),
        limit_is="3 socket round trips",
        transports=TRANSPORTS,
    ),
    recv(4, 10.0, {}, quick=True),
    recv(1 * MB, 6.0, {"tcp": 2.5}, quick=True),
    recv(100 * MB, 6.0, {"tcp": 2.5}, quick=True),
    dense(1 * MB, 10.0, {"tcp": 3.0}, quick=True),
    dense(16 * MB, 10.0, {"tcp": 3.0}, quick=False),
    dense(100 * MB, 10.0, {"tcp": 3.0}, quick=True),
    dense(100 * MB, 10.0, {}, quick=False, computed=True),
    sparse(64 << 20, 32, quick=True),
    sparse(256 << 20, 32, quick=False),
    sparse(1 << 30, 32, quick=False),
    sparse(4 << 30, 32, quick=False, full=True),
    sparse(64 << 20, 4096, quick=False),
    sparse(1 << 30, 4096, quick=False),
    StepCase(
        name="stock-client",
        what="stock TensorFlow client, feed + add, against our server and TensorFlow's",
        program="feed_add",
        jobs=JOBS,
        goal=0.7,
        limit=lambda limits, _: limits.tcp_round_trip_s,
        limit_is="1 TCP round trip",
        client="tensorflow",
    ),
]
