"""`tf.spectral`: the transforms of `tf.signal` under their older name."""

from __future__ import annotations

from dtfctl.runtime.api._exported.spectral import *
from dtfctl.runtime.api._shared.cosines import *
from dtfctl.runtime.api._shared.spectral import *
