"""Run by the stock TensorFlow client: every golden case through a session of ours; prints what went wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

DATA = Path(__file__).resolve().parent.parent / "golden" / "data"


def check(case: dict[str, Any], fetch: str, got: Any, want: Any) -> None:
    got = np.asarray(got)
    if want.dtype.kind == "S":
        got, want = got.astype(object).reshape(-1).tolist(), want.astype(object).reshape(-1).tolist()
        if any("Summary" in op for op in case["ops"]):
            got, want = ([tf.Summary.FromString(v) for v in side] for side in (got, want))
        assert got == want, fetch
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (fetch, got.dtype, got.shape)
    if want.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, case["rtol"], case["atol"])


def run(case: dict[str, Any], target: str) -> None:
    graph = tf.Graph()
    with graph.as_default():
        proto = tf.GraphDef.FromString((DATA / case["group"] / f"{case['name']}.pb").read_bytes())
        tf.import_graph_def(proto, name="")
    config = tf.ConfigProto(isolate_session_state=True, operation_timeout_in_ms=60_000)
    with tf.Session(target, graph=graph, config=config) as session:
        arrays = np.load(DATA / case["group"] / f"{case['name']}.npz")
        for i, step in enumerate(case["steps"]):
            feeds = {name: arrays[f"s{i}_feed{j}"] for j, name in enumerate(step["feeds"])}
            values, _ = session.run((step["fetches"], [graph.get_operation_by_name(t) for t in step["targets"]]), feeds)
            for j, (fetch, value) in enumerate(zip(step["fetches"], values)):
                check(case, fetch, value, arrays[f"s{i}_want{j}"])


def main() -> int:
    tf.disable_v2_behavior()
    cases = json.loads((DATA / "cases.json").read_text())
    failed = 0
    for case in cases:
        try:
            run(case, sys.argv[1])
        except Exception as e:
            failed += 1
            print(f"{case['name']}: {type(e).__name__}: {str(e)[:300]}")
    print(f"{len(cases) - failed} of {len(cases)} cases")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
