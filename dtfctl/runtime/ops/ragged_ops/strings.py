"""Strings taken apart into ragged rows, and put together from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.constant_value import constant_value
from dtfctl.runtime.framework.convert import SparseTensor, constant
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op, apply_op_outputs
from dtfctl.runtime.framework.operation import Tensor
from dtfctl.runtime.framework.tensor_shape import dimension_value
from dtfctl.runtime.ops import array_ops, math_ops, string_ops
from dtfctl.runtime.ops.op_defs.string import as_string
from dtfctl.runtime.ops.ragged_ops.broadcasting import deepened, of_elements
from dtfctl.runtime.ops.ragged_ops.conversion import flatten_outer
from dtfctl.runtime.ops.ragged_ops.ragged_tensor import RaggedTensor, convert_to_tensor_or_ragged_tensor
from dtfctl.runtime.ops.ragged_ops.reducing import reduced


def _by_row(source: Any, split: Callable[[Tensor], Any]) -> Any:
    """Apply a function of a vector of strings to strings of any shape, rows of which have theirs one deeper.

    Raises:
        ValueError: the rank is unknown.
    """
    rank = source.shape.rank
    if isinstance(source, RaggedTensor):
        inner = source.flat_values.shape.rank
        if inner is None:
            raise ValueError("input must have a known rank.")
        return source.with_flat_values(_by_row(source.flat_values, split))
    if rank is None:
        raise ValueError("input must have a known rank.")
    if rank == 0:
        return split(array_ops.reshape(source, [1])).values
    if rank == 1:
        return split(source)
    return deepened(source, rank - 1, dtypes.int64).with_flat_values(split(flatten_outer(source, rank)))


def _from_sparse_parts(indices: Tensor, values: Tensor, shape: Tensor) -> Any:
    indices.set_shape([None, 2])
    values.set_shape([None])
    shape.set_shape([2])
    return RaggedTensor.from_value_rowids(values, indices[:, 0], shape[0], validate=False)


def string_bytes_split(input: Any, name: str | None = None) -> Any:
    """Split each string into its bytes."""
    with name_scope(name, "StringsByteSplit"):
        source = convert_to_tensor_or_ragged_tensor(input, dtypes.string)

        def split(vector: Tensor) -> Any:
            parts = apply_op_outputs("StringSplit", input=vector, delimiter=constant(""), skip_empty=False)
            return _from_sparse_parts(*parts)

        return _by_row(source, split)


def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """Split each string of a vector at any byte of `sep`, into rows of a SparseTensor or a RaggedTensor.

    Raises:
        ValueError: another `result_type`.
    """
    separator = delimiter if sep is None else sep
    separator = " " if separator is None else separator
    _check_result_type(result_type)
    result = string_ops.string_split(source, separator, skip_empty, name)
    if result_type == "RaggedTensor":
        return _from_sparse_parts(result.indices, result.values, result.dense_shape)
    return result


def _check_result_type(result_type: str) -> None:
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'SparseTensor' or 'RaggedTensor'.")


def strings_split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> Any:
    """Split each string as Python's str.split does, into rows of a SparseTensor or a RaggedTensor.

    Raises:
        ValueError: another `result_type`, or a sparse result of strings of rank above 1.
    """
    _check_result_type(result_type)
    separator = "" if sep is None else sep
    with name_scope(name, "StringSplit"):
        strings = convert_to_tensor_or_ragged_tensor(source if input is None else input, dtypes.string)

        def split(vector: Tensor) -> Any:
            parts = string_ops.string_split_v2(vector, separator, maxsplit)
            return _from_sparse_parts(parts.indices, parts.values, parts.dense_shape)

        if result_type == "SparseTensor" and strings.shape.rank == 1 and not isinstance(strings, RaggedTensor):
            parts = string_ops.string_split_v2(strings, separator, maxsplit)
            return SparseTensor(parts.indices, parts.values, parts.dense_shape)
        rows = _by_row(strings, split)
        if result_type == "RaggedTensor":
            return rows
        if isinstance(rows, Tensor):
            rows = RaggedTensor.from_tensor(array_ops.expand_dims(rows, 0))
        return rows.to_sparse()


def strings_split_v2(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Split each string as Python's str.split does, into rows of a RaggedTensor."""
    return strings_split(input, sep, maxsplit, "RaggedTensor", name=name)


