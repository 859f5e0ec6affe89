"""`tf.random`."""

from __future__ import annotations

from dtfctl.runtime.api._shared.cropping import *
from dtfctl.runtime.api._shared.random import *
from dtfctl.runtime.api._shared.sampling import *
from dtfctl.runtime.ops.random_ops import (
    categorical,
    parameterized_truncated_normal,
    random_gamma as gamma,
    random_normal as normal,
    random_poisson as poisson,
    random_shuffle as shuffle,
    random_uniform as uniform,
    stateless_multinomial,
    stateless_random_normal,
    stateless_random_uniform,
    stateless_truncated_normal,
)

stateless_normal = stateless_random_normal
stateless_uniform = stateless_random_uniform
