"""`tf.math`."""

from __future__ import annotations

from dtfctl.runtime.api import (
    special,
)
from dtfctl.runtime.api._shared.assertions import *
from dtfctl.runtime.api._shared.bitwise import *
from dtfctl.runtime.api._shared.math import *
from dtfctl.runtime.api._shared.matrices import *
from dtfctl.runtime.api._shared.nn_math import *
from dtfctl.runtime.api._shared.special import *
from dtfctl.runtime.api._shared.spectral import *
from dtfctl.runtime.ops.math_ops import (
    cast,
    complex,
    divide_no_nan,
    polyval,
    reciprocal_no_nan,
    saturate_cast,
    sigmoid,
    sobol_sample,
    tanh,
)
from dtfctl.runtime.ops.nn_ops import l2_normalize
