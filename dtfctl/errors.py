"""The root of the one exception tree.

DtfctlError
├── LauncherError      (dtfctl/launcher/errors.py) a command cannot be done; carries the exit code
├── OpError            (dtfctl/runtime/framework/errors.py) TensorFlow's error classes, one for each code
├── NoModel            (dtfctl/serve/sources.py) there is nothing that could be served
├── HostlistError      (dtfctl/launcher/spec/hostlist.py) a host pattern is not one; a ValueError, too
├── Error              (dtfctl/runtime/platform/flags.py) what is wrong with a flag of a program
│   ├── IllegalFlagValueError  a validator refuses it
│   └── ValidationError        a validator says why
└── NanLossDuringTrainingError  (dtfctl/runtime/train/hooks/stopping.py) as in TensorFlow a RuntimeError, too
"""

from __future__ import annotations


class DtfctlError(Exception):
    """Base of every error this package raises on purpose."""


class Signal(Exception):
    """Base of what parts of this package tell each other by raising it; it never reaches a user's program."""
