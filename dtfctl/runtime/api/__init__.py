"""What `import dtfctl.runtime as tf` offers: TF1's names, each from the module that defines it."""

from __future__ import annotations

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
    NodeDef,
    OpDef,
)
from dtfctl.protocol.meta_graph_pb2 import MetaGraphDef
from dtfctl.protocol.summary_pb2 import Event, Summary as Summary
from dtfctl.protocol.tensor_pb2 import TensorProto
from dtfctl.runtime import data, train
from dtfctl.runtime.api import (
    bitwise,
    compat,
    debugging,
    distribute,
    dtypes,
    errors,
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
    nest,
    nn,
    python_io,
    quantization,
    queue,
    random,
    raw_ops,
    saved_model,
    sets,
    signal,
    sparse,
    spectral,
    strings,
    summary,
    test,
    version,
)
from dtfctl.runtime.client.default_session import get_default_session
from dtfctl.runtime.client.fetches import IndexedSlicesValue, SparseTensorValue
from dtfctl.runtime.client.interactive import InteractiveSession
from dtfctl.runtime.client.script_ops import numpy_function, py_func, py_function
from dtfctl.runtime.client.session import Session
from dtfctl.runtime.eager.custom_gradient import custom_gradient, grad_pass_through, recompute_grad
from dtfctl.runtime.eager.enable import (
    enable_eager_execution,
    executing_eagerly,
)
from dtfctl.runtime.eager.tape import (
    GradientTape,
)
from dtfctl.runtime.framework.constant_value import constant_value as get_static_value
from dtfctl.runtime.framework.context import (
    get_default_graph,
    reset_default_graph,
)
from dtfctl.runtime.framework.convert import (
    IndexedSlices,
    SparseTensor,
    constant,
    convert_to_tensor,
    register_tensor_conversion_function,
)
from dtfctl.runtime.framework.device_spec import (
    DeviceSpec,
)
from dtfctl.runtime.framework.dtypes import (
    DType,
    as_dtype,
    bfloat16,
    bool_ as bool,
    complex64,
    complex128,
    double,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    qint8,
    qint16,
    qint32,
    quint8,
    quint16,
    resource,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    variant,
)
from dtfctl.runtime.framework.errors import OpError
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
    get_seed,
    name_scope,
    op_scope,
    set_random_seed,
)
from dtfctl.runtime.framework.importer import (
    import_graph_def,
)
from dtfctl.runtime.framework.node_graph import GRAPH_DEF_VERSION
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
    not_differentiable as NoGradient,
    not_differentiable as NotDifferentiable,
    not_differentiable as no_gradient,
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
    batch_to_space_nd,
    bitcast,
    boolean_mask,
    broadcast_dynamic_shape,
    broadcast_static_shape,
    broadcast_to,
    check_numerics,
    concat,
    depth_to_space,
    dequantize,
    diag,
    diag_part,
    edit_distance,
    ensure_shape,
    expand_dims,
    extract_image_patches,
    extract_volume_patches,
    eye,
    fake_quant_with_min_max_args,
    fake_quant_with_min_max_vars,
    fake_quant_with_min_max_vars_per_channel,
    fill,
    fingerprint,
    gather,
    gather_nd,
    guarantee_const,
    identity,
    identity_n,
    invert_permutation,
    listdiff,
    matrix_band_part,
    matrix_diag,
    matrix_diag_part,
    matrix_set_diag,
    matrix_transpose,
    meshgrid,
    newaxis,
    one_hot,
    ones,
    ones_like,
    pad,
    parallel_stack,
    placeholder,
    placeholder_with_default,
    prevent_gradient,
    quantize,
    quantize_v2,
    rank,
    repeat,
    required_space_to_batch_paddings,
    reshape,
    reverse,
    reverse_sequence,
    reverse_v2,
    roll,
    scatter_nd,
    searchsorted,
    sequence_mask,
    setdiff1d,
    shape,
    shape_n,
    size,
    slice,
    space_to_batch,
    space_to_batch_nd,
    space_to_depth,
    sparse_placeholder,
    split,
    squeeze,
    stack,
    stop_gradient,
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
    tile,
    transpose,
    unique,
    unique_with_counts,
    unravel_index,
    unstack,
    where,
    where_v2,
    zeros,
    zeros_like,
)
from dtfctl.runtime.ops.check_ops import (
    Assert,
    assert_equal,
    assert_greater,
    assert_greater_equal,
    assert_integer,
    assert_less,
    assert_less_equal,
    assert_near,
    assert_negative,
    assert_non_negative,
    assert_non_positive,
    assert_none_equal,
    assert_positive,
    assert_proper_iterable,
    assert_rank,
    assert_rank_at_least,
    assert_rank_in,
    assert_same_float_dtype,
    assert_scalar,
    assert_type,
    is_non_decreasing,
    is_numeric_tensor,
    is_strictly_increasing,
    verify_tensor_all_finite,
)
from dtfctl.runtime.ops.clip_ops import (
    clip_by_average_norm,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    global_norm,
)
from dtfctl.runtime.ops.cond import (
    case,
    cond,
    switch_case,
)
from dtfctl.runtime.ops.data_flow_ops.accumulators import (
    ConditionalAccumulator,
    ConditionalAccumulatorBase,
    SparseConditionalAccumulator,
)
from dtfctl.runtime.ops.data_flow_ops.partitioning import dynamic_partition, dynamic_stitch
from dtfctl.runtime.ops.data_flow_ops.queues import (
    FIFOQueue,
    PaddingFIFOQueue,
    PriorityQueue,
    QueueBase,
    RandomShuffleQueue,
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
from dtfctl.runtime.ops.io_ops import (
    FixedLengthRecordReader,
    IdentityReader,
    ReaderBase,
    TextLineReader,
    TFRecordReader,
    WholeFileReader,
    merge_v2_checkpoints,
    restore_v2,
    save_v2,
    sharded_filename,
    write_file,
)
from dtfctl.runtime.ops.linalg_ops import (
    adjoint,
    cholesky,
    cholesky_solve,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    einsum,
    expm,
    log_matrix_determinant,
    logdet,
    logm,
    lu,
    matrix_inverse,
    matrix_solve,
    matrix_solve_ls,
    matrix_triangular_solve,
    norm,
    qr,
    self_adjoint_eig,
    self_adjoint_eigvals,
    slogdet,
    sqrtm,
    svd,
    tridiagonal_solve,
)
from dtfctl.runtime.ops.logging_ops import Print, print_v2, print_v2 as print
from dtfctl.runtime.ops.lookup_ops import (
    initialize_all_tables,
    tables_initializer,
)
from dtfctl.runtime.ops.math_ops import (
    OPERATORS,
    abs,
    accumulate_n,
    acos,
    acosh,
    add,
    add_n,
    angle,
    approximate_equal,
    arg_max,
    arg_min,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    batch_matmul,
    bessel_i0,
    bessel_i0e,
    bessel_i1,
    bessel_i1e,
    bessel_j0,
    bessel_j1,
    bessel_k0,
    bessel_k0e,
    bessel_k1,
    bessel_k1e,
    bessel_y0,
    bessel_y1,
    betainc,
    bincount,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    bucketize,
    cast,
    ceil,
    complex,
    conj,
    cos,
    cosh,
    count_nonzero,
    cross,
    cumprod,
    cumsum,
    cumulative_logsumexp,
    dawsn,
    digamma,
    div,
    div_no_nan,
    divide,
    equal,
    erf,
    erfc,
    erfinv,
    exp,
    expint,
    expm1,
    fft,
    fft2d,
    fft3d,
    floor,
    floor_div,
    floor_mod,
    floordiv,
    floormod,
    fresnel_cos,
    fresnel_sin,
    greater,
    greater_equal,
    histogram_fixed_width,
    histogram_fixed_width_bins,
    ifft,
    ifft2d,
    ifft3d,
    igamma,
    igammac,
    imag,
    invert,
    irfft,
    irfft2d,
    irfft3d,
    is_finite,
    is_inf,
    is_nan,
    lbeta,
    left_shift,
    less,
    less_equal,
    lgamma,
    lin_space,
    linspace,
    log,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    matvec,
    maximum,
    minimum,
    mod,
    mul,
    multiply,
    multiply_no_nan,
    ndtri,
    neg,
    negative,
    nextafter,
    not_equal,
    polygamma,
    population_count,
    pow,
    range,
    real,
    realdiv,
    reciprocal,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
    rfft,
    rfft2d,
    rfft3d,
    right_shift,
    rint,
    round,
    rsqrt,
    saturate_cast,
    scalar_mul,
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    sigmoid,
    sign,
    sin,
    sinh,
    sparse_matmul,
    sparse_segment_mean,
    sparse_segment_sqrt_n,
    sparse_segment_sum,
    spence,
    sqrt,
    square,
    squared_difference,
    sub,
    subtract,
    tan,
    tanh,
    tensordot,
    to_bfloat16,
    to_complex64,
    to_complex128,
    to_double,
    to_float,
    to_int32,
    to_int64,
    trace,
    truediv,
    truncatediv,
    truncatemod,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
    xdivy,
    xlog1py,
    xlogy,
    zeta,
)
from dtfctl.runtime.ops.nn_ops import log_sigmoid
from dtfctl.runtime.ops.op_defs.control import no_op
from dtfctl.runtime.ops.op_defs.data_flow import get_session_handle
from dtfctl.runtime.ops.op_defs.entry import define_op
from dtfctl.runtime.ops.op_defs.io import (
    decode_json_example,
    decode_raw,
    matching_files,
    read_file,
    string_to_number,
    timestamp,
)
from dtfctl.runtime.ops.op_defs.linalg import (
    banded_triangular_solve,
    matrix_determinant,
    matrix_exponential,
    matrix_logarithm,
    matrix_square_root,
)
from dtfctl.runtime.ops.op_defs.string import (
    as_string,
    decode_base64,
    encode_base64,
    string_strip,
    string_to_hash_bucket_fast,
    substr,
)
from dtfctl.runtime.ops.parsing_ops import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    VarLenFeature,
    decode_csv,
    parse_example,
    parse_single_example,
    parse_tensor,
    serialize_tensor,
)
from dtfctl.runtime.ops.partitioned_variables import (
    fixed_size_partitioner,
    min_max_variable_partitioner,
    variable_axis_size_partitioner,
)
from dtfctl.runtime.ops.random_ops import (
    multinomial,
    random_crop,
    random_gamma,
    random_normal,
    random_poisson,
    random_shuffle,
    random_uniform,
    truncated_normal,
)
from dtfctl.runtime.ops.rnn_cell import LSTMStateTuple
from dtfctl.runtime.ops.sequence_parsing import parse_single_sequence_example
from dtfctl.runtime.ops.sort_ops import argsort, confusion_matrix, sort
from dtfctl.runtime.ops.sparse_ops.arithmetic import (
    sparse_add,
    sparse_maximum,
    sparse_minimum,
    sparse_reduce_max,
    sparse_reduce_max_sparse,
    sparse_reduce_sum,
    sparse_reduce_sum_sparse,
    sparse_softmax,
    sparse_tensor_dense_matmul,
)
from dtfctl.runtime.ops.sparse_ops.arranging import (
    sparse_concat,
    sparse_fill_empty_rows,
    sparse_reorder,
    sparse_reset_shape,
    sparse_reshape,
    sparse_retain,
    sparse_slice,
    sparse_split,
    sparse_transpose,
)
from dtfctl.runtime.ops.sparse_ops.conversion import (
    sparse_mask,
    sparse_merge,
    sparse_tensor_to_dense,
    sparse_to_dense,
    sparse_to_indicator,
)
from dtfctl.runtime.ops.sparse_ops.serialization import deserialize_many_sparse, serialize_many_sparse, serialize_sparse
from dtfctl.runtime.ops.state_ops import (
    assign,
    assign_add,
    assign_sub,
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
from dtfctl.runtime.ops.string_ops import (
    reduce_join,
    regex_replace,
    string_join,
    string_split,
    string_to_hash_bucket,
    string_to_hash_bucket_strong,
)
from dtfctl.runtime.ops.template import make_template
from dtfctl.runtime.ops.tensor_array_ops import (
    TensorArray,
)
from dtfctl.runtime.ops.variable_collections import (
    all_variables,
    assert_variables_initialized,
    global_variables,
    global_variables_initializer,
    global_variables_initializer as initialize_all_variables,
    is_variable_initialized,
    local_variables,
    local_variables_initializer,
    local_variables_initializer as initialize_local_variables,
    model_variables,
    moving_average_variables,
    report_uninitialized_variables,
    trainable_variables,
    variables_initializer,
    variables_initializer as initialize_variables,
)
from dtfctl.runtime.ops.variable_scope import (
    AUTO_REUSE,
    VariableScope,
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
)
from dtfctl.runtime.ops.while_loop import (
    while_loop,
)
from dtfctl.runtime.platform import app, flags as flags, gfile as gfile, tf_logging as logging
from dtfctl.runtime.platform.libraries import load_file_system_library, load_library, load_op_library
from dtfctl.runtime.platform.v2_behavior import (
    control_flow_v2_enabled,
    disable_control_flow_v2,
    disable_eager_execution,
    disable_v2_behavior,
    disable_v2_tensorshape,
)

# Programs of TensorFlow 1 look here for its last version; this package's own is `dtfctl.__version__`.
__version__ = VERSION = version.VERSION
GIT_VERSION = version.GIT_VERSION
COMPILER_VERSION = version.COMPILER_VERSION
GRAPH_DEF_VERSION_MIN_CONSUMER = version.GRAPH_DEF_VERSION_MIN_CONSUMER
GRAPH_DEF_VERSION_MIN_PRODUCER = version.GRAPH_DEF_VERSION_MIN_PRODUCER

for _path, _module in {**vars()}.items():
    if isinstance(_module, ModuleType) and _module.__name__.startswith("dtfctl.runtime.") and _path[0] != "_":
        missing.say_what_is_missing(_module, _path)
