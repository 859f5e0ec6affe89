"""`tf.dtypes`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.dtypes import *
from dtfctl.runtime.api._shared.casting import *
from dtfctl.runtime.api._shared.dtypes import *
