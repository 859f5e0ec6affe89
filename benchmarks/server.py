"""One task of a cluster: `python -m benchmarks.server RUNTIME CLUSTER JOB INDEX`; prints its target, serves.

It ends with its standard input, so that nothing outlives a run, however that ends.
"""

from __future__ import annotations

import json
import os
import sys

from benchmarks.driver import load_runtime


def main() -> None:
    runtime, cluster, job, index = sys.argv[1:5]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    tf = load_runtime(runtime)
    server = tf.train.Server(json.loads(cluster), job_name=job, task_index=int(index))
    print(json.dumps({"target": server.target}), file=answers)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
