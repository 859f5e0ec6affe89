"""Values made of several tensors, which structures take apart and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from dtfctl.runtime.framework.tensor_shape import TensorShape


class CompositeTensor:
    """A value that is several tensors of a graph: sparse, ragged, slices of a larger one."""

    def components(self) -> list[Any]:
        """List the tensors that it is made of, in the order in which `with_components` takes them."""
        raise NotImplementedError(type(self).__name__)

    def with_components(self, components: Iterator[Any]) -> Self:
        """Make a value of the same kind of as many others as it has."""
        raise NotImplementedError(type(self).__name__)

    def component_shapes(self, invariant: TensorShape | None) -> list[TensorShape]:
        """List what holds of the components' shapes in all iterations of a loop, by the invariant if there is one."""
        raise NotImplementedError(type(self).__name__)

    @property
    def differentiated(self) -> Any:
        """The tensor that gradients with respect to this value are of."""
        raise NotImplementedError(type(self).__name__)

    def with_gradient(self, gradient: Any) -> Any:
        """Make of the gradient with respect to `differentiated` the one that a program is given."""
        return gradient
