"""The process that runs programs on one runtime: `python -m benchmarks.driver RUNTIME`, in that runtime's environment.

It reads a JSON object a line and answers with one: {"do": "info"}, {"do": "load", "program", "target", "params"},
{"do": "limit", "program", "params"}, {"do": "values"}, {"do": "measure", "seconds", "most", "least"},
{"do": "unload", "target"}, which clears what all programs have left in a target's tasks. It ends with its
standard input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import sys
import time
import traceback
from typing import Any

from benchmarks.programs import Program


def load_runtime(name: str) -> Any:
    """The `tf` of a runtime: "ours" or "tensorflow"."""
    if name == "tensorflow":
        import tensorflow.compat.v1 as tf

        tf.disable_v2_behavior()
        tf.logging.set_verbosity(tf.logging.ERROR)
    else:
        tf = importlib.import_module("dtfctl.runtime")
    return tf


def _numpys_blas() -> str:
    from dtfctl.runtime.kernels.blas_in_use import blas_in_use

    return f"OpenBLAS {blas_in_use()}"


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Driver:
    """Answers commands; holds one program at a time."""

    def __init__(self, runtime: str) -> None:
        self.runtime = runtime
        self.tf = load_runtime(runtime)
        self.program: Program | None = None

    def answer(self, command: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = getattr(self, f"do_{command.pop('do')}")(**command)
        return answer

    def do_info(self) -> dict[str, Any]:
        import numpy

        # TensorFlow's own GEMM is Eigen and oneDNN inside its library; numpy's BLAS plays no part in it.
        blas = "Eigen and oneDNN" if self.runtime == "tensorflow" else _numpys_blas()
        return {
            "python": sys.version.split()[0],
            "numpy": numpy.__version__,
            # Ours says for programs of which TensorFlow it is.
            "runtime": str(getattr(sys.modules.get("dtfctl", self.tf), "__version__", "")),
            "blas": blas,
        }

    def do_load(self, program: str, target: str, params: dict[str, Any]) -> dict[str, Any]:
        module = importlib.import_module(f"benchmarks.programs.{program}")
        self.program = module.build(self.tf, target, **params)
        return {}

    def do_limit(self, program: str, params: dict[str, Any]) -> dict[str, Any]:
        """Measure what a step takes at the least: of our runtime, in a process that has run nothing yet."""
        from benchmarks.heavy import Recorder, limit_of

        recorder = Recorder()
        self.do_load(program, "", params)
        return {"seconds": limit_of(self._loaded(), recorder)}

    def do_values(self) -> dict[str, Any]:
        return {"values": self._loaded().values()}

    def do_measure(self, seconds: float, most: int, least: int = 1) -> dict[str, Any]:
        """Run steps for that long, at least `least` and at most `most`."""
        step = self._loaded().step
        clock = time.perf_counter
        times: list[float] = []
        gc.collect()
        cpu = _own_cpu()
        end = clock() + seconds
        while True:
            begin = clock()
            own = step()
            now = clock()
            times.append(now - begin if not isinstance(own, float) else own)
            if len(times) >= most or (now >= end and len(times) >= least):
                break
        cpu = _own_cpu() - cpu
        stride = max(len(times) // 2000, 1)
        return {"times": times[::stride], "steps": len(times), "cpu": cpu}

    def do_reports(self) -> dict[str, Any]:
        reports = self._loaded().reports
        return {"reports": reports() if reports is not None else {}}

    def do_unload(self, target: str) -> dict[str, Any]:
        """End the program and clear what it left in the tasks."""
        if self.program is not None:
            self.program.close()
            self.program = None
        if target:
            self.tf.Session.reset(target)
        gc.collect()
        return {}

    def _loaded(self) -> Program:
        if self.program is None:
            raise RuntimeError("no program is loaded")
        return self.program


def main() -> None:
    # Libraries may print; only answers may reach whoever reads them.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    driver = Driver(sys.argv[1])
    print("{}", file=answers)
    for line in sys.stdin:
        try:
            answer = driver.answer(json.loads(line))
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}", "traceback": traceback.format_exc()}
        print(json.dumps(answer), file=answers)


if __name__ == "__main__":
    main()
