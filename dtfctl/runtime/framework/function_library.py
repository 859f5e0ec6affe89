"""Functions that nodes of a graph call by name, with their gradient functions."""

from __future__ import annotations

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.op_signature import OpSignature, find_signature, get_signature


class FunctionLibrary:
    """Functions a graph's nodes may call, by name, with their gradient functions."""

    def __init__(self, proto: graph_pb2.FunctionDefLibrary | None = None) -> None:
        self.functions: dict[str, graph_pb2.FunctionDef] = {}
        self.gradients: dict[str, str] = {}
        if proto is not None:
            self.add(proto)

    def add(self, proto: graph_pb2.FunctionDefLibrary) -> None:
        for f in proto.function:
            self.functions[f.signature.name] = f
        for g in proto.gradient:
            self.gradients[g.function_name] = g.gradient_func

    def extended(self, proto: graph_pb2.FunctionDefLibrary) -> FunctionLibrary:
        """Make a library with these functions too.

        Raises:
            InvalidArgumentError: a function differs from one of its name, or has the name of an op.
        """
        out = FunctionLibrary()
        out.functions = dict(self.functions)
        out.gradients = dict(self.gradients)
        for f in proto.function:
            name = f.signature.name
            known = out.functions.get(name)
            if known is not None and known != f:
                raise InvalidArgumentError(
                    f"Cannot add function '{name}' because a different function with the same name already exists."
                )
            if find_signature(name) is not None:
                raise InvalidArgumentError(
                    f"Cannot add function '{name}' because an op with the same name already exists."
                )
            out.functions[name] = f
        for g in proto.gradient:
            known_gradient = out.gradients.get(g.function_name, g.gradient_func)
            if known_gradient != g.gradient_func:
                raise InvalidArgumentError(
                    f"Cannot assign gradient function '{g.gradient_func}' to '{g.function_name}' because it already "
                    f"has gradient function '{known_gradient}'"
                )
            out.gradients[g.function_name] = g.gradient_func
        return out

    def take(self, other: FunctionLibrary) -> None:
        """Hold what `other`, made by `extended`, holds."""
        self.functions, self.gradients = other.functions, other.gradients

    def find(self, name: str) -> graph_pb2.FunctionDef | None:
        return self.functions.get(name)

    def signature(self, op: str) -> OpSignature:
        """Find the signature of an op or of a function called as one.

        Raises:
            NotFoundError: neither exists.
        """
        known = find_signature(op)
        if known is not None:
            return known
        function = self.functions.get(op)
        if function is None:
            return get_signature(op)
        try:
            return OpSignature.from_proto(function.signature)
        except (TypeError, ValueError) as e:
            raise InvalidArgumentError(f"Function '{op}' has a malformed signature: {e}") from e

    def to_proto(self) -> graph_pb2.FunctionDefLibrary:
        proto = graph_pb2.FunctionDefLibrary(function=self.functions.values())
        for name, gradient in self.gradients.items():
            proto.gradient.add(function_name=name, gradient_func=gradient)
        return proto
