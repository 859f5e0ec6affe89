"""Ops that plans run themselves: control flow, sends and receives, arguments and results of functions.

They are registered so that placement knows where they can go. Their kernels exist for whoever runs a single node; those
that have no meaning outside a plan say so.
"""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.framework.errors import AbortedError, InternalError, InvalidArgumentError
from dtfctl.runtime.kernels.promises import PASSES
from dtfctl.runtime.kernels.registry import CPU_GPU, Kernel, KernelBuild, register_kernel

_IDENTITIES = (
    "Enter",
    "RefEnter",
    "Exit",
    "RefExit",
    "NextIteration",
    "RefNextIteration",
)
_PLAN_ONLY = (
    "Switch",
    "RefSwitch",
    "_SwitchN",
    "Merge",
    "RefMerge",
    "_Send",
    "_Recv",
    "_HostSend",
    "_HostRecv",
    "Send",
    "Recv",
    "_Arg",
    "_Retval",
)


@register_kernel(("NoOp", "ControlTrigger"), devices=CPU_GPU)
def no_op(k: KernelBuild) -> Kernel:
    return lambda: None


@register_kernel(_IDENTITIES, devices=CPU_GPU)
def pass_on(k: KernelBuild) -> Kernel:
    return lambda value: value


@register_kernel("LoopCond", devices=CPU_GPU, promises=PASSES)
def loop_condition(k: KernelBuild) -> Kernel:
    return lambda value: value


@register_kernel(_PLAN_ONLY, devices=CPU_GPU)
def plan_only(k: KernelBuild) -> Kernel:
    name, op = k.node.name, k.node.op

    def refuse(*inputs: Any) -> Any:
        raise InternalError(f"Op '{op}' runs only as part of a plan", name)

    return refuse


@register_kernel("RefSelect", devices=CPU_GPU)
def ref_select(k: KernelBuild) -> Kernel:
    def select(index: Any, *inputs: Any) -> Any:
        if index.ndim:
            raise InvalidArgumentError(f"Index must be a scalar, but it has shape {list(index.shape)}")
        i = int(index)
        if not 0 <= i < len(inputs):
            raise InvalidArgumentError(f"Index must be in the range [0, {len(inputs)}) but got {i}")
        return inputs[i]

    return select


@register_kernel("Abort", devices=CPU_GPU)
def abort(k: KernelBuild) -> Kernel:
    """Stops the step, not the process: one graph must not end a server that others use."""
    message, quiet = k.text_attr("error_msg"), k.attr("exit_without_error")

    def run() -> None:
        if not quiet:
            raise AbortedError(f"Abort_op intentional failure; {message}")

    return run
