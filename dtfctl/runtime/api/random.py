"""`tf.random`."""

from __future__ import annotations

from dtfctl.runtime.framework.graph_keys import (
    get_seed,
    set_random_seed,
)
from dtfctl.runtime.ops.candidate_sampling_ops import (
    all_candidate_sampler,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_uniform_candidate_sampler,
    uniform_candidate_sampler,
)
from dtfctl.runtime.ops.random_ops import (
    categorical,
    multinomial,
    parameterized_truncated_normal,
    random_crop,
    random_gamma as gamma,
    random_normal as normal,
    random_poisson as poisson,
    random_shuffle as shuffle,
    random_uniform as uniform,
    stateless_multinomial,
    stateless_random_normal,
    stateless_random_normal as stateless_normal,
    stateless_random_uniform,
    stateless_random_uniform as stateless_uniform,
    stateless_truncated_normal,
    truncated_normal,
)
