"""Jobs that are more than one file, on this machine: a working folder, and packages from wheels made here."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.errors import Conflict, ScriptError, UsageError
from dtfctl.launcher.model import JobEnded, JobOutput, JobRequest, JobStatus
from tests.cluster.conftest import agent_pid, kill, processes_of, wait_until
from tests.support.wheel import make_wheel

Up = Callable[..., Cluster]


def run(cluster: Cluster, request: JobRequest) -> tuple[JobStatus, list[str]]:
    lines = []
    for item in cluster.follow_job(cluster.submit(request)):
        if isinstance(item, JobOutput):
            lines.append(item.line.text)
        elif isinstance(item, JobEnded):
            return item.status, lines
    raise AssertionError("the stream ended without the end of the job")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a script that uses a module and a data file beside it, and things that nobody wants to send."""
    root = tmp_path / "project"
    for name, text in {
        "src/train.py": "import os, sys\nthere = sorted(os.listdir('.'))\nimport helper\n"
        "print(helper.WORD, open('data.txt').read(), there)\nopen('made.txt', 'w').write('here')\n",
        "helper.py": "WORD = 'from helper'\n",
        "data.txt": "some data",
        ".gitignore": "*.log\n",
        "big.log": "x" * 100,
        ".git/config": "secret",
        "__pycache__/helper.pyc": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_a_working_folder_goes_with_the_job_and_is_its_own(up: Up, project: Path, tmp_path: Path) -> None:
    cluster = up()
    request = JobRequest(str(project / "src/train.py"), working_dir=str(project), workers=1)
    status, lines = run(cluster, request)
    assert status.state == "succeeded", (status.reason, lines)
    assert lines == ["from helper some data ['.gitignore', 'data.txt', 'helper.py', 'src']"]
    assert not (project / "made.txt").exists(), "it wrote into its own copy"
    status, lines = run(cluster, request)
    assert status.state == "succeeded", "another job has another copy"
    assert "made.txt" not in lines[0]


def test_what_was_sent_is_what_was_there_when_it_was_submitted(up: Up, project: Path) -> None:
    cluster = up()
    (project / "wait.py").write_text("import time\nwhile True:\n    time.sleep(1)\n")
    first = cluster.submit(JobRequest(str(project / "wait.py")))
    second = cluster.submit(JobRequest(str(project / "src/train.py"), working_dir=str(project), id="snapshot"))
    (project / "helper.py").write_text("WORD = 'changed since'\n")
    with pytest.raises(Conflict, match="another working folder"):
        cluster.submit(JobRequest(str(project / "src/train.py"), working_dir=str(project), id="snapshot"))
    cluster.cancel([first], grace_s=0.1)
    items = list(cluster.follow_job(second))
    text = [item.line.text for item in items if isinstance(item, JobOutput)]
    assert any("from helper" in line for line in text), text


def test_packages_come_from_wheels_without_an_index_and_once(
    up: Up, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(tmp_path / "wheels", "leafpackage", "2.5")
    top = make_wheel(tmp_path / "wheels", "toppackage", "1.0", ("leafpackage>=2",))
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"--no-index\n--find-links wheels  # here\n./wheels/{top.name}\n")
    script = tmp_path / "job.py"
    script.write_text(
        "# /// script\n# requires-python = '>=3.11'\n# dependencies = ['leafpackage']\n# ///\n"
        "import sys, numpy, toppackage, leafpackage\n"
        "print(toppackage.VERSION, leafpackage.VERSION, sys.prefix, numpy.__name__)\n"
    )
    cluster = up()
    request = JobRequest(str(script), requirements=(str(requirements),), workers=1)
    status, lines = run(cluster, request)
    assert status.state == "succeeded", (status.reason, lines)
    top_version, leaf_version, prefix, _ = lines[0].split()
    assert (top_version, leaf_version) == ("1.0", "2.5")
    assert Path(prefix).parent == home / "environments", "not the cluster's own Python"
    made = (Path(prefix) / "ready").stat().st_ino
    status, lines = run(cluster, request)
    assert status.state == "succeeded"
    assert lines[0].split()[2] == prefix and (Path(prefix) / "ready").stat().st_ino == made, "made once"

    kill(agent_pid(cluster))
    status, lines = run(cluster, request)
    assert status.state == "succeeded", "another agent finds all of it"


def test_what_is_there_needs_no_environment(up: Up, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("import sys\nprint(sys.prefix)\n")
    status, lines = run(up(), JobRequest(str(script), requirements=("numpy",), extras=("examples",), workers=1))
    assert status.state == "succeeded", status.reason
    assert "environments" not in lines[0]


def test_packages_that_cannot_be_had_fail_the_job_with_the_installers_words(up: Up, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text("print(1)\n")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("--no-index\nnosuchpackage-of-anybody==9.9\n")
    cluster = up()
    status, _ = run(cluster, JobRequest(str(script), requirements=(str(requirements),), workers=1))
    assert status.state == "failed"
    assert "nosuchpackage-of-anybody==9.9" in status.reason
    with pytest.raises(ScriptError, match="cannot be collected here"):
        cluster.submit(JobRequest(str(script), requirements=(str(requirements),), packages="ship"))


def test_mistakes_are_found_before_anything_is_queued(up: Up, tmp_path: Path, project: Path) -> None:
    cluster = up()
    script = tmp_path / "job.py"
    script.write_text("# /// script\n# dependencies = 7\n# ///\n")
    with pytest.raises(ScriptError, match=r"job.py:1: `dependencies` is not a list"):
        cluster.submit(JobRequest(str(script)))
    script.write_text("# /// script\n# requires-python = '<3.0'\n# ///\n")
    with pytest.raises(Exception, match=r"host localhost: the script wants Python <3.0"):
        cluster.submit(JobRequest(str(script)))
    script.write_text("")
    with pytest.raises(UsageError, match="does not exist"):
        cluster.submit(JobRequest(str(script), working_dir=str(tmp_path / "nowhere")))
    with (project / "weights.bin").open("wb") as file:
        os.truncate(file.fileno(), 600 * 2**20)
    with pytest.raises(UsageError, match=r"600\.0 MiB .* at most 500\.0 MiB .*weights\.bin \(600\.0 MiB\)"):
        cluster.submit(JobRequest(str(project / "src/train.py"), working_dir=str(project)))
    (project / ".dtfignore").write_text("*.bin\n")
    job_id = cluster.submit(JobRequest(str(project / "src/train.py"), working_dir=str(project)))
    wait_until(lambda: cluster.job(job_id).is_final, "it runs")
    assert [job.id for job in cluster.jobs()] == [job_id]


def test_a_job_is_cancelled_while_its_packages_are_installed_and_the_installer_ends(
    up: Up, home: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # an index that takes a question and never answers
        requirements = tmp_path / "requirements.txt"
        requirements.write_text(f"--index-url http://127.0.0.1:{silent.getsockname()[1]}/simple\nnosuchpackage\n")
        (tmp_path / "job.py").write_text("print(1)\n")
        cluster = up()
        request = JobRequest(str(tmp_path / "job.py"), requirements=(str(requirements),), packages="fetch", workers=1)
        job_id = cluster.submit(request)
        wait_until(lambda: "packages are being installed" in cluster.job(job_id).reason, "it says what it waits for")
        environments = home / "environments"
        wait_until(lambda: processes_of(environments), "the installer runs")
        assert cluster.job(job_id).state == "running"
        (ended,) = cluster.cancel([job_id], grace_s=1.0)
        assert ended.state == "cancelled"
        wait_until(lambda: not processes_of(environments), "nothing goes on for nobody")
        wait_until(lambda: not list(environments.glob("*/pyvenv.cfg")), "nothing half made is left")