def _unicode(with_offsets: bool, as_strings: bool) -> Callable[..., Any]:
    scope = "UnicodeSplit" if as_strings else "UnicodeDecode"
    scope += "WithOffsets" if with_offsets else ""

    def function(
        input: Any,
        input_encoding: str,
        errors: str = "replace",
        replacement_char: int = 0xFFFD,
        replace_control_characters: bool = False,
        name: str | None = None,
    ) -> Any:
        with name_scope(name, scope):
            source = convert_to_tensor_or_ragged_tensor(input, dtypes.string)
            offsets: list[Any] = []

            def split(vector: Tensor) -> Any:
                parts = apply_op_outputs(
                    "UnicodeDecodeWithOffsets" if with_offsets else "UnicodeDecode",
                    input=vector,
                    input_encoding=input_encoding,
                    errors=errors,
                    replacement_char=replacement_char,
                    replace_control_characters=replace_control_characters,
                )
                splits, points = parts[0], parts[1]
                count = dimension_value(vector.shape[0])
                splits.set_shape([None if count is None else count + 1])
                points.set_shape([None])
                if as_strings:
                    single = RaggedTensor.from_row_lengths(points, array_ops.ones_like(points), validate=False)
                    points = unicode_encode(
                        single, input_encoding, "ignore" if errors == "ignore" else "replace", replacement_char
                    )
                if with_offsets:
                    parts[2].set_shape([None])
                    offsets.append(RaggedTensor.from_row_splits(parts[2], splits, validate=False))
                return RaggedTensor.from_row_splits(points, splits, validate=False)

            result = _by_row(source, split)
            if not with_offsets:
                return result
            return result, _by_row(source, lambda _: offsets[0])

    function.__name__ = function.__qualname__ = {
        (False, False): "unicode_decode",
        (True, False): "unicode_decode_with_offsets",
        (False, True): "unicode_split",
        (True, True): "unicode_split_with_offsets",
    }[with_offsets, as_strings]
    what = "characters" if as_strings else "code points"
    function.__doc__ = (
        f"Take each string apart into its {what}{', and say at which byte each begins' if with_offsets else ''}."
    )
    return function


unicode_decode, unicode_decode_with_offsets = _unicode(False, False), _unicode(True, False)
_split, _split_with_offsets = _unicode(False, True), _unicode(True, True)


def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """Take each string apart into its characters."""
    return _split(input, input_encoding, errors, replacement_char, name=name)


def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """Take each string apart into its characters, and say at which byte each begins."""
    return _split_with_offsets(input, input_encoding, errors, replacement_char, name=name)


def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 0xFFFD, name: str | None = None
) -> Any:
    """Encode rows of code points as strings.

    Raises:
        ValueError: an unknown rank.
    """
    with name_scope(name, "UnicodeEncode"):
        points = convert_to_tensor_or_ragged_tensor(input)
        if points.shape.rank is None:
            raise ValueError("Rank of input_tensor must be statically known.")
        if isinstance(points, RaggedTensor):
            if points.flat_values.shape.rank is not None and points.flat_values.shape.rank > 1:
                flat = RaggedTensor.from_tensor(points.flat_values, ragged_rank=points.flat_values.shape.rank - 1)
                return unicode_encode(points.with_flat_values(flat), output_encoding, errors, replacement_char)
            if points.ragged_rank > 1:
                return points.with_values(unicode_encode(points.values, output_encoding, errors, replacement_char))
            return apply_op(
                "UnicodeEncode",
                input_values=points.values,
                input_splits=points.row_splits,
                output_encoding=output_encoding,
                errors=errors,
                replacement_char=replacement_char,
            )
        rank = points.shape.rank
        if rank == 0:
            raise ValueError("input_tensor's rank must be at least 1.")
        if rank == 1:
            row = RaggedTensor.from_row_splits(points, array_ops.stack([0, array_ops.shape(points)[0]]), validate=False)
            return array_ops.reshape(unicode_encode(row, output_encoding, errors, replacement_char), [])
        rows = RaggedTensor.from_tensor(flatten_outer(points, rank - 1))
        encoded = unicode_encode(rows, output_encoding, errors, replacement_char)
        return array_ops.reshape(encoded, array_ops.shape(points)[:-1])


