"""`tf.nn`: neural network ops."""

from __future__ import annotations

from dtfctl.runtime.api._exported.nn import *
from dtfctl.runtime.api._shared.nn import *
from dtfctl.runtime.api._shared.nn_math import *
from dtfctl.runtime.api._shared.normalizing import *
from dtfctl.runtime.api._shared.sampling import *
from dtfctl.runtime.ops import rnn_cell
from dtfctl.runtime.ops.candidate_sampling_ops import compute_accidental_hits, nce_loss, sampled_softmax_loss
from dtfctl.runtime.ops.embedding_ops import (
    embedding_lookup,
    embedding_lookup_sparse,
    safe_embedding_lookup_sparse,
)
from dtfctl.runtime.ops.nn_ops import (
    TopK,
    approx_max_k,
    approx_min_k,
    atrous_conv2d,
    atrous_conv2d_transpose,
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    batch_norm_with_global_normalization,
    batch_normalization,
    bias_add,
    collapse_repeated,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    conv_transpose,
    convolution,
    crelu,
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_v2,
    ctc_greedy_decoder,
    ctc_loss,
    ctc_loss_v2,
    depthwise_conv2d,
    depthwise_conv2d_native,
    dropout,
    erosion2d,
    fractional_avg_pool,
    fractional_max_pool,
    fused_batch_norm,
    leaky_relu,
    log_poisson_loss,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    moments,
    normalize_moments,
    pool,
    relu_layer,
    separable_conv2d,
    sigmoid_cross_entropy_with_logits,
    silu,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    sufficient_statistics,
    swish,
    weighted_cross_entropy_with_logits,
    weighted_moments,
    with_space_to_batch,
    xw_plus_b,
)
from dtfctl.runtime.ops.raw_rnn import raw_rnn, static_bidirectional_rnn, static_state_saving_rnn
from dtfctl.runtime.ops.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_rnn,
)
