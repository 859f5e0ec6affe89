"""What a spec says of how tasks exchange tensors: which way, whether encrypted, and what is sent smaller."""
# ruff: noqa: RUF009  (`option` makes the dataclass field itself)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dtfctl.launcher.spec.kinds import Choice, Integer, MapOf, Table, Text, option

_PARAMETERS_OF_A_CODEC = r"(:[a-z]+=[0-9.e-]+(,[a-z]+=[0-9.e-]+)*)?"
_GRADIENTS = Text(
    "none, float16, bfloat16, int8, onebit, topk or powersgd, with parameters as in topk:ratio=0.01",
    rf"none|float16|bfloat16|(int8|onebit|topk|powersgd){_PARAMETERS_OF_A_CODEC}",
)
_PARAMETERS = Text("none, float16, bfloat16 or int8", rf"none|float16|bfloat16|int8{_PARAMETERS_OF_A_CODEC}")


@dataclass(frozen=True, slots=True)
class VariableCompression:
    """How one variable crosses between hosts."""

    gradients: str | None = option(_GRADIENTS, "Its gradients.", "none", default=None, default_text="as the others'")
    parameters: str | None = option(_PARAMETERS, "Its value.", "none", default=None, default_text="as the others'")


@dataclass(frozen=True, slots=True)
class TransferCompression:
    """How large variables and their gradients cross between hosts."""

    gradients: str = option(_GRADIENTS, "Dense gradients.", "topk:ratio=0.01", default="none")
    parameters: str = option(_PARAMETERS, "What workers read of variables.", "bfloat16", default="none")
    variables: Mapping[str, VariableCompression] = option(
        MapOf(Table(VariableCompression), "a variable's name, or a pattern of names", r"[A-Za-z0-9_./*?\[\]-]{1,200}"),
        "Exceptions by name; the first that fits holds.",
        "{embedding/*: {gradients: none}}",
        factory=dict,
    )
    least: int = option(Integer(low=1), "Variables of fewer elements are sent as they are.", "65536", default=4096)


@dataclass(frozen=True, slots=True)
class Runtime:
    """How tasks exchange tensors."""

    transport: Literal["auto", "shm", "ucx", "tcp", "grpc"] = option(
        Choice(("auto", "shm", "ucx", "tcp", "grpc")),
        "`auto`: shared memory between tasks of a host, else UCX where it is installed and finds InfiniBand or RoCE, "
        "else sockets, else gRPC where no other port is open; or the one to use.",
        "tcp",
        default="auto",
    )
    encrypt: Literal["auto", "none"] = option(
        Choice(("auto", "none")),
        "`auto` encrypts tensors between hosts where `security.tls` does; `none` does not. Tasks prove who they are "
        "either way.",
        "none",
        default="auto",
    )
    compression: TransferCompression = option(
        Table(TransferCompression),
        "What is sent smaller between hosts, by jobs of the framework dtf that say nothing else.",
        "{gradients: topk, parameters: bfloat16}",
        factory=TransferCompression,
    )
