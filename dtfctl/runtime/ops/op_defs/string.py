"""Entries of the string family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dtfctl.runtime.ops.op_defs.entry import OpFamily
from dtfctl.runtime.ops.op_defs.types import INDEX

define = OpFamily("string")


@define.op(
    "AsString(input: T) -> (output: string); T: type in {float, double, int32, uint8, int16, int8, int64, "
    "bfloat16, uint16, half, uint32, uint64, complex64, complex128, bool, variant, string}; "
    'precision: int = -1; scientific: bool = false; shortest: bool = false; width: int = -1; fill: string = ""',
    shape="unchanged",
    gradient="none",
    exports=("as_string", "dtypes.as_string", "strings.as_string"),
)
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Write numbers as text, formatted as C's printf would."""


@define.op(
    "DecodeBase64(input: string) -> (output: string)",
    shape="unchanged",
    exports=("decode_base64", "io.decode_base64", "strings.decode_base64"),
)
def decode_base64(input: Any, name: str | None = None) -> Any:
    """Decode strings from web-safe base64."""


@define.op(
    "EncodeBase64(input: string) -> (output: string); pad: bool = false",
    shape="unchanged",
    exports=("encode_base64", "io.encode_base64", "strings.encode_base64"),
)
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Any:
    """Encode strings in web-safe base64."""


define.op(
    "ReduceJoin(inputs: string, reduction_indices: int32) -> (output: string); keep_dims: bool = false; "
    'separator: string = ""',
    gradient="none",
)
define.op("RegexFullMatch(input: string, pattern: string) -> (output: bool)", shape="unchanged")
define.op(
    "RegexReplace(input: string, pattern: string, rewrite: string) -> (output: string); replace_global: bool = true",
    shape="unchanged",
    gradient="none",
)
define.op("StaticRegexFullMatch(input: string) -> (output: bool); pattern: string", shape="unchanged")
define.op(
    "StaticRegexReplace(input: string) -> (output: string); pattern: string; rewrite: string; "
    "replace_global: bool = true",
    shape="unchanged",
    gradient="none",
)
define.op(
    'StringFormat(inputs: list(T)) -> (output: string); T: list(type) >= 0; template: string = "%s"; '
    'placeholder: string = "%s"; summarize: int = 3',
    shape=[()],
    gradient="none",
)


@define.op(
    'StringJoin(inputs: N * string) -> (output: string); N: int >= 0; separator: string = ""',
    gradient="none",
    exports=("string_join", "strings.join", "strings.string_join"),
)
def string_join(inputs: Sequence[Any], separator: str = "", name: str | None = None) -> Any:
    """Join the strings of the inputs elementwise; scalars go with everything."""


@define.op(
    'StringLength(input: string) -> (output: int32); unit: string in {"BYTE", "UTF8_CHAR"} = "BYTE"',
    shape="unchanged",
    gradient="none",
    exports=("strings.length", "strings.string_length"),
)
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Any:
    """Measure the length of each string, in bytes or characters."""


@define.op(
    'StringLower(input: string) -> (output: string); encoding: string = ""',
    shape="unchanged",
    exports=("strings.lower", "strings.string_lower"),
)
def string_lower(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Convert strings to lower case."""


define.op(
    "StringSplit(input: string, delimiter: string) -> (indices: int64, values: string, shape: int64); "
    "skip_empty: bool = true",
    shape=[[None, 2], [None], [2]],
    gradient="none",
)
define.op(
    "StringSplitV2(input: string, sep: string) -> (indices: int64, values: string, shape: int64); maxsplit: int = -1",
    shape=[[None, 2], [None], [2]],
    gradient="none",
)


@define.op(
    "StringStrip(input: string) -> (output: string)",
    shape="unchanged",
    exports=("string_strip", "strings.string_strip", "strings.strip"),
)
def string_strip(input: Any, name: str | None = None) -> Any:
    """Strip white space from the ends of strings."""


define.op(
    "StringToHashBucket(string_tensor: string) -> (output: int64); num_buckets: int >= 1",
    shape="unchanged",
    gradient="none",
)


@define.op(
    "StringToHashBucketFast(input: string) -> (output: int64); num_buckets: int >= 1",
    shape="unchanged",
    gradient="none",
    exports=("string_to_hash_bucket_fast", "strings.string_to_hash_bucket_fast", "strings.to_hash_bucket_fast"),
)
def string_to_hash_bucket_fast(input: Any, num_buckets: int, name: str | None = None) -> Any:
    """Choose a bucket for each string by a fast hash."""


define.op(
    "StringToHashBucketStrong(input: string) -> (output: int64); num_buckets: int >= 1; key: list(int)",
    shape="unchanged",
    gradient="none",
)


@define.op(
    'StringUpper(input: string) -> (output: string); encoding: string = ""',
    shape="unchanged",
    exports=("strings.string_upper", "strings.upper"),
)
def string_upper(input: Any, encoding: str = "", name: str | None = None) -> Any:
    """Convert strings to upper case."""


@define.op(
    f'Substr(input: string, pos: T, len: T) -> (output: string); T: {INDEX}; unit: string in {{"BYTE", '
    '"UTF8_CHAR"} = "BYTE"',
    exports=("substr", "strings.substr"),
)
def substr(input: Any, pos: Any, len: Any, name: str | None = None, unit: str = "BYTE") -> Any:
    """Take `len` bytes (or characters) of each string from `pos`."""


@define.op("UnicodeScript(input: int32) -> (output: int32)", shape="unchanged", exports=("strings.unicode_script",))
def unicode_script(input: Any, name: str | None = None) -> Any:
    """Find the script of each code point, by ICU's numbers."""


@define.op(
    "UnicodeTranscode(input: string) -> (output: string); input_encoding: string; "
    'output_encoding: string in {"UTF-8", "UTF-16-BE", "UTF-32-BE"}; errors: string in {"strict", "replace", '
    '"ignore"} = "replace"; replacement_char: int = 65533; replace_control_characters: bool = false',
    shape="unchanged",
    exports=("strings.unicode_transcode",),
)
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Convert strings from one Unicode encoding to another."""


@define.op(
    "UnsortedSegmentJoin(inputs: string, segment_ids: Tindices, "
    f'num_segments: Tnumsegments) -> (output: string); separator: string = ""; Tindices: {INDEX}; '
    f"Tnumsegments: {INDEX} = int32",
    exports=("strings.unsorted_segment_join",),
)
def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Any:
    """Join the strings with the same segment number."""
