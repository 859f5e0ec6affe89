"""What the functions of `tf` do where they are given ragged tensors."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from dtfctl.runtime.ops.ragged_ops.broadcasting import of_elements
from dtfctl.runtime.ops.ragged_ops.mapping import RaggedTensorSpec, RaggedTensorType
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from dtfctl.runtime.ops.ragged_ops.ragged_value import RaggedTensorValue

# Functions of each element, by how many of their first arguments are operands; names as in `tf`.
OF_ELEMENTS: dict[str, int] = {
    name: count
    for count, names in {
        1: """
        abs acos acosh angle asin asinh atan atanh bitcast cast ceil check_numerics conj cos cosh
        debugging.check_numerics digamma erf erfc exp expm1 floor imag invert bitwise.invert logical_not is_finite
        is_inf is_nan lgamma log log1p log_sigmoid math.bessel_i0 math.bessel_i0e math.bessel_i1 math.bessel_i1e
        math.erfinv math.is_finite math.is_inf math.is_nan math.ndtri math.reciprocal_no_nan math.softplus
        math.softsign math.log_sigmoid math.sobol_sample negative real reciprocal rint round rsqrt saturate_cast
        sigmoid sign sin sinh sqrt square stop_gradient tan tanh math.ceil math.sigmoid math.special.dawsn
        special.dawsn special.expint special.fresnel_cos special.fresnel_sin special.spence special.bessel_j0
        special.bessel_j1 special.bessel_k0 special.bessel_k0e special.bessel_k1 special.bessel_k1e
        special.bessel_y0 special.bessel_y1 nn.elu nn.leaky_relu nn.relu nn.relu6 nn.selu nn.sigmoid nn.softplus
        nn.softsign nn.swish nn.silu nn.tanh to_float to_double to_int32 to_int64 to_bfloat16 to_complex64
        to_complex128 decode_base64 encode_base64 decode_raw io.decode_raw as_string strings.as_string
        strings.length strings.lower strings.upper strings.strip strings.to_number string_to_number
        string_to_hash_bucket string_to_hash_bucket_fast string_to_hash_bucket_strong string_strip
        strings.to_hash_bucket strings.to_hash_bucket_fast strings.to_hash_bucket_strong substr strings.substr
        regex_replace strings.regex_replace strings.regex_full_match strings.unicode_script
        strings.unicode_transcode io.decode_base64 io.encode_base64 clip_by_value
        """,
        2: """
        add atan2 bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor bitwise.left_shift bitwise.right_shift
        complex div div_no_nan divide equal floor_div floordiv floormod greater greater_equal igamma igammac less
        less_equal logical_and logical_or logical_xor math.nextafter math.xlog1py math.xdivy math.xlogy
        math.multiply_no_nan math.divide_no_nan maximum minimum mod multiply not_equal polygamma pow realdiv
        squared_difference subtract truediv truncatediv truncatemod zeta math.zeta math.igamma math.igammac
        math.polygamma
        """,
    }.items()
    for name in names.split()
}
# Functions that have one of their own for ragged tensors, with the same arguments: module and name.
OWN: dict[str, str] = {
    "add_n": "reducing.add_n",
    "batch_gather": "gathering.batch_gather",
    "boolean_mask": "arranging.boolean_mask",
    "concat": "joining.concat",
    "cumsum": "reducing.ragged_cumsum",
    "expand_dims": "dimensions.expand_dims",
    "gather": "gathering.gather_v1",
    "gather_nd": "gathering.gather_nd_v1",
    "identity": "arranging.identity",
    "map_fn": "mapping.map_fn",
    "nn.dropout": "arranging.dropout",
    "nn.embedding_lookup": "gathering.embedding_lookup",
    "nn.softmax": "reducing.softmax",
    "one_hot": "arranging.one_hot",
    "ones_like": "arranging.ones_like",
    "rank": "measures.rank",
    "reduce_all": "reducing.reduce_all",
    "reduce_any": "reducing.reduce_any",
    "reduce_logsumexp": "reducing.reduce_logsumexp",
    "reduce_max": "reducing.reduce_max",
    "reduce_mean": "reducing.reduce_mean",
    "reduce_min": "reducing.reduce_min",
    "reduce_prod": "reducing.reduce_prod",
    "reduce_sum": "reducing.reduce_sum",
    "math.reduce_std": "reducing.reduce_std",
    "math.reduce_variance": "reducing.reduce_variance",
    "reverse": "arranging.reverse",
    "size": "measures.size_v1",
    "split": "splitting.split",
    "squeeze": "dimensions.squeeze",
    "stack": "joining.stack",
    "tile": "arranging.tile",
    "reduce_join": "strings.reduce_join",
    "strings.format": "strings.string_format",
    "string_join": "strings.string_join",
    "strings.join": "strings.string_join",
    "unsorted_segment_max": "reducing.unsorted_segment_max",
    "unsorted_segment_mean": "reducing.unsorted_segment_mean",
    "unsorted_segment_min": "reducing.unsorted_segment_min",
    "unsorted_segment_prod": "reducing.unsorted_segment_prod",
    "unsorted_segment_sqrt_n": "reducing.unsorted_segment_sqrt_n",
    "unsorted_segment_sum": "reducing.unsorted_segment_sum",
    "where": "arranging.where",
    "where_v2": "arranging.where_v2",
    "zeros_like": "arranging.zeros_like",
    "print": "printing.print_ragged",
}
_RAGGED = (RaggedTensor, RaggedTensorValue, RaggedTensorSpec, RaggedTensorType)


def _is_ragged(value: Any) -> bool:
    return isinstance(value, _RAGGED) or (
        type(value) in (list, tuple, dict)
        and any(_is_ragged(v) for v in (value.values() if type(value) is dict else value))
    )


def for_ragged(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Find what is called in place of a function of `tf`."""
    if name in OWN:
        module, _, own = OWN[name].rpartition(".")
        found = importlib.import_module(f"dtfctl.runtime.ops.ragged_ops.{module}")
        return getattr(found, own)  # type: ignore[no-any-return]
    count = OF_ELEMENTS[name]
    signature = inspect.signature(function)
    operands = list(signature.parameters)[:count]

    def of_ragged(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        if len(operands) == 1:
            rows = convert_to_tensor_or_ragged_tensor(given[operands[0]])
            if isinstance(rows, RaggedTensor):
                given[operands[0]] = rows.flat_values
                return rows.with_flat_values(function(**given))
        return of_elements(
            function,
            [_as_tensor(given[o]) for o in operands],
            lambda *flat: function(**{**given, **dict(zip(operands, flat))}),
        )

    return of_ragged


def _as_tensor(value: Any) -> Any:
    return convert_to_tensor_or_ragged_tensor(value) if isinstance(value, RaggedTensorValue) else value


def dispatching(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a function that does what `function` does, and its counterpart where an argument is ragged."""
    own: Callable[..., Any] | None = None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        nonlocal own
        for value in args:
            if _is_ragged(value):
                break
        else:
            if not kwargs or not any(map(_is_ragged, kwargs.values())):
                return function(*args, **kwargs)
        if own is None:
            own = for_ragged(function, name)
        return own(*args, **kwargs)

    return call


_DISPATCHING: dict[int, tuple[Any, Callable[..., Any]]] = {}
"""Holds each function that has a dispatching one, and that one, by the former's id."""


def taking_ragged(value: Any) -> Any:
    """Give the function that takes ragged tensors in the place of one that does not; anything else as it is."""
    found = _DISPATCHING.get(id(value))
    return value if found is None else found[1]


def let_functions_take_ragged(root: Mapping[str, Any], namespaces: Iterable[ModuleType]) -> None:
    """Put dispatching functions in the place of those of the tables, wherever a namespace has them.

    Args:
        root: the names of `tf`.
    """
    for name in (*OF_ELEMENTS, *OWN):
        found: Any = None
        first, *rest = name.split(".")
        found = root.get(first)
        for word in rest:
            found = vars(found).get(word) if isinstance(found, ModuleType) else None
        if callable(found) and id(found) not in _DISPATCHING:
            _DISPATCHING[id(found)] = found, dispatching(found, name)
    for namespace in namespaces:
        names = vars(namespace)
        for public, value in list(names.items()):
            if not public.startswith("_"):
                names[public] = taking_ragged(value)
