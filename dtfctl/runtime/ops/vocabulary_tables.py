"""Tables from words to ids: what is no word gets a default, or one of some more ids by its hash."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.dtypes import as_dtype
from dtfctl.runtime.framework.graph_keys import name_scope
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.ops.array_ops import size, where_v2
from dtfctl.runtime.ops.lookup_ops import (
    KeyValueTensorInitializer,
    StaticHashTable,
    TextFileIndex,
    TextFileInitializer,
    require_shared,
)
from dtfctl.runtime.ops.math_ops import add, cast, not_equal, range as range_
from dtfctl.runtime.ops.op_defs.string import as_string
from dtfctl.runtime.ops.string_ops import string_to_hash_bucket, string_to_hash_bucket_strong


class HasherSpec:
    """How words are hashed: "fasthash", "legacy", or "stronghash" with a key of two numbers."""

    def __init__(self, hasher: str, key: Any = None) -> None:
        if hasher not in ("fasthash", "legacy", "stronghash"):
            raise ValueError(f"Unknown hasher {hasher}")
        self.hasher, self.key = hasher, key

    def hashed(self, words: Tensor, buckets: int) -> Tensor:
        """Make the op that hashes words to [0, buckets)."""
        if self.hasher == "stronghash":
            return string_to_hash_bucket_strong(words, buckets, key=self.key, name="hash_bucket")
        if self.hasher == "legacy":
            return string_to_hash_bucket(words, buckets, name="hash_bucket")
        return apply_op("StringToHashBucketFast", "hash_bucket", input=words, num_buckets=buckets)


FastHashSpec = HasherSpec("fasthash")


class StrongHashSpec(HasherSpec):
    """Hash words with SipHash under a key of two numbers, which an attacker does not know."""

    def __init__(self, key: Any) -> None:
        if len(key) != 2:
            raise ValueError(f"key must have size 2, received {key}")
        super().__init__("stronghash", list(key))


class IdTableWithHashBuckets:
    """A table to ids, and `num_oov_buckets` more ids for what is not in it."""

    def __init__(
        self,
        table: StaticHashTable | None,
        num_oov_buckets: int,
        hasher_spec: HasherSpec = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        if table is None and num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0 if no table is supplied.")
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec}")
        self._table, self._buckets, self._hasher = table, num_oov_buckets, hasher_spec
        self.key_dtype = as_dtype(key_dtype or (dtypes.string if table is None else table.key_dtype))
        if table is not None and table.key_dtype.is_integer != self.key_dtype.is_integer:
            kind = "integer" if self.key_dtype.is_integer else "non-integer"
            raise TypeError(f"Invalid key dtype, expected {kind} but got {table.key_dtype}.")
        if table is not None and table.value_dtype is not dtypes.int64:
            raise TypeError(f"Invalid value dtype, expected int64 but got {table.value_dtype}.")
        if not self.key_dtype.is_integer and self.key_dtype is not dtypes.string:
            raise TypeError(f"Invalid key_dtype, expected integer or string, got {self.key_dtype}.")
        self.value_dtype = dtypes.int64
        self.name = (name or ("hash_bucket" if table is None else table.name)).rstrip("/").split("/")[-1]

    @property
    def initializer(self) -> Operation:
        """What fills the table."""
        if self._table is not None:
            return self._table.initializer
        from dtfctl.runtime.ops.op_defs.control import no_op

        return no_op()

    init = initializer

    @property
    def resource_handle(self) -> Tensor | None:
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        """Return how many ids there are."""
        with name_scope(name, f"{self.name}_Size"):
            known = convert_to_tensor(0, dtypes.int64) if self._table is None else self._table.size()
            return add(known, convert_to_tensor(self._buckets, dtypes.int64))

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """Look up the ids of `keys`; a SparseTensor keeps its places."""
        keys = keys if isinstance(keys, SparseTensor) else convert_to_tensor(keys)
        if keys.dtype.base_dtype is not self.key_dtype:
            raise TypeError(f"Signature mismatch. Keys must be dtype {self.key_dtype}, got {keys.dtype}.")
        words = keys.values if isinstance(keys, SparseTensor) else keys
        if self._table is not None and self._table.key_dtype is dtypes.int64:
            words = cast(words, dtypes.int64)
        if self._buckets == 0 and self._table is not None:
            ids = self._table.lookup(words, name=name)
        else:
            with name_scope(name, f"{self.name}_Lookup"):
                texts = words if words.dtype.base_dtype is dtypes.string else as_string(words)
                ids = self._hasher.hashed(texts, self._buckets)
                if self._table is not None:
                    known = self._table.lookup(words)
                    others = add(ids, self._table.size())
                    ids = where_v2(not_equal(known, self._table.default_value), known, others)
        return SparseTensor(keys.indices, ids, keys.dense_shape) if isinstance(keys, SparseTensor) else ids


class StaticVocabularyTable(IdTableWithHashBuckets):
    """A table to ids that an initializer fills, and `num_oov_buckets` more for what is not in it."""

    def __init__(
        self,
        initializer: Any,
        num_oov_buckets: int,
        lookup_key_dtype: Any = None,
        name: str | None = None,
        experimental_is_anonymous: bool = False,
    ) -> None:
        require_shared(experimental_is_anonymous)
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table = None if initializer is None else StaticHashTable(initializer, -1)
        super().__init__(table, num_oov_buckets, name=name, key_dtype=lookup_key_dtype)


def index_table_from_tensor(
    vocabulary_list: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
) -> Any:
    """Make a table from each word of a vocabulary to its position; others get one of more ids, or the default.

    Raises:
        ValueError: there is no vocabulary, or it is not of `dtype`'s kind.
    """
    if vocabulary_list is None:
        raise ValueError("vocabulary_list must be specified.")
    _check_buckets(num_oov_buckets)
    dtype = as_dtype(dtype)
    with name_scope(name, "string_to_index"):
        words = convert_to_tensor(vocabulary_list)
        if words.dtype.is_integer != dtype.is_integer or not (dtype.is_integer or words.dtype.base_dtype is dtype):
            raise ValueError(f"Expected {dtype}, got {words.dtype}.")
        values = cast(range_(size(words)), dtypes.int64)
        with name_scope(None, "hash_table"):
            keys = cast(words, dtypes.int64) if words.dtype.is_integer else words
            source = KeyValueTensorInitializer(keys, values, name="table_init")
            table = StaticHashTable(source, default_value)
        if num_oov_buckets:
            return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=dtype)
        return table


def index_table_from_file(
    vocabulary_file: Any,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: HasherSpec = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = TextFileIndex.WHOLE_LINE,
    value_column_index: int = TextFileIndex.LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """Make a table from each line of a file to its number; others get one of more ids, or the default."""
    if vocabulary_file is None or (isinstance(vocabulary_file, str) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    _check_buckets(num_oov_buckets)
    if vocab_size is not None and vocab_size < 1:
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}. vocabulary_file: {vocabulary_file}")
    key_dtype = as_dtype(key_dtype)
    if not key_dtype.is_integer and key_dtype is not dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    with name_scope(name, "string_to_index"):
        with name_scope(None, "hash_table"):
            source = TextFileInitializer(
                vocabulary_file,
                dtypes.int64 if key_dtype.is_integer else key_dtype,
                key_column_index,
                dtypes.int64,
                value_column_index,
                vocab_size,
                delimiter,
                name="table_init",
            )
            table = StaticHashTable(source, default_value)
        if num_oov_buckets:
            return IdTableWithHashBuckets(table, num_oov_buckets, hasher_spec, key_dtype=key_dtype)
        return table


def _check_buckets(count: int) -> None:
    if count < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {count}.")


def index_to_string_table_from_tensor(
    vocabulary_list: Any = None, default_value: Any = "UNK", name: str | None = None, mapping: Any = None
) -> Any:
    """Make a table from ids to the words of a vector, and `default_value` for other ids.

    Raises:
        ValueError: there are no words.
    """
    words = vocabulary_list if mapping is None else mapping
    if words is None:
        raise ValueError("vocabulary_list must be specified.")
    values = convert_to_tensor(words, dtypes.string)
    keys = range_(size(values, out_type=dtypes.int64), dtype=dtypes.int64)
    with name_scope(name, "index_to_string"):
        return StaticHashTable(KeyValueTensorInitializer(keys, values, dtypes.int64, dtypes.string), default_value)


def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: Any = "UNK",
    name: str | None = None,
    key_column_index: Any = TextFileIndex.LINE_NUMBER,
    value_column_index: Any = TextFileIndex.WHOLE_LINE,
    delimiter: str = "\t",
) -> Any:
    """Make a table from numbers of lines to the lines of a file, and `default_value` for other numbers."""
    with name_scope(name, "index_to_string"):
        start = TextFileInitializer(
            vocabulary_file, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter
        )
        return StaticHashTable(start, default_value)
