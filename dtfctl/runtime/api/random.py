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
from dtfctl.runtime.ops.stateless_random import (
    Algorithm,
    fold_in,
    split,
    stateless_categorical,
    stateless_parameterized_truncated_normal,
    stateless_random_binomial as stateless_binomial,
    stateless_random_gamma as stateless_gamma,
    stateless_random_poisson as stateless_poisson,
)

stateless_normal = stateless_random_normal
stateless_uniform = stateless_random_uniform
