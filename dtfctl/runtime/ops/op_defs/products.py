"""Entries of the runtime's own ops for products whose factors or sums others share; tasks put them into their parts of
graphs (`compiler/passes/products.py`), nobody else does.
"""

from __future__ import annotations

from dtfctl.runtime.ops.op_defs.entry import OpFamily

define = OpFamily("math")

_FLOATS = "T: type in {float, double}"

define.op(f"_Factor(matrix: T) -> (factor: variant); {_FLOATS}", gradient="none")
define.op(f"_MatMulByFactor(a: T, b: variant) -> (product: T); transpose_b: bool = false; {_FLOATS}", gradient="none")
define.op(f"_SumOfProducts(initial: T) -> (sum: variant); {_FLOATS}", gradient="none")
define.op(f"_AddProduct(sum: variant, a: T, b: T) -> (result: variant); {_FLOATS}", gradient="none")
define.op(f"_EndSumOfProducts(sum: variant) -> (value: T); {_FLOATS}", gradient="none")
