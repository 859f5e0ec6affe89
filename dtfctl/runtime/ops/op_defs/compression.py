"""Entries of the compression family: tensors that are made smaller where they cross a network."""

from __future__ import annotations

from dtfctl.runtime.ops.op_defs.entry import OpFamily

define = OpFamily("compression")

_CODEC = "codec: string; shape: shape"

define.op(
    f"CompressedTransfer(value: float, state: N * ref(float)) -> (output: float); N: int >= 0 = 0; {_CODEC}; "
    "always: bool = false; !uninitialized_input",
    shape="unchanged",
    gradient=lambda op, grad: [grad, *(None for _ in op.inputs[1:])],
)
define.op(
    f"EncodeTensor(value: float, state: N * ref(float)) -> (encoded: uint8); N: int >= 0 = 0; {_CODEC}; "
    'edge: string = ""; peer: string = ""; !stateful; !uninitialized_input'
)
define.op(
    f'DecodeTensor(encoded: uint8) -> (value: float); {_CODEC}; peer: string = ""',
    shape=lambda op: [op.get_attr("shape")],
)
define.op(
    "RestoreTransferState(state: ref(float), worker: string, keys: string, values: float) -> (); "
    "!stateful; !uninitialized_input"
)