def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Join all runs of so many strings in each row.

    Args:
        ngram_width: how many, or several such numbers.
        pad_values: what stands before and after each row: a string or a pair of them; none when None.

    Raises:
        TypeError: widths or pads of another kind; ValueError: a width below 1, or data of unknown rank.
    """
    with name_scope(name, "StringNGrams"):
        if pad_values is None:
            left = right = ""
        elif isinstance(pad_values, (str, bytes)):
            left = right = pad_values  # type: ignore[assignment]
        elif (
            isinstance(pad_values, tuple)
            and len(pad_values) == 2
            and all(isinstance(p, (str, bytes)) for p in pad_values)
        ):
            left, right = pad_values
        else:
            raise TypeError("pad_values must be a string, tuple of strings, or None.")
        widths = [ngram_width] if isinstance(ngram_width, int) else list(ngram_width)
        if not all(isinstance(w, int) for w in widths):
            raise TypeError("ngram_width must be an integer, or a list of integers")
        if any(w < 1 for w in widths):
            raise ValueError(f"All ngram_widths must be greater than 0. Received: ngram_width={ngram_width}")
        if padding_width is not None and padding_width < 1:
            raise ValueError(f"padding_width must be greater than 0. Received: padding_width={padding_width}")
        if padding_width is not None and pad_values is None:
            raise ValueError("pad_values must be provided if padding_width is set.")
        source = convert_to_tensor_or_ragged_tensor(data, dtypes.string, name="data")
        rank = source.shape.rank
        if rank is None or rank == 0:
            raise ValueError("data must have a known rank of 1 or more")
        rows = source
        if rank == 1:
            rows = RaggedTensor.from_row_splits(
                source, array_ops.stack([0, array_ops.shape(source)[0]]), validate=False
            )
        rows = deepened(rows, rows.shape.rank - 1, dtypes.int64)
        width = 0 if pad_values is None else (-1 if padding_width is None else padding_width)
        outer, inner = rows, []
        while isinstance(outer.values, RaggedTensor):
            inner.append(outer._row_partition)
            outer = outer.values
        flat, splits = apply_op_outputs(
            "StringNGrams",
            data=outer.values,
            data_splits=outer.row_splits,
            separator=separator,
            ngram_widths=widths,
            left_pad=left,
            right_pad=right,
            pad_width=width,
            preserve_short_sequences=preserve_short_sequences,
        )
        splits.set_shape(outer.row_splits.shape)
        flat.set_shape([None])
        made = RaggedTensor.from_row_splits(flat, splits, validate=False)
        result = RaggedTensor._from_nested_row_partitions(made, inner)
        return result.values if rank == 1 else result


def reduce_join(
    inputs: RaggedTensor,
    axis: Any = None,
    keep_dims: bool = False,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: Any = None,
) -> Any:
    """Join the strings of each row."""
    places = reduction_indices if axis is None else axis
    keep = bool(keep_dims if keepdims is None else keepdims)

    def dense(x: Tensor, a: Any, k: bool) -> Any:
        return string_ops.reduce_join(x, axis=a, keep_dims=k, separator=separator)

    def segments(x: Tensor, ids: Any, count: Any) -> Any:
        joined = apply_op("UnsortedSegmentJoin", inputs=x, segment_ids=ids, num_segments=count, separator=separator)
        if x.shape.rank is not None:
            joined.set_shape([constant_value(count), *x.shape.as_list()[1:]])
        return joined

    with name_scope(name, "RaggedSegmentJoin"):
        return reduced(dense, segments, inputs, places, keep)


def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Any:
    """Join the strings of the same place of several tensors."""
    return of_elements(
        apply_op, inputs, lambda *flat: apply_op("StringJoin", name, inputs=list(flat), separator=separator)
    )


def string_format(
    template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Any:
    """Replace each placeholder in `template` by a tensor, ragged ones as nested lists."""
    with name_scope(name, "StringFormat"):
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        parts = template.split(placeholder)
        if len(parts) != len(given) + 1:
            raise ValueError(
                f"num placeholders in template and num inputs must match: {len(parts) - 1} vs {len(given)}"
            )
        shown = [
            as_text(t, summarize)
            if isinstance(t, RaggedTensor)
            else string_ops.string_format("{}", t, summarize=summarize)
            for t in given
        ]
        pieces: list[Any] = [constant(parts[0])]
        for text, literal in zip(shown, parts[1:]):
            pieces += [text, constant(literal)]
        return apply_op("StringJoin", inputs=pieces, separator="")


def as_text(tensor: RaggedTensor, summarize: int | None = None) -> Tensor:
    """Write a ragged tensor as nested lists; with `summarize` only so many items at the beginning and end of each."""
    flat = tensor.flat_values
    if flat.dtype.base_dtype is dtypes.string:
        escaped = string_ops.regex_replace(flat, r"(['\\\\])", r"\\\\\\1")
        text = apply_op("StringJoin", inputs=[constant("'"), escaped, constant("'")], separator="")
    else:
        text = as_string(flat)
    for _ in range((text.shape.rank or 1) - 1):
        joined = string_ops.reduce_join(text, axis=-1, separator=", ")
        text = apply_op("StringJoin", inputs=[constant("["), joined, constant("]")], separator="")
    for partition in reversed(tensor._nested_row_partitions):
        rows = RaggedTensor(text, partition, internal=True)
        text = _bracketed(rows, summarize)
    whole = RaggedTensor.from_row_splits(text, array_ops.stack([0, array_ops.shape(text)[0]]), validate=False)
    return array_ops.reshape(_bracketed(whole, summarize), [])


def _bracketed(rows: RaggedTensor, summarize: int | None) -> Tensor:
    if summarize is not None and summarize >= 0:
        lengths = rows.row_lengths()
        kind = lengths.dtype.base_dtype
        long = math_ops.greater(lengths, constant(2 * summarize, kind))
        first = rows[:, :summarize] if summarize else rows[:, :0]
        last = rows[:, -summarize:] if summarize else rows[:, :0]
        short = _joined(rows)
        cut = apply_op("StringJoin", inputs=[_joined(first), constant(", ..., "), _joined(last)], separator="")
        inside = array_ops.where(long, cut, short)
    else:
        inside = _joined(rows)
    return apply_op("StringJoin", inputs=[constant("["), inside, constant("]")], separator="")


def _joined(rows: RaggedTensor) -> Tensor:
    return apply_op(
        "UnsortedSegmentJoin",
        inputs=rows.values,
        segment_ids=rows.value_rowids(),
        num_segments=rows.nrows(),
        separator=", ",
    )
