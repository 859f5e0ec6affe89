"""Entries of the io family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.operation import Operation, Tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import REALS

define = OpFamily("io")

define.op(
    "Assert(condition: bool, data: list(T)) -> (); T: list(type) >= 1; summarize: int = 3; !stateful", gradient="none"
)
define.op(
    "AudioSummary(tag: string, tensor: float) -> (summary: string); sample_rate: float; max_outputs: int >= 1 = 3",
    shape=[()],
    gradient="none",
)
define.op(
    "AudioSummaryV2(tag: string, tensor: float, sample_rate: float) -> (summary: string); max_outputs: int >= 1 = 3",
    shape=[()],
    gradient="none",
)
define.op(
    "DecodeCSV(records: string, record_defaults: list(OUT_TYPE)) -> (output: list(OUT_TYPE)); "
    'OUT_TYPE: list(type) in {float, double, int32, int64, string} >= 1; field_delim: string = ","; '
    'use_quote_delim: bool = true; na_value: string = ""; select_cols: list(int) = []',
    shape=lambda op: [op.inputs[0].shape] * len(op.outputs),
    gradient="none",
)
define.op('DecodeCompressed(bytes: string) -> (output: string); compression_type: string = ""', shape="unchanged")


@define.op(
    "DecodeJSONExample(json_examples: string) -> (binary_examples: string)",
    shape="unchanged",
    exports=("decode_json_example", "io.decode_json_example"),
)
def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Convert JSON Examples to serialized ones."""


define.op(
    "DecodePaddedRaw(input_bytes: string, fixed_length: int32) -> (output: out_type); "
    "out_type: type in {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; "
    "little_endian: bool = true",
    shape=lambda op: [op.inputs[0].shape.concatenate([None])],
)


