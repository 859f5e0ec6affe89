"""Structures of tensors: nested lists, tuples, named tuples and dicts (whose keys are taken in sorted order)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework.composite import CompositeTensor


def is_nested(seq: Any) -> bool:
    """Tell whether a value is a list, a tuple or a mapping."""
    return isinstance(seq, (list, tuple, Mapping))


# What programs of TensorFlow 1 call it, of `tensorflow.python.util.nest`.
is_sequence = is_nested


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """List the leaves, depth first; with `expand_composites` the components of composites."""
    return list(_leaves(structure, expand_composites))


def _leaves(structure: Any, expand: bool) -> Iterator[Any]:
    if isinstance(structure, Mapping):
        for key in _sorted_keys(structure):
            yield from _leaves(structure[key], expand)
    elif isinstance(structure, (list, tuple)):
        for item in structure:
            yield from _leaves(item, expand)
    elif expand and isinstance(structure, CompositeTensor):
        yield from structure.components()
    else:
        yield structure


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def flatten_up_to(shallow_tree: Any, input_tree: Any) -> list[Any]:
    """List what `input_tree` has where the leaves of `shallow_tree` are: leaves, or structures such as shapes.

    Raises:
        TypeError: where `shallow_tree` has a structure, `input_tree` has none of its kind.
        ValueError: they have other numbers of items or other keys there.
    """
    if not is_nested(shallow_tree):
        return [input_tree]
    if isinstance(shallow_tree, Mapping):
        if not isinstance(input_tree, Mapping):
            raise TypeError(f"Expected a mapping with the keys {list(shallow_tree)}, not {input_tree!r}")
        if input_tree.keys() != shallow_tree.keys():
            raise ValueError(f"Expected the keys {list(shallow_tree)}, not {list(input_tree)}")
        pairs = [(shallow_tree[key], input_tree[key]) for key in _sorted_keys(shallow_tree)]
    else:
        if not isinstance(input_tree, (list, tuple)):
            raise TypeError(f"Expected a sequence of {len(shallow_tree)} items, not {input_tree!r}")
        if len(input_tree) != len(shallow_tree):
            raise ValueError(f"Expected {len(shallow_tree)} items, not {len(input_tree)}: {input_tree!r}")
        pairs = list(zip(shallow_tree, input_tree))
    return [leaf for shallow, item in pairs for leaf in flatten_up_to(shallow, item)]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """Put the leaves of `flat_sequence` into the shape of `structure`.

    Raises:
        ValueError: their number differs from the structure's.
    """
    expected = len(flatten(structure, expand_composites))
    if expected != len(flat_sequence):
        found = len(flat_sequence)
        raise ValueError(f"Structure had {expected} atoms, but flat_sequence had {found} items. {structure!r}")
    return _pack(structure, iter(flat_sequence), expand_composites)


def _pack(structure: Any, leaves: Iterator[Any], expand: bool) -> Any:
    if isinstance(structure, Mapping):
        packed = {key: _pack(structure[key], leaves, expand) for key in _sorted_keys(structure)}
        ordered = {key: packed[key] for key in structure}
        try:
            return type(structure)(ordered)  # type: ignore[call-arg]
        except TypeError:
            return ordered
    if isinstance(structure, tuple) and hasattr(structure, "_fields"):
        return type(structure)(*[_pack(item, leaves, expand) for item in structure])
    if isinstance(structure, (list, tuple)):
        items = [_pack(item, leaves, expand) for item in structure]
        return items if isinstance(structure, list) else tuple(items)
    if expand and isinstance(structure, CompositeTensor):
        return structure.with_components(leaves)
    return next(leaves)


def map_structure(
    func: Callable[..., Any], *structures: Any, check_types: bool = True, expand_composites: bool = False
) -> Any:
    """Apply `func` to the corresponding leaves, in the shape of the first structure."""
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types, expand_composites)
    leaves = zip(*(flatten(s, expand_composites) for s in structures))
    return pack_sequence_as(structures[0], [func(*xs) for xs in leaves], expand_composites)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise ValueError (or TypeError for different types of sequences, if they are checked) unless both nest alike."""
    a, b = nest1, nest2
    if expand_composites and (isinstance(a, CompositeTensor) or isinstance(b, CompositeTensor)):
        if not (isinstance(a, CompositeTensor) and isinstance(b, CompositeTensor)):
            raise ValueError(f"The two structures don't have the same nested structure: {a!r} and {b!r}")
        if check_types and type(a) is not type(b):
            raise TypeError(f"The two structures don't have the same types: {type(a)} and {type(b)}")
        return
    if is_nested(a) != is_nested(b):
        raise ValueError(f"The two structures don't have the same nested structure: {a!r} and {b!r}")
    if isinstance(a, Mapping):
        if not isinstance(b, Mapping) or set(a) != set(b):
            raise ValueError(f"The two dictionaries don't have the same set of keys: {a!r} and {b!r}")
        for key in a:
            assert_same_structure(a[key], b[key], check_types, expand_composites)
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b):
            raise ValueError(f"The two structures don't have the same number of elements: {a!r} and {b!r}")
        named = hasattr(a, "_fields") or hasattr(b, "_fields")
        if check_types and isinstance(a, tuple) != isinstance(b, tuple) and not named:
            raise TypeError(f"The two structures don't have the same sequence type: {type(a)} and {type(b)}")
        for x, y in zip(a, b):
            assert_same_structure(x, y, check_types, expand_composites)
