"""The program `dtfctl` in a process of its own, with stub tasks that need no runtime."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import textwrap
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from dtfctl.cli.app import run
from dtfctl.launcher import api
from dtfctl.launcher.spec.model import ClusterSpec
from tests.cluster.conftest import STUB, STUB_COMMAND

SPEC = "cluster: cli\ntasks: {ps: 1, worker: 2}\n"
PROGRAM = f"""
import sys
from dtfctl.launcher.api import Cluster
from dtfctl.cli.main import main
real_up = Cluster.up
Cluster.up = lambda spec, **options: real_up(spec, task_command=(sys.executable, {str(STUB)!r}), **options)
main()
"""


class StubLauncher:
    """`dtfctl.launcher.api`, but tasks are stubs."""

    clusters = staticmethod(api.clusters)

    class Cluster(api.Cluster):
        @classmethod
        def up(cls, spec: ClusterSpec, **options: Any) -> api.UpResult:
            return super().up(spec, **{"task_command": STUB_COMMAND, **options})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *arguments]


@dataclass
class Shell:
    """A folder in which `dtfctl` is run, and its environment."""

    folder: Path
    env: dict[str, str]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it to its end within this process, which saves the start of an interpreter."""
        out, err = io.StringIO(), io.StringIO()
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            with mock.patch.dict(os.environ, self.env), redirect_stdout(out), redirect_stderr(err):
                code = run(arguments, StubLauncher)
        finally:
            os.chdir(before)
        assert "Traceback" not in err.getvalue(), err.getvalue()
        return subprocess.CompletedProcess(list(arguments), code, out.getvalue(), err.getvalue())

    def process(
        self, *arguments: str, stdin: bytes | None = None, timeout: float = 60.0
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it to its end in a process of its own."""
        return subprocess.run(
            command(*arguments), cwd=self.folder, env=self.env, input=stdin, capture_output=True, timeout=timeout
        )

    def json(self, *arguments: str) -> Any:
        done = self(*arguments, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
        """Run it in the background with pipes."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command(*arguments), cwd=self.folder, env=self.env, **(pipes | options))

    def script(self, text: str, name: str = "job.py") -> str:
        path = self.folder / name
        path.write_text(textwrap.dedent(text))
        return str(path)
