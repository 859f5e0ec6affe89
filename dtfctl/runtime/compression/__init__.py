"""How dense tensors are made smaller for a network: codecs of numbers, without graphs or links.

A codec turns 32-bit floats into bytes that decode to nearly the same ones. What is lost in a step is not lost for
training where the codec keeps a state: it is added to what comes next (error feedback).
"""

from __future__ import annotations

from dtfctl.runtime.compression.codec import Codec, codec_names, decode, encode, is_encoded, parse_codec
from dtfctl.runtime.compression.few_bits import BFloat16, Float16, Int8, OneBit
from dtfctl.runtime.compression.low_rank import PowerSGD
from dtfctl.runtime.compression.tally import ENCODED
from dtfctl.runtime.compression.top_k import TopK

__all__ = [
    "ENCODED",
    "BFloat16",
    "Codec",
    "Float16",
    "Int8",
    "OneBit",
    "PowerSGD",
    "TopK",
    "codec_names",
    "decode",
    "encode",
    "is_encoded",
    "parse_codec",
]
