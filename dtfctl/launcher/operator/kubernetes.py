"""Manifests with which a cluster of a spec file runs on Kubernetes.

Pods are its hosts: each runs an SSH server, as one user that is not root, and dtfctl's own provider `ssh` logs in to
them from one more pod, which runs the controller. So all that holds of hosts holds of pods: tasks are restarted where
they are, agents outlive controllers, a pod that is lost is a lost host. Keys come from a Secret that the manifests only
name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import yaml

from dtfctl.launcher.errors import UsageError
from dtfctl.launcher.spec.document import to_document
from dtfctl.launcher.spec.hostlist import expand
from dtfctl.launcher.spec.model import LENDERS, ClusterSpec, HostGroup, Ssh

USER = "dtfctl"
USER_ID = 1000
HOME = f"/home/{USER}"
KEYS = "/etc/dtfctl/keys"
SPEC = "/etc/dtfctl/spec"
SSH_PORT = 2222
KEY_NAMES = ("id", "authorized_keys", "host_key", "known_hosts")
"""What the Secret has: the key that logs in, who may, the pods' own key, and what it is known by."""
STOP_S = 60
LONGEST_NAME = 40
"""The longest name of a cluster: names of pods are made of it, and have 63 letters at most."""

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the spec file does not say."""

    image: str
    """Has dtfctl, an SSH server (`sshd`) and a user `dtfctl` with the id 1000."""
    namespace: str | None = None
    secret: str | None = None
    """The name of the Secret with the keys; `CLUSTER-ssh` by default."""
    disk: str = "20Gi"
    """The size of each pod's disk, for logs, checkpoints and packages."""
    hosts: int | None = None
    """How many pods are hosts; as many as the file has hosts by default."""


def manifests(spec: ClusterSpec, wanted: Wanted) -> list[Manifest]:
    """Make the manifests, in the order in which they are applied.

    Raises:
        UsageError: the spec asks for what pods cannot give.
    """
    _check(spec)
    count = wanted.hosts or len(spec.hosts)
    secret = wanted.secret or f"{spec.cluster}-ssh"
    made = [
        _headless(spec),
        _spec_map(spec, count),
        _hosts(spec, wanted, secret, count),
        _controller(spec, wanted, secret),
        *([_metrics(spec)] if spec.metrics.port is not None else []),
        _policy(spec),
    ]
    for manifest in made if wanted.namespace is not None else ():
        manifest["metadata"]["namespace"] = wanted.namespace
    return made


def as_text(spec: ClusterSpec, wanted: Wanted) -> str:
    """Write the manifests as one file for `kubectl apply -f`."""
    secret = wanted.secret or f"{spec.cluster}-ssh"
    where = f" --namespace {wanted.namespace}" if wanted.namespace else ""
    pods = f"*.{_name(spec, 'hosts')}"
    public = "$(cut -d' ' -f1,2 host_key.pub)"
    head = f"""\
# Cluster {spec.cluster} on Kubernetes, made by `dtfctl export k8s`.
#
# The keys are in a Secret, which is made once, in an empty folder:
#   ssh-keygen -q -t ed25519 -N '' -f id; ssh-keygen -q -t ed25519 -N '' -f host_key; cp id.pub authorized_keys
#   echo "{pods},[{pods}]:{SSH_PORT} {public}" > known_hosts
#   kubectl create secret generic {secret}{where} \\
#     --from-file=id --from-file=authorized_keys --from-file=host_key --from-file=known_hosts
# The spec is in a ConfigMap as it is, with what it took from the environment of who made this (${{NAME}}).
# Then: kubectl apply{where} -f FILE; kubectl exec{where} -it {_name(spec, "controller")}-0 -- dtfctl status
"""
    texts = [yaml.dump(manifest, Dumper=_Readable, sort_keys=False) for manifest in manifests(spec, wanted)]
    return head + "---\n" + "---\n".join(texts)


