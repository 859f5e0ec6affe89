"""Manifests for Kubernetes: by its schemas, by what the pods' programs read, and by what there is no way to give."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import asyncssh
import kubernetes_validate
import pytest
import yaml

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.operator.kubernetes import KEY_NAMES, KEYS, SSH_PORT, Wanted, as_text
from dtfctl.launcher.spec.load import parse_spec

SPEC = """
cluster: vision
hosts: {main: {names: "node[1-3]", slots: 4, gpus: 2}}
tasks: {ps: 1, worker: 6}
metrics: {port: 9464}
checkpoints: {copies: 2}
"""
RELEASES = ("1.31", "1.37")


def documents(text: str = SPEC, **options: Any) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(as_text(parse_spec(text), Wanted("example.org/dtfctl:1", **options))))


def found(made: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (one,) = [item for item in made if (item["kind"], item["metadata"]["name"]) == (kind, name)]
    return one


@pytest.mark.parametrize("release", RELEASES)
def test_manifests_pass_the_schemas_of_kubernetes(release: str) -> None:
    made = documents(namespace="ml")
    for manifest in made:
        kubernetes_validate.validate(manifest, release, strict=True)
    assert [item["kind"] for item in made].count("StatefulSet") == 2
    assert {item["metadata"]["namespace"] for item in made} == {"ml"}
    made[2]["spec"]["replica"] = 3
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made[2], release, strict=True)


def test_pods_find_each_other_and_what_they_read() -> None:
    made = documents()
    hosts = found(made, "StatefulSet", "vision-hosts")
    headless = found(made, "Service", "vision-hosts")
    assert headless["spec"]["clusterIP"] == "None"
    for item in made:
        if item["kind"] == "StatefulSet":
            assert item["spec"]["serviceName"] == headless["metadata"]["name"]
            labels = item["spec"]["template"]["metadata"]["labels"]
            assert item["spec"]["selector"]["matchLabels"] == labels
            pod = item["spec"]["template"]["spec"]
            assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
            (container,) = pod["containers"]
            assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
            volumes = {volume["name"] for volume in pod["volumes"]}
            volumes |= {claim["metadata"]["name"] for claim in item["spec"]["volumeClaimTemplates"]}
            assert {mount["name"] for mount in container["volumeMounts"]} == volumes
    assert headless["spec"]["selector"] == hosts["spec"]["template"]["metadata"]["labels"]
    (container,) = hosts["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "2"}

    spec = parse_spec(found(made, "ConfigMap", "vision-spec")["data"]["cluster.yaml"])
    assert [host.name for host in spec.hosts] == [f"vision-hosts-{i}.vision-hosts" for i in range(3)]
    assert hosts["spec"]["replicas"] == 3
    assert (spec.ssh.port, spec.ssh.key) == (SSH_PORT, f"{KEYS}/id")
    assert (spec.tasks["worker"].count, spec.hosts[0].slots, spec.checkpoints.copies) == (6, 4, 2)
    assert found(made, "Service", "vision-metrics")["spec"]["ports"][0]["port"] == 9464


def test_keys_are_only_named_and_made_by_what_the_head_says(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None or not Path("/usr/sbin/sshd").exists():
        pytest.skip("needs an OpenSSH server: install the package openssh-server")
    text = as_text(parse_spec(SPEC), Wanted("example.org/dtfctl:1", secret="keys-of-mine"))
    assert "PRIVATE" not in text and "kind: Secret" not in text
    lines = [line.removeprefix("#   ") for line in text.splitlines() if line.startswith("#   ")]
    makes = "\n".join(line for line in lines if not line.startswith(("kubectl", "  --from")))
    subprocess.run(["sh", "-ec", makes], cwd=tmp_path, check=True)
    assert {path.name for path in tmp_path.iterdir()} >= set(KEY_NAMES)

    made = list(yaml.safe_load_all(text))
    pod = found(made, "StatefulSet", "vision-hosts")["spec"]["template"]["spec"]
    secret = pod["volumes"][0]["secret"]
    assert (secret["secretName"], [item["key"] for item in secret["items"]]) == ("keys-of-mine", list(KEY_NAMES))
    command = pod["containers"][0]["command"][2].replace(KEYS, str(tmp_path)).replace(" -D ", " -t ")
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)

    key = asyncssh.read_public_key(tmp_path / "host_key.pub")
    trusted = asyncssh.match_known_hosts(
        asyncssh.read_known_hosts(str(tmp_path / "known_hosts")), "vision-hosts-1.vision-hosts", "10.1.2.3", SSH_PORT
    )[0]
    assert key in trusted


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ("provider: slurm\nslurm: {nodes: 2}", "provider: slurm"),
        ("hosts: n1\nsync: [{from: ., to: '~/x'}]", "sync"),
        ("hosts: {a: {names: n1}, b: {names: n2}}", "several groups"),
        ("hosts: n1\ncontroller: host", "controller"),
    ],
)
def test_what_pods_cannot_give_is_refused(more: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        documents(f"cluster: vision\ntasks: {{worker: 2}}\n{more}\n")
