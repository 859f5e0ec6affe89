"""Ray on this machine: an empty job, an empty task, and 32 actors."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from benchmarks.peer_programs import serve


def _nothing() -> None:
    return None


class _Task:
    def here(self) -> bool:
        return True


def main() -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    begin = time.perf_counter()
    info = ray.init(num_cpus=32, include_dashboard=True, log_to_driver=False)
    started = time.perf_counter() - begin

    nothing = ray.remote(_nothing)
    actor_class = ray.remote(num_cpus=1)(_Task)

    def job(script: str) -> dict[str, Any]:
        from ray.job_submission import JobStatus, JobSubmissionClient

        client = JobSubmissionClient(f"http://{info.dashboard_url}")
        begin = time.perf_counter()
        job_id = client.submit_job(entrypoint=f"{sys.executable} {script}")
        while (status := client.get_job_status(job_id)) not in (JobStatus.SUCCEEDED, JobStatus.FAILED):
            time.sleep(0.01)
        if status != JobStatus.SUCCEEDED:
            raise RuntimeError(f"the job ended as {status}")
        return {"times": [time.perf_counter() - begin]}

    def task() -> dict[str, Any]:
        begin = time.perf_counter()
        ray.get(nothing.remote())
        return {"times": [time.perf_counter() - begin]}

    def actors(count: int) -> dict[str, Any]:
        begin = time.perf_counter()
        made = [actor_class.remote() for _ in range(count)]
        ray.get([actor.here.remote() for actor in made])
        took = time.perf_counter() - begin
        for actor in made:
            ray.kill(actor)
        return {"times": [started + took]}

    serve({"job": job, "task": task, "actors": actors})
    ray.shutdown()


if __name__ == "__main__":
    main()