class _Readable(yaml.SafeDumper):
    """Writes each part where it stands, and texts of several lines as they are."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def _check(spec: ClusterSpec) -> None:
    for is_there, what, hint in (
        (spec.provider in LENDERS, f"`provider: {spec.provider}`", "pods are the hosts: leave it out"),
        (spec.controller.place == "host", "`controller: host`", "the controller has a pod of its own: leave it out"),
        (bool(spec.sync), "`sync`", "put these files into the image, or send them with jobs (--working-dir)"),
        (bool(spec.ssh.jump), "`ssh: {jump}`", "pods reach each other: leave it out"),
        (len(spec.host_groups) > 1, "several groups of hosts", "pods of a StatefulSet are alike: name one group"),
        (len(spec.cluster) > LONGEST_NAME, f"a name of more than {LONGEST_NAME} letters", "give a shorter one"),
        (
            not spec.cluster.replace("-", "").isalnum() or spec.cluster != spec.cluster.lower(),
            f"`cluster: {spec.cluster}`",
            "names on Kubernetes are of a-z, 0-9 and -",
        ),
    ):
        if is_there:
            raise UsageError(f"{what} cannot be exported to Kubernetes", hint)


def _name(spec: ClusterSpec, part: str) -> str:
    return f"{spec.cluster}-{part}"


def _labels(spec: ClusterSpec, part: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "dtfctl",
        "app.kubernetes.io/instance": spec.cluster,
        "app.kubernetes.io/component": part,
    }


def _of_cluster(spec: ClusterSpec) -> dict[str, str]:
    return {"app.kubernetes.io/name": "dtfctl", "app.kubernetes.io/instance": spec.cluster}


def _manifest(cluster: ClusterSpec, kind: str, version: str, part: str, /, **more: Any) -> Manifest:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": _name(cluster, part), "labels": _labels(cluster, part)},
        **more,
    }


def _headless(spec: ClusterSpec) -> Manifest:
    """Give every pod a name of its own, also before it is ready: `up` waits for it by that."""
    return _manifest(
        spec,
        "Service",
        "v1",
        "hosts",
        spec={
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(spec, "hosts"),
            "ports": [{"name": "ssh", "port": SSH_PORT, "targetPort": "ssh"}],
        },
    )


def pods_spec(spec: ClusterSpec, count: int) -> ClusterSpec:
    """Write the spec whose hosts are the pods."""
    (group,) = spec.host_groups.values()
    service = _name(spec, "hosts")
    pattern = f"{service}-[0-{count - 1}].{service}" if count > 1 else f"{service}-0.{service}"
    names = tuple(expand(pattern))
    ssh = Ssh(user=USER, key=f"{KEYS}/id", port=SSH_PORT, known_hosts=f"{KEYS}/known_hosts")
    named = HostGroup(names, slots=group.slots, gpus=group.gpus)
    return replace(spec, host_groups={next(iter(spec.host_groups)): named}, ssh=ssh)


def _spec_map(spec: ClusterSpec, count: int) -> Manifest:
    text = yaml.safe_dump(to_document(pods_spec(spec, count), defaults=False), sort_keys=False)
    return _manifest(spec, "ConfigMap", "v1", "spec", data={"cluster.yaml": text})


def _hosts(spec: ClusterSpec, wanted: Wanted, secret: str, count: int) -> Manifest:
    options = {
        "Port": SSH_PORT,
        "HostKey": f"{KEYS}/host_key",
        "AuthorizedKeysFile": f"{KEYS}/authorized_keys",
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "AllowTcpForwarding": "yes",
        "AllowUsers": USER,
    }
    words = " ".join(f"-o {key}={value}" for key, value in options.items())
    # An SSH server must be called by its whole path, and tells nothing of this environment to who logs in.
    command = f'exec "$(command -v sshd || echo /usr/sbin/sshd)" -D -e -f /dev/null {words}'
    knock = {"tcpSocket": {"port": "ssh"}}
    container = {
        **_container(wanted, "host", command),
        "ports": [{"name": "ssh", "containerPort": SSH_PORT}],
        "startupProbe": {**knock, "periodSeconds": 2, "failureThreshold": 60},
        "readinessProbe": {**knock, "periodSeconds": 5},
        "livenessProbe": {**knock, "periodSeconds": 20, "failureThreshold": 6},
        "volumeMounts": [_mount("keys", KEYS), {"name": "home", "mountPath": HOME}],
    }
    limits = _limits(spec)
    if limits:
        container["resources"] = {"limits": limits}
    return _set(
        spec,
        wanted,
        "hosts",
        count,
        container,
        [_keys(secret)],
        podManagementPolicy="Parallel",
        affinity={
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 100,
                        "podAffinityTerm": {
                            "labelSelector": {"matchLabels": _labels(spec, "hosts")},
                            "topologyKey": "kubernetes.io/hostname",
                        },
                    }
                ]
            }
        },
    )


def _limits(spec: ClusterSpec) -> dict[str, str]:
    """Ask for the GPUs that the file says a host has; `auto` asks for none, as there is nothing to see yet."""
    (group,) = spec.host_groups.values()
    return {"nvidia.com/gpu": str(group.gpus)} if isinstance(group.gpus, int) and group.gpus else {}


def _controller(spec: ClusterSpec, wanted: Wanted, secret: str) -> Manifest:
    # `up` again and again: it does nothing where all is well, and goes on where this pod was lost.
    command = f"trap 'exit 0' TERM; while :; do dtfctl up {SPEC}/cluster.yaml; sleep 30 & wait $!; done"
    look = {"exec": {"command": ["dtfctl", "--timeout", "20s", "-q", "status", "-c", spec.cluster]}}
    container = {
        **_container(wanted, "controller", command),
        "startupProbe": {**look, "periodSeconds": 10, "timeoutSeconds": 30, "failureThreshold": 90},
        "readinessProbe": {**look, "periodSeconds": 30, "timeoutSeconds": 30},
        "livenessProbe": {**look, "periodSeconds": 60, "timeoutSeconds": 30, "failureThreshold": 5},
        "volumeMounts": [
            _mount("keys", KEYS),
            _mount("spec", SPEC),
            {"name": "home", "mountPath": HOME},
        ],
    }
    if spec.metrics.port is not None:
        container["ports"] = [{"name": "metrics", "containerPort": spec.metrics.port}]
    volumes = [_keys(secret), {"name": "spec", "configMap": {"name": _name(spec, "spec")}}]
    return _set(spec, wanted, "controller", 1, container, volumes)


def _container(wanted: Wanted, name: str, command: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": wanted.image,
        "command": ["/bin/sh", "-c", command],
        "workingDir": HOME,
        "env": [{"name": "HOME", "value": HOME}],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }


def _mount(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "readOnly": True}


def _keys(secret: str) -> dict[str, Any]:
    return {
        "name": "keys",
        "secret": {
            "secretName": secret,
            "defaultMode": 0o440,
            "items": [{"key": name, "path": name} for name in KEY_NAMES],
        },
    }


def _set(
    spec: ClusterSpec,
    wanted: Wanted,
    part: str,
    count: int,
    container: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
    affinity: Mapping[str, Any] | None = None,
    **more: Any,
) -> Manifest:
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": STOP_S,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": USER_ID,
            "fsGroup": USER_ID,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        **({"affinity": affinity} if affinity else {}),
        "containers": [dict(container)],
        "volumes": list(volumes),
    }
    return _manifest(
        spec,
        "StatefulSet",
        "apps/v1",
        part,
        spec={
            "serviceName": _name(spec, "hosts"),
            "replicas": count,
            **more,
            "selector": {"matchLabels": _labels(spec, part)},
            "template": {"metadata": {"labels": _labels(spec, part)}, "spec": pod},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "home"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": wanted.disk}},
                    },
                }
            ],
        },
    )


def _metrics(spec: ClusterSpec) -> Manifest:
    port = {"name": "metrics", "port": spec.metrics.port, "targetPort": "metrics"}
    return _manifest(spec, "Service", "v1", "metrics", spec={"selector": _labels(spec, "controller"), "ports": [port]})


def _policy(spec: ClusterSpec) -> Manifest:
    """Let pods of the cluster call each other, and whoever reads metrics that port."""
    ours: list[dict[str, Any]] = [{"from": [{"podSelector": {"matchLabels": _of_cluster(spec)}}]}]
    if spec.metrics.port is not None:
        ours.append({"ports": [{"protocol": "TCP", "port": spec.metrics.port}]})
    return _manifest(
        spec,
        "NetworkPolicy",
        "networking.k8s.io/v1",
        "pods",
        spec={"podSelector": {"matchLabels": _of_cluster(spec)}, "policyTypes": ["Ingress"], "ingress": ours},
    )
