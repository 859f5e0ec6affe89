"""Cluster specs: YAML to frozen dataclasses, with every mistake named by its place.

>>> spec = parse_spec("cluster: dev\\ntasks: {ps: 1, worker: 2}\\n")
>>> spec.task_names
('ps/0', 'worker/0', 'worker/1')
"""

from dtfctl.launcher.spec.available import require_available
from dtfctl.launcher.spec.document import from_json, to_document, to_json
from dtfctl.launcher.spec.load import load_spec, parse_spec
from dtfctl.launcher.spec.model import ClusterSpec, Host, HostGroup, TaskGroup
from dtfctl.launcher.spec.problems import InvalidSpec, Problem
from dtfctl.launcher.spec.settings import Setting, settings

__all__ = [
    "ClusterSpec",
    "Host",
    "HostGroup",
    "InvalidSpec",
    "Problem",
    "Setting",
    "TaskGroup",
    "from_json",
    "load_spec",
    "parse_spec",
    "require_available",
    "settings",
    "to_document",
    "to_json",
]
