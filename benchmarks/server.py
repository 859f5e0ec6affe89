"""One task of a cluster: `python -m benchmarks.server RUNTIME CLUSTER JOB INDEX`; prints its target, serves.

It ends with its standard input, so that nothing outlives a run, however that ends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from benchmarks.driver import load_runtime
from benchmarks.transports import CLUSTER, TLS_VARIABLE


def serve_with_certificates(addresses: dict[str, list[str]], job: str, index: int, folder: Path) -> str:
    """Serve a task as the launcher does: peers with certificates, clients of this host through a socket; the target."""
    from dtfctl.launcher.identity.certificates import ensure_certificate
    from dtfctl.runtime.services.server import TaskServer, TaskServerConfig, TlsFiles

    files = ensure_certificate(folder, CLUSTER, "task", f"{job}/{index}")
    state = folder / f"{job}-{index}-{os.getpid()}"
    state.mkdir()
    server = TaskServer(
        TaskServerConfig(
            cluster={name: dict(enumerate(tasks)) for name, tasks in addresses.items()},
            job_name=job,
            task_index=index,
            incarnation=1,
            listen=addresses[job][index],
            socket_path=state / "task.sock",
            tls=TlsFiles(files.ca, files.cert, files.key),
        )
    )
    server.start()
    return f"unix:{server.config.socket_path}"


def main() -> None:
    runtime, cluster, job, index = sys.argv[1:5]
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    addresses: dict[str, list[str]] = json.loads(cluster)
    folder = os.environ.get(TLS_VARIABLE)
    if folder:
        target = serve_with_certificates(addresses, job, int(index), Path(folder))
    else:
        tf = load_runtime(runtime)
        config = tf.ConfigProto()
        # TensorFlow's tasks each lead groups of their own unless they are told who does.
        config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        server = tf.train.Server(addresses, job_name=job, task_index=int(index), config=config)
        target = server.target
    print(json.dumps({"target": target}), file=answers)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
