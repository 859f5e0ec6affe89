"""`tf.manip`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.manip import *
from dtfctl.runtime.api._shared.manip import *
