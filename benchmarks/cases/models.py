"""Training steps with compute in them."""

from __future__ import annotations

from benchmarks.bench import Case
from benchmarks.cases.steps import JOBS, moved, trips
from benchmarks.limits import Limits
from benchmarks.rounds import StepCase


def mlp(kind: str, batch: int, hidden: int, spread: bool, goal: float) -> StepCase:
    # Forward, weight gradients; the second layer's input gradient. The first layer has no input gradient.
    flops = 4 * batch * 784 * hidden + 6 * batch * hidden * 10
    weights = 4 * (784 * hidden + hidden + hidden * 10 + 10)

    def limit(limits: Limits, transport: str) -> float:
        seconds = flops / limits.gemm_flops
        return seconds + trips(limits, 3) + moved(limits, transport, 2 * weights) if spread else seconds

    return StepCase(
        name=f"mlp-{kind}-{'ps' if spread else 'local'}",
        what=f"MLP 784-{hidden}-10, batch {batch}, SGD, {'1 ps + 1 worker' if spread else 'local'}",
        program="mlp",
        params={"batch": batch, "hidden": hidden},
        jobs=JOBS if spread else None,
        goal=goal,
        limit=limit,
        limit_is="GEMM flops" + (" + 3 round trips + the weights there and back" if spread else ""),
        bytes_moved=2 * weights if spread else 0,
        tolerance=1e-3,
    )


def _cnn_flops(batch: int) -> float:
    layers = [(28, 1, 32), (14, 32, 64), (7, 64, 64)]
    # Forward and weight gradient of all, input gradient of all but the first.
    return sum(
        2 * batch * side * side * 9 * inputs * outputs * (2 if i == 0 else 3)
        for i, (side, inputs, outputs) in enumerate(layers)
    )


CASES: list[Case] = [
    mlp("small", 64, 256, spread=False, goal=1.9),
    mlp("large", 256, 2048, spread=False, goal=1.05),
    mlp("small", 64, 256, spread=True, goal=4.0),
    mlp("large", 256, 2048, spread=True, goal=1.5),
    StepCase(
        name="cnn",
        what="CNN step, 3 convolutions and a dense layer, 32 images of 28x28, SGD, local",
        program="cnn",
        goal=1.0,
        limit=lambda limits, _: _cnn_flops(32) / limits.gemm_flops,
        limit_is="convolution flops at GEMM speed",
        tolerance=1e-3,
    ),
    StepCase(
        name="feed-add",
        what="in-process run() of feed + add",
        program="feed_add",
        goal=10.0,
    ),
    StepCase(
        name="feed-add-callable",
        what="in-process make_callable() of feed + add",
        program="feed_add",
        params={"way": "callable"},
        goal=10.0,
    ),
]
