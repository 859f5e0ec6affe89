"""How large the results of ops are that may be far larger than what they are given, by what they are given.

An op that makes much of little is an entry here; `admission.py` looks here before each of its kernels runs. What a
function here raises for inputs that make no sense is taken for no answer: the kernel says better what is wrong.
"""

from dtfctl.runtime.kernels.result_sizes import shapes, values
from dtfctl.runtime.kernels.result_sizes.table import ONLY_IF, SIZES, SLOT_BYTES, item_bytes_of

__all__ = ["ONLY_IF", "SIZES", "SLOT_BYTES", "item_bytes_of", "shapes", "values"]