@define.op(
    "DecodeRaw(bytes: string) -> (output: out_type); out_type: type in {half, float, double, int32, uint16, "
    "uint8, int16, int8, int64, complex64, complex128, bool, bfloat16}; little_endian: bool = true",
    shape=lambda op: [op.inputs[0].shape.concatenate([None])],
    gradient="none",
    renamed={"input_bytes": "bytes"},
    also={"bytes": "input_bytes"},
    exports=("decode_raw", "io.decode_raw"),
)
def decode_raw(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """Read the bytes of strings as numbers, one more dimension."""


define.op("EncodeWav(audio: float, sample_rate: int32) -> (contents: string)", shape=[()])
define.op(
    "FixedLengthRecordReaderV2() -> (reader_handle: resource); header_bytes: int = 0; record_bytes: int; "
    'footer_bytes: int = 0; hop_bytes: int = 0; container: string = ""; shared_name: string = ""; '
    'encoding: string = ""; !stateful',
    shape=[()],
)
define.op(
    f"HistogramSummary(tag: string, values: T) -> (summary: string); T: {REALS} = float", shape=[()], gradient="none"
)
define.op(
    'IdentityReaderV2() -> (reader_handle: resource); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "ImageSummary(tag: string, tensor: T) -> (summary: string); max_images: int >= 1 = 3; T: type in {uint8, "
    "float, half, double} = float; bad_color: tensor = tensor(08041204120208043a06ff010000ff01)",
    shape=[()],
    gradient="none",
)


@define.op(
    "MatchingFiles(pattern: string) -> (filenames: string)",
    shape=[[None]],
    exports=("matching_files", "io.matching_files"),
)
def matching_files(pattern: Any, name: str | None = None) -> Tensor:
    """List the names of the files that match, sorted."""


define.op("MergeSummary(inputs: N * string) -> (summary: string); N: int >= 1", shape=[()], gradient="none")


@define.op(
    "MergeV2Checkpoints(checkpoint_prefixes: string, destination_prefix: string) -> (); delete_old_dirs: "
    "bool = true; allow_missing_files: bool = false; !stateful",
    exports=("merge_v2_checkpoints", "io.merge_v2_checkpoints"),
)
def merge_v2_checkpoints(
    checkpoint_prefixes: Any, destination_prefix: Any, delete_old_dirs: bool = True, name: str | None = None
) -> Operation:
    """Make one V2 checkpoint of several."""


define.op(
    "ParseExample(serialized: string, names: string, sparse_keys: Nsparse * string, "
    "dense_keys: Ndense * string, dense_defaults: list(Tdense)) -> (sparse_indices: Nsparse * int64, "
    "sparse_values: list(sparse_types), sparse_shapes: Nsparse * int64, dense_values: list(Tdense)); "
    "Nsparse: int >= 0; Ndense: int >= 0; sparse_types: list(type) in {float, int64, string} >= 0; "
    "Tdense: list(type) in {float, int64, string} >= 0; dense_shapes: list(shape) >= 0",
    gradient="none",
)
define.op(
    "ParseExampleV2(serialized: string, names: string, sparse_keys: string, dense_keys: string, "
    "ragged_keys: string, dense_defaults: list(Tdense)) -> (sparse_indices: num_sparse * int64, "
    "sparse_values: list(sparse_types), sparse_shapes: num_sparse * int64, dense_values: list(Tdense), "
    "ragged_values: list(ragged_value_types), ragged_row_splits: list(ragged_split_types)); "
    "Tdense: list(type) in {float, int64, string} >= 0; num_sparse: int >= 0; "
    "sparse_types: list(type) in {float, int64, string} >= 0; ragged_value_types: list(type) in {float, "
    "int64, string} >= 0; ragged_split_types: list(type) in {int32, int64} >= 0; "
    "dense_shapes: list(shape) >= 0",
    gradient="none",
)
define.op(
    "ParseSingleExample(serialized: string, "
    "dense_defaults: list(Tdense)) -> (sparse_indices: num_sparse * int64, sparse_values: list(sparse_types), "
    "sparse_shapes: num_sparse * int64, dense_values: list(Tdense)); num_sparse: int >= 0; "
    "sparse_keys: list(string) >= 0; dense_keys: list(string) >= 0; sparse_types: list(type) in {float, "
    "int64, string} >= 0; Tdense: list(type) in {float, int64, string} >= 0; dense_shapes: list(shape) >= 0",
    gradient="none",
)


@define.op(
    "ParseTensor(serialized: string) -> (output: out_type); out_type: type",
    gradient="none",
    exports=("parse_tensor", "io.parse_tensor"),
)
def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """Read a tensor from its serialized TensorProto."""


define.op(
    'Print(input: T, data: list(U)) -> (output: T); T: type; U: list(type) >= 0; message: string = ""; '
    "first_n: int = -1; summarize: int = 3; !stateful",
    shape="unchanged",
    gradient=lambda op, grad: [grad, *[None] * (len(op.inputs) - 1)],
)


@define.op("ReadFile(filename: string) -> (contents: string)", shape=[()], exports=("read_file", "io.read_file"))
def read_file(filename: Any, name: str | None = None) -> Tensor:
    """Read the contents of a file, as a string."""


define.op("ReaderNumRecordsProducedV2(reader_handle: resource) -> (records_produced: int64); !stateful", shape=[()])
define.op("ReaderNumWorkUnitsCompletedV2(reader_handle: resource) -> (units_completed: int64); !stateful", shape=[()])
define.op(
    "ReaderRead(reader_handle: ref(string), queue_handle: ref(string)) -> (key: string, value: string)", shape=[(), ()]
)
define.op(
    "ReaderReadUpTo(reader_handle: ref(string), queue_handle: ref(string), "
    "num_records: int64) -> (keys: string, values: string)",
    shape=[[None], [None]],
)
define.op(
    "ReaderReadUpToV2(reader_handle: resource, queue_handle: resource, num_records: int64) -> (keys: string, "
    "values: string); !stateful",
    shape=[[None], [None]],
    gradient="none",
)
define.op(
    "ReaderReadV2(reader_handle: resource, queue_handle: resource) -> (key: string, value: string); !stateful",
    shape=[(), ()],
    gradient="none",
)


@define.op(
    "RestoreV2(prefix: string, tensor_names: string, shape_and_slices: string) -> (tensors: list(dtypes)); "
    "dtypes: list(type) >= 1; !stateful",
    shape=lambda op: [TensorShape(None)] * len(op.outputs),
    gradient="none",
    exports=("restore_v2", "io.restore_v2"),
)
def restore_v2(
    prefix: Any, tensor_names: Any, shape_and_slices: Any, dtypes: Sequence[Any], name: str | None = None
) -> list[Tensor]:
    """Read tensors from a V2 checkpoint."""


@define.op(
    "SaveV2(prefix: string, tensor_names: string, shape_and_slices: string, tensors: list(dtypes)) -> "
    "(); dtypes: list(type) >= 1; !stateful; !precision(deny)",
    exports=("save_v2", "io.save_v2"),
)
def save_v2(prefix: Any, tensor_names: Any, shape_and_slices: Any, tensors: Sequence[Any]) -> Operation:
    """Write tensors to a V2 checkpoint."""


define.op(f"ScalarSummary(tags: string, values: T) -> (summary: string); T: {REALS}", shape=[()], gradient="none")


@define.op(
    "SerializeTensor(tensor: T) -> (serialized: string); T: type",
    shape=[()],
    gradient="none",
    exports=("serialize_tensor", "io.serialize_tensor"),
)
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """Write a tensor as a serialized TensorProto."""


@define.op(
    "ShardedFilename(basename: string, shard: int32, num_shards: int32) -> (filename: string)",
    shape=[()],
    exports=("sharded_filename", "io.sharded_filename"),
)
def sharded_filename(basename: Any, shard: Any, num_shards: Any, name: str | None = None) -> Tensor:
    """Build the name of one of the files of a sharded checkpoint."""


define.op("ShardedFilespec(basename: string, num_shards: int32) -> (filename: string)", shape=[()])


@define.op(
    "StringToNumber(string_tensor: string) -> (output: out_type); out_type: type in {float, double, int32, "
    "int64, uint32, uint64} = float",
    shape="unchanged",
    gradient="none",
    also={"input": "string_tensor"},
    exports=("string_to_number", "strings.string_to_number", "strings.to_number"),
)
def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None, input: Any = None
) -> Any:
    """Parse the numbers that strings spell."""


