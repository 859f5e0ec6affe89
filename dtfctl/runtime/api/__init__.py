"""What `import dtfctl.runtime as tf` offers: TF1's names, each from the module that defines it."""

from __future__ import annotations

import sys
from types import ModuleType

from dtfctl.protocol.config_pb2 import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from dtfctl.protocol.graph_pb2 import (
    AttrValue,
    GraphDef,
    NameAttrList,
    NodeDef,
    OpDef,
)
from dtfctl.protocol.meta_graph_pb2 import MetaGraphDef, TensorInfo
from dtfctl.protocol.summary_pb2 import HistogramProto, LogMessage, SummaryMetadata
from dtfctl.protocol.tensor_pb2 import TensorProto
from dtfctl.runtime import data, profiler, train
from dtfctl.runtime.api import (
    bitwise,
    compat,
    debugging,
    distribute,
    dtypes,
    errors,
    experimental,
    graph_util,
    image,
    initializers,
    io,
    layers,
    linalg,
    lookup,
    manip,
    math,
    metrics,
    missing,
    mixed_precision,
    nest,
    nn,
    python_io,
    quantization,
    queue,
    ragged,
    random,
    raw_ops,
    saved_model,
    sets,
    signal,
    sparse,
    spectral,
    strings,
    summary,
    version,
)
from dtfctl.runtime.api._exported.tf import *
from dtfctl.runtime.api._shared.assertions import *
from dtfctl.runtime.api._shared.casting import *
from dtfctl.runtime.api._shared.cropping import *
from dtfctl.runtime.api._shared.debugging import *
from dtfctl.runtime.api._shared.dtypes import *
from dtfctl.runtime.api._shared.io import *
from dtfctl.runtime.api._shared.linalg import *
from dtfctl.runtime.api._shared.manip import *
from dtfctl.runtime.api._shared.math import *
from dtfctl.runtime.api._shared.matrices import *
from dtfctl.runtime.api._shared.nn import *
from dtfctl.runtime.api._shared.quantization import *
from dtfctl.runtime.api._shared.queues import *
from dtfctl.runtime.api._shared.random import *
from dtfctl.runtime.api._shared.shapes import *
from dtfctl.runtime.api._shared.sparse import *
from dtfctl.runtime.api._shared.spectral import *
from dtfctl.runtime.api._shared.strings import *
from dtfctl.runtime.api._shared.summaries import *
from dtfctl.runtime.api._shared.tables import *
from dtfctl.runtime.client import config
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.fetches import IndexedSlicesValue, SparseTensorValue
from dtfctl.runtime.client.interactive import InteractiveSession
from dtfctl.runtime.client.script_ops import numpy_function, py_func, py_function
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.compiler.fused_ops import register_fused
from dtfctl.runtime.data.optional import OptionalSpec
from dtfctl.runtime.eager.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from dtfctl.runtime.eager.enable import (
    enable_eager_execution,
    executing_eagerly,
)
from dtfctl.runtime.eager.tape import (
    GradientTape,
)
from dtfctl.runtime.framework.constant_value import get_static_value
from dtfctl.runtime.framework.context import (
    get_default_graph,
    reset_default_graph,
)
from dtfctl.runtime.framework.convert import (
    IndexedSlices,
    constant,
    convert_to_tensor,
    convert_to_tensor_or_indexed_slices,
    convert_to_tensor_or_sparse_tensor,
    register_tensor_conversion_function,
)
from dtfctl.runtime.framework.device_spec import (
    DeviceSpec,
)
from dtfctl.runtime.framework.func_graph import (
    init_scope,
)
from dtfctl.runtime.framework.gradients import (
    AggregationMethod,
    UnconnectedGradients,
    gradients,
)
from dtfctl.runtime.framework.graph import (
    Graph,
)
from dtfctl.runtime.framework.graph_keys import (
    GraphKeys,
    add_to_collection,
    add_to_collections,
    colocate_with,
    container,
    control_dependencies,
    device,
    get_collection,
    get_collection_ref,
    name_scope,
    op_scope,
)
from dtfctl.runtime.framework.op_builder import (
    apply_op_nested as apply_op,
)
from dtfctl.runtime.framework.op_signature import (
    register_op,
)
from dtfctl.runtime.framework.operation import (
    Operation,
    Tensor,
)
from dtfctl.runtime.framework.registries import (
    not_differentiable as NotDifferentiable,
    register_gradient as RegisterGradient,
    register_shape,
)
from dtfctl.runtime.framework.tensor_shape import (
    Dimension,
    TensorShape,
    dimension_value,
)
from dtfctl.runtime.framework.tensor_util import is_tensor, make_ndarray, make_tensor_proto
from dtfctl.runtime.kernels.registry import (
    register_kernel,
)
from dtfctl.runtime.ops import losses
from dtfctl.runtime.ops.array_ops import (
    batch_gather,
    batch_to_space,
    boolean_mask,
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
    concat,
    edit_distance,
    ensure_shape,
    expand_dims,
    fill,
    gather,
    identity,
    listdiff,
    meshgrid,
    newaxis,
    one_hot,
    ones,
    ones_like,
    pad,
    parallel_stack,
    placeholder,
    placeholder_with_default,
    quantize_v2,
    rank,
    repeat,
    required_space_to_batch_paddings,
    reverse_sequence,
    reverse_v2,
    searchsorted,
    sequence_mask,
    setdiff1d,
    shape,
    size,
    slice,
    split,
    squeeze,
    stack,
    strided_slice,
    tensor_scatter_add,
    tensor_scatter_max,
    tensor_scatter_min,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_sub,
    tensor_scatter_nd_update,
    tensor_scatter_sub,
    tensor_scatter_update,
    transpose,
    unique,
    unique_with_counts,
    unstack,
    where,
    where_v2,
    zeros,
    zeros_like,
)
from dtfctl.runtime.ops.clip_ops import clip_by_average_norm, clip_by_global_norm, clip_by_norm, clip_by_value
from dtfctl.runtime.ops.cond import (
    case,
    cond,
    switch_case,
)
from dtfctl.runtime.ops.critical_section import CriticalSection
from dtfctl.runtime.ops.data_flow_ops.accumulators import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
)
from dtfctl.runtime.ops.data_flow_ops.session_tensors import delete_session_tensor, get_session_tensor
from dtfctl.runtime.ops.data_flow_ops.staging import StagingArea
from dtfctl.runtime.ops.function import (
    TensorSpec,
    function,
)
from dtfctl.runtime.ops.functional_ops import (
    foldl,
    foldr,
    map_fn,
    scan,
)
from dtfctl.runtime.ops.grouping import group, tuple_ as tuple
from dtfctl.runtime.ops.hessians import add_check_numerics_ops, hessians
from dtfctl.runtime.ops.init_ops import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from dtfctl.runtime.ops.logging_ops import (
    Print,
    print_v2,
)
from dtfctl.runtime.ops.math_ops import (
    histogram_fixed_width_bins,
)
from dtfctl.runtime.ops.op_defs.entry import define_op
from dtfctl.runtime.ops.parallel_for import vectorized_map
from dtfctl.runtime.ops.partitioned_variables import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from dtfctl.runtime.ops.ragged_ops.dispatch import let_functions_take_ragged
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor
from dtfctl.runtime.ops.rnn_cell import LSTMStateTuple
from dtfctl.runtime.ops.sort_ops import argsort, sort
from dtfctl.runtime.ops.sparse_ops.conversion import (
    sparse_to_dense,
)
from dtfctl.runtime.ops.sparse_ops.spec import SparseTensorSpec
from dtfctl.runtime.ops.state_ops import (
    assign,
    assign_add,
    assign_sub,
    batch_scatter_update,
    count_up_to,
    scatter_add,
    scatter_div,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_nd_add,
    scatter_nd_sub,
    scatter_nd_update,
    scatter_sub,
    scatter_update,
)
from dtfctl.runtime.ops.template import make_template
from dtfctl.runtime.ops.tensor_array_ops import (
    TensorArray,
)
from dtfctl.runtime.ops.variable_collections import (
    all_variables,
    assert_variables_initialized,
    global_variables,
    is_variable_initialized,
    local_variables,
    model_variables,
    moving_average_variables,
    report_uninitialized_variables,
    trainable_variables,
)
from dtfctl.runtime.ops.variable_scope import (
    AUTO_REUSE,
    VariableScope,
    create_partitioned_variables,
    get_local_variable,
    get_variable,
    get_variable_scope,
    no_regularizer,
    variable_op_scope,
    variable_scope,
)
from dtfctl.runtime.ops.variables import (
    Variable,
    VariableAggregation,
    VariableSynchronization,
    disable_resource_variables,
    enable_resource_variables,
    resource_variables_enabled,
    variable_creator_scope,
)
from dtfctl.runtime.ops.while_loop import (
    while_loop,
)
from dtfctl.runtime.platform import (
    app,
    flags as flags,
    resource_loader,
    tf_logging as logging,
)
from dtfctl.runtime.platform.libraries import load_file_system_library, load_library, load_op_library
from dtfctl.runtime.platform.v2_behavior import (
    control_flow_v2_enabled,
    disable_control_flow_v2,
    disable_eager_execution,
    disable_tensor_equality,
    disable_v2_behavior,
    disable_v2_tensorshape,
    enable_control_flow_v2,
    enable_tensor_equality,
    enable_v2_tensorshape,
)

