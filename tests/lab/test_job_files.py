"""Jobs that are more than one file on hosts that share no disk and reach no package index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dtfctl.launcher.api import Cluster
from dtfctl.launcher.model import JobOutput, JobRequest
from tests.lab.conftest import cluster_of
from tests.lab.netns import HOME, Lab
from tests.lab.test_up import run_job
from tests.support.wheel import make_wheel

EXAMPLE = Path(__file__).parents[2] / "examples" / "digits_mlp.py"
NOT_SENT = ("sklearn", "scikit_learn", "joblib", "threadpoolctl")


@pytest.fixture(scope="module")
def lab(make_lab: Callable[[int], Lab]) -> Lab:
    """Two hosts without what the examples need."""
    lab = make_lab(2)
    lab.lend_packages(without=NOT_SENT)
    return lab


@pytest.fixture(scope="module")
def cluster(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DTFCTL_HOME", str(tmp_path_factory.mktemp("lab") / "home"))
        made = Cluster.up(cluster_of(lab, ps=1, worker=2, slots=2, python=None)).cluster
        assert made is not None
        try:
            yield made
        finally:
            made.down(grace_s=1.0)


def test_a_folder_and_packages_reach_every_host(cluster: Cluster, lab: Lab, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "words.py").write_text("WORD = 'sent'\n")
    (project / ".dtfignore").write_text("private/\n")
    (project / "private").mkdir()
    (project / "private" / "key").write_text("stays")
    (project / "job.py").write_text(
        "import os, sys, thing, words\nprint(words.WORD, thing.VERSION, sys.prefix, os.path.exists('private'))\n"
        "open('result.txt', 'w').write(os.environ['DTF_TASK_INDEX'])\n"
    )
    requirements = project / "requirements.txt"
    requirements.write_text(f"./{make_wheel(project, 'thing', '3.1').name}\n")
    request = JobRequest(str(project / "job.py"), working_dir=str(project), requirements=(str(requirements),))
    ended, output = run_job(cluster, request)
    assert ended.state == "succeeded", (ended.reason, output)
    lines = [line.split() for line in output.splitlines() if line.startswith("sent")]
    assert [line[:2] + line[3:] for line in lines] == [["sent", "3.1", "False"]] * 2, output
    assert {Path(line[2]).parent for line in lines} == {HOME / ".dtfctl" / "environments"}
    hosts = {client.name: client.host for client in ended.clients}
    assert len(set(hosts.values())) == 2
    for number, name in enumerate(("worker/0", "worker/1")):
        work = lab.home(_name_of(lab, hosts[name])).glob(f".dtfctl/clusters/t/hosts/*/work/{ended.id}.*")
        (copy,) = (path for path in work if path.is_dir())
        assert (copy / "result.txt").read_text() == str(number), "each host has its own copy"


def test_the_readmes_example_runs_on_hosts_that_have_no_scikit_learn(cluster: Cluster, lab: Lab) -> None:
    told: list[str] = []
    job_id = cluster.submit(JobRequest(str(EXAMPLE), ("--steps", "1000")), told.append)
    items = list(cluster.follow_job(job_id))
    text = [item.line.text for item in items if isinstance(item, JobOutput)]
    assert cluster.job(job_id).state == "succeeded", text
    assert any("scikit-learn" in text for text in told), "they were collected here"
    for name in lab.names:
        assert list(lab.home(name).glob(".dtfctl/environments/*/lib/python*/site-packages/sklearn"))


def _name_of(lab: Lab, address: str) -> str:
    return next(host.name for host in lab.hosts if host.address == address)