define.op(
    'TFRecordReaderV2() -> (reader_handle: resource); container: string = ""; shared_name: string = ""; '
    'compression_type: string = ""; !stateful',
    shape=[()],
)
define.op(
    'TensorSummary(tensor: T) -> (summary: string); T: type; description: string = ""; '
    'labels: list(string) = []; display_name: string = ""',
    shape=[()],
    gradient="none",
)
define.op(
    "TensorSummaryV2(tag: string, tensor: T, serialized_summary_metadata: string) -> (summary: string); T: type",
    shape=[()],
    gradient="none",
)
define.op(
    'TextLineReaderV2() -> (reader_handle: resource); skip_header_lines: int = 0; container: string = ""; '
    'shared_name: string = ""; !stateful',
    shape=[()],
)


@define.op("Timestamp() -> (ts: double); !stateful", shape=[()], gradient="none", exports=("timestamp",))
def timestamp(name: str | None = None) -> Tensor:
    """Get the seconds since the epoch, float64, when the op runs."""


define.op(
    'WholeFileReaderV2() -> (reader_handle: resource); container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)


@define.op("WriteFile(filename: string, contents: string) -> (); !stateful", exports=("write_file", "io.write_file"))
def write_file(filename: Any, contents: Any, name: str | None = None) -> Operation:
    """Write a string to a file."""
