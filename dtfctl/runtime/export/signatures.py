"""Signatures: which tensors of a graph are the inputs and outputs of what it is for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dtfctl.protocol.meta_graph_pb2 import SignatureDef, TensorInfo
from dtfctl.runtime.export import constants
from dtfctl.runtime.framework import context, dtypes
from dtfctl.runtime.framework.convert import SparseTensor, convert_to_tensor
from dtfctl.runtime.framework.graph import Graph


def build_tensor_info(tensor: Any) -> TensorInfo:
    """Describe a tensor, variable or SparseTensor: its name, type and static shape.

    Raises:
        RuntimeError: eager execution is enabled: tensors have no names then.
    """
    if context.get_default_graph().executes:
        raise RuntimeError("build_tensor_info is not supported in Eager mode.")
    if isinstance(tensor, SparseTensor):
        info = TensorInfo(dtype=_enum(tensor.values.dtype), tensor_shape=tensor.get_shape().as_proto())
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
        return info
    return TensorInfo(name=tensor.name, dtype=_enum(tensor.dtype), tensor_shape=tensor.shape.as_proto())


def _enum(dtype: dtypes.DType) -> Any:
    return dtype.base_dtype.as_datatype_enum


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Any:
    """Find the tensor or SparseTensor of a graph that a TensorInfo names.

    Raises:
        KeyError: the graph has no such tensor; ValueError: the TensorInfo names none.
    """
    graph = graph or context.get_default_graph()

    def named(name: str) -> Any:
        return graph.get_tensor_by_name(f"{import_scope}/{name}" if import_scope else name)

    encoding = tensor_info.WhichOneof("encoding")
    if encoding == "name":
        return named(tensor_info.name)
    if encoding == "coo_sparse":
        coo = tensor_info.coo_sparse
        return SparseTensor(
            named(coo.indices_tensor_name), named(coo.values_tensor_name), named(coo.dense_shape_tensor_name)
        )
    raise ValueError(f"Invalid TensorInfo.encoding: {encoding}")


def build_signature_def(
    inputs: Mapping[str, TensorInfo] | None = None,
    outputs: Mapping[str, TensorInfo] | None = None,
    method_name: str | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> SignatureDef:
    """Make a signature from TensorInfos by name.

    Raises:
        ValueError: inputs are to have defaults.
    """
    if defaults:
        raise ValueError("inputs of signatures have no defaults here: use tf.placeholder_with_default")
    return SignatureDef(inputs=inputs or {}, outputs=outputs or {}, method_name=method_name or "")


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """Make a signature of the predict API, from tensors by name.

    Raises:
        ValueError: there are no inputs or no outputs.
    """
    if not inputs:
        raise ValueError("Prediction `inputs` cannot be None or empty.")
    if not outputs:
        raise ValueError("Prediction `outputs` cannot be None or empty.")
    return build_signature_def(_infos(inputs), _infos(outputs), constants.PREDICT_METHOD_NAME)


def regression_signature_def(examples: Any, predictions: Any) -> SignatureDef:
    """Make a signature of the regress API: a string tensor of examples, a float tensor of predictions.

    Raises:
        ValueError: one is missing, or of another type.
    """
    inputs = {constants.REGRESS_INPUTS: _of_type(examples, dtypes.string, "Regression `examples`")}
    outputs = {constants.REGRESS_OUTPUTS: _of_type(predictions, dtypes.float32, "Regression output")}
    return build_signature_def(_infos(inputs), _infos(outputs), constants.REGRESS_METHOD_NAME)


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> SignatureDef:
    """Make a signature of the classify API: string examples, and string classes or float scores or both.

    Raises:
        ValueError: what is needed is missing, or of another type.
    """
    inputs = {constants.CLASSIFY_INPUTS: _of_type(examples, dtypes.string, "Classification `examples`")}
    if classes is None and scores is None:
        raise ValueError("Classification `classes` and `scores` cannot both be None.")
    outputs = {}
    if classes is not None:
        outputs[constants.CLASSIFY_OUTPUT_CLASSES] = _of_type(classes, dtypes.string, "Classification classes")
    if scores is not None:
        outputs[constants.CLASSIFY_OUTPUT_SCORES] = _of_type(scores, dtypes.float32, "Classification scores")
    return build_signature_def(_infos(inputs), _infos(outputs), constants.CLASSIFY_METHOD_NAME)


def is_valid_signature(signature_def: SignatureDef | None) -> bool:
    """Tell whether a signature has the inputs and outputs, with their types, that its method asks for."""
    if signature_def is None:
        return False
    inputs, outputs = signature_def.inputs, signature_def.outputs
    if signature_def.method_name == constants.PREDICT_METHOD_NAME:
        return bool(inputs and outputs)
    wanted = {
        constants.REGRESS_METHOD_NAME: {constants.REGRESS_OUTPUTS: dtypes.float32},
        constants.CLASSIFY_METHOD_NAME: {
            constants.CLASSIFY_OUTPUT_CLASSES: dtypes.string,
            constants.CLASSIFY_OUTPUT_SCORES: dtypes.float32,
        },
    }.get(signature_def.method_name)
    if wanted is None or set(inputs) != {"inputs"} or inputs["inputs"].dtype != _enum(dtypes.string):
        return False
    return bool(outputs) and all(k in wanted and info.dtype == _enum(wanted[k]) for k, info in outputs.items())


def _infos(tensors: Mapping[str, Any]) -> dict[str, TensorInfo]:
    return {key: build_tensor_info(tensor) for key, tensor in tensors.items()}


def _of_type(tensor: Any, dtype: dtypes.DType, what: str) -> Any:
    if tensor is None:
        raise ValueError(f"{what} cannot be None.")
    found = tensor if isinstance(tensor, SparseTensor) else convert_to_tensor(tensor)
    actual = found.values.dtype if isinstance(found, SparseTensor) else found.dtype
    if actual.base_dtype is not dtype:
        raise ValueError(f"{what} must be of type {dtype.name}, got {actual.name}.")
    return found