# What a namespace has, too, there mostly by a shorter name.
extract_image_patches = image.extract_image_patches
FIFOQueue = queue.FIFOQueue
global_variables_initializer = initialize_all_variables = initializers.global_variables
get_logger = logging.get_logger
import_graph_def = graph_util.import_graph_def
initialize_all_tables = lookup.initialize_all_tables
local_variables_initializer = initialize_local_variables = initializers.local_variables
matrix_band_part = linalg.band_part
matrix_diag = linalg.diag
matrix_diag_part = linalg.diag_part
matrix_set_diag = linalg.set_diag
NoGradient = no_gradient = NotDifferentiable
OpError = errors.OpError
print = print_v2
random_gamma = random.gamma
random_normal = random.normal
random_poisson = random.poisson
random_shuffle = random.shuffle
random_uniform = random.uniform
sparse_add = sparse.add
sparse_concat = sparse.concat
sparse_fill_empty_rows = sparse.fill_empty_rows
sparse_mask = sparse.mask
sparse_maximum = sparse.maximum
sparse_merge = sparse.merge
sparse_minimum = sparse.minimum
sparse_placeholder = sparse.placeholder
sparse_reduce_max = sparse.reduce_max
sparse_reduce_max_sparse = sparse.reduce_max_sparse
sparse_reduce_sum = sparse.reduce_sum
sparse_reduce_sum_sparse = sparse.reduce_sum_sparse
sparse_reorder = sparse.reorder
sparse_reset_shape = sparse.reset_shape
sparse_reshape = sparse.reshape
sparse_retain = sparse.retain
sparse_slice = sparse.slice
sparse_softmax = sparse.softmax
sparse_split = sparse.split
sparse_tensor_dense_matmul = sparse.matmul
sparse_tensor_to_dense = sparse.to_dense
sparse_to_indicator = sparse.to_indicator
sparse_transpose = sparse.transpose
variables_initializer = initialize_variables = initializers.variables
verify_tensor_all_finite = debugging.assert_all_finite

# Programs of TensorFlow 1 look here for its last version; this package's own is `dtfctl.__version__`.
__version__ = VERSION = version.VERSION
GIT_VERSION = version.GIT_VERSION
COMPILER_VERSION = version.COMPILER_VERSION
GRAPH_DEF_VERSION = version.GRAPH_DEF_VERSION
GRAPH_DEF_VERSION_MIN_CONSUMER = version.GRAPH_DEF_VERSION_MIN_CONSUMER
GRAPH_DEF_VERSION_MIN_PRODUCER = version.GRAPH_DEF_VERSION_MIN_PRODUCER

let_functions_take_ragged(vars(), [module for name, module in sys.modules.items() if name.startswith(__name__)])
for _path, _module in {**vars()}.items():
    if isinstance(_module, ModuleType) and _module.__name__.startswith("dtfctl.runtime.") and _path[0] != "_":
        missing.say_what_is_missing(_module, _path)
for _path in ("config.experimental", "config.threading", "data.experimental", "lookup.experimental"):
    _above, _, _below = _path.partition(".")
    missing.say_what_is_missing(getattr(vars()[_above], _below), _path)
