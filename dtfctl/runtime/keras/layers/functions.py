"""Functions of the program's own as layers, and as descriptions: the code of a function, or its name."""

from __future__ import annotations

import base64
import inspect
import marshal
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.keras import registry
from dtfctl.runtime.keras.base_layer import Layer


class Lambda(Layer):
    """A function as a layer."""

    def __init__(
        self,
        function: Callable[..., Any],
        output_shape: Any = None,
        mask: Any = None,
        arguments: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.function, self.arguments, self.mask = function, arguments or {}, mask
        self._output_shape = output_shape
        self.supports_masking = mask is not None

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        """Compute the outputs for inputs."""
        arguments = dict(self.arguments)
        takes = inspect.signature(self.function).parameters
        for name, value in (("mask", mask), ("training", training)):
            if name in takes and name not in arguments:
                arguments[name] = value
        return self.function(inputs, **arguments)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the mask of the outputs."""
        return self.mask(inputs, mask) if callable(self.mask) else self.mask

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Compute the shape of the outputs, if it was said."""
        if self._output_shape is None:
            return super().compute_output_shape(input_shape)
        if callable(self._output_shape):
            return TensorShape(self._output_shape(input_shape))
        return TensorShape([TensorShape(input_shape).as_list()[0], *self._output_shape])

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that make this layer again: the functions of the program's as code, or by name."""
        config = {**super().get_config(), "arguments": self.arguments}
        parts = {"": self.function, "output_shape": self._output_shape, "mask": self.mask}
        for name, value in parts.items():
            if name == "mask" and value is None:
                continue
            dumped, kind, module = _dumped(value)
            config[name or "function"] = dumped
            config[f"{name or 'function'}_type"] = kind
            config[f"{name}_module" if name else "module"] = module
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Make the layer that `get_config` described: code in it is run when the layer is called."""
        config = dict(config)
        for name in ("function", "output_shape", "mask"):
            if name in config:
                module = config.pop("module" if name == "function" else f"{name}_module", None)
                kind = config.pop(f"{name}_type", "raw")
                config[name] = _loaded(config[name], kind, module, custom_objects)
        arguments = config.get("arguments") or {}
        config["arguments"] = {
            key: np.array(value["value"]) if isinstance(value, dict) and value.get("type") == "ndarray" else value
            for key, value in arguments.items()
        }
        return cls(**config)


def _dumped(value: Any) -> tuple[Any, str, str | None]:
    """Describe a function: what it is, of which kind the description is, and the module whose names it sees."""
    if isinstance(value, types.FunctionType):
        code = base64.encodebytes(marshal.dumps(value.__code__)).decode()
        closure = tuple(cell.cell_contents for cell in value.__closure__) if value.__closure__ else None
        return (code, value.__defaults__, closure), "lambda", value.__module__
    if callable(value):
        return value.__name__, "function", getattr(value, "__module__", None)
    return value, "raw", None


def _loaded(dumped: Any, kind: str, module: str | None, custom_objects: Any) -> Any:
    """Make the function that `_dumped` described.

    Raises:
        ValueError: it is code of another release of Python, or code is refused.
    """
    if kind == "raw":
        return tuple(dumped) if isinstance(dumped, list) else dumped
    if kind == "function":
        return registry.deserialize_keras_object(dumped, {}, custom_objects, "function in Lambda layer")
    if registry.refuses_code():
        raise ValueError(
            "The model has a Lambda layer, whose code would be run, and safe_mode refuses that: load it with "
            "safe_mode=False if you trust whoever saved it, or make the model by the program and load its weights"
        )
    code, defaults, closure = dumped
    try:
        found = marshal.loads(base64.decodebytes(code.encode()))
    except (ValueError, EOFError, TypeError) as e:
        raise ValueError(
            "A Lambda layer's function was saved by another release of Python, or not whole: make the model with the "
            "program's code, and load its weights (Model.load_weights)"
        ) from e
    names = dict(vars(sys.modules[module])) if module in sys.modules else {"__builtins__": __builtins__}
    names |= registry.get_custom_objects() | dict(custom_objects or {})
    cells = None if closure is None else tuple(types.CellType(value) for value in closure)
    return types.FunctionType(found, names, found.co_name, None if defaults is None else tuple(defaults), cells)
