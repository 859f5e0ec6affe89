"""`tf.math`."""

from __future__ import annotations

from dtfctl.runtime.api import (
    special,
)
from dtfctl.runtime.api._exported.math import *
from dtfctl.runtime.api._shared.assertions import *
from dtfctl.runtime.api._shared.casting import *
from dtfctl.runtime.api._shared.math import *
from dtfctl.runtime.api._shared.matrices import *
from dtfctl.runtime.api._shared.nn_math import *
from dtfctl.runtime.api._shared.normalizing import *
from dtfctl.runtime.api._shared.spectral import *
from dtfctl.runtime.ops.math_ops import polyval, reciprocal_no_nan
