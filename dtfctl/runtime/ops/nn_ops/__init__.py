"""`tf.nn`'s functions, with TF1's names and argument orders: a module a concept."""

from __future__ import annotations

from dtfctl.runtime.ops.nn_ops.activations import (
    bias_add,
    crelu,
    dropout,
    leaky_relu,
    log_sigmoid,
    log_softmax,
    relu_layer,
    silu,
    softmax,
    swish,
    xw_plus_b,
    zero_fraction,
)
from dtfctl.runtime.ops.nn_ops.common import reduce_over
from dtfctl.runtime.ops.nn_ops.convolutions import (
    atrous_conv2d,
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
    depthwise_conv2d,
    depthwise_conv2d_native,
    erosion2d,
    separable_conv2d,
)
from dtfctl.runtime.ops.nn_ops.ctc import (
    collapse_repeated,
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_v2,
    ctc_greedy_decoder,
    ctc_loss,
    ctc_loss_v2,
)
from dtfctl.runtime.ops.nn_ops.losses import (
    log_poisson_loss,
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from dtfctl.runtime.ops.nn_ops.normalization import (
    batch_norm_with_global_normalization,
    batch_normalization,
    fused_batch_norm,
    l2_normalize,
    moments,
    normalize_moments,
    sufficient_statistics,
    weighted_moments,
)
from dtfctl.runtime.ops.nn_ops.pooling import (
    avg_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    avg_pool_v2,
    fractional_avg_pool,
    fractional_max_pool,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from dtfctl.runtime.ops.nn_ops.ranking import TopK, approx_max_k, approx_min_k, in_top_k, top_k
from dtfctl.runtime.ops.nn_ops.spread import atrous_conv2d_transpose, with_space_to_batch
from dtfctl.runtime.ops.op_defs.nn import dilation2d, elu, l2_loss, relu, relu6, selu, softplus, softsign
