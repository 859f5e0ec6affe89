"""Requests and answers of the REST API as JSON: TensorFlow Serving's forms."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from dtfctl.protocol.example_pb2 import Example
from dtfctl.protocol.serving_pb2 import Input
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.framework.tensor_codec import object_array
from dtfctl.serve.signatures import Port, Signature

Array = np.ndarray[Any, Any]


def parse(body: bytes) -> dict[str, Any]:
    """Read a request's body.

    Raises:
        InvalidArgumentError: it is no JSON object.
    """
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        # NaN and Infinity, which TensorFlow Serving takes, too; half a surrogate pair; or what is wrong with it.
        found = _loads(body)
    if not isinstance(found, dict):
        raise InvalidArgumentError("JSON Parse error: the body has to be an object")
    return found


def _loads(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"JSON Parse error: {error}") from None


def signature_name(request: Mapping[str, Any]) -> str:
    """Read which signature is asked for; "" for the default one."""
    name = request.get("signature_name", "")
    if not isinstance(name, str):
        raise InvalidArgumentError("'signature_name' key must be a string value.")
    return name


def holds_bools(body: bytes) -> bool:
    """Tell whether there may be a bool in a body, before it is parsed: looking at each value takes as long as that."""
    return b"true" in body or b"false" in body


def inputs(request: Mapping[str, Any], signature: Signature, bools: bool = True) -> tuple[dict[str, Array], bool]:
    """Read the inputs of a predict request, and whether they came in rows.

    Args:
        bools: whether there may be bools among the values.

    Raises:
        InvalidArgumentError: they do not fit the signature.
    """
    if ("instances" in request) == ("inputs" in request):
        raise InvalidArgumentError("a predict request has either 'instances' or 'inputs'")
    if "inputs" in request:
        given = request["inputs"]
        named = given if isinstance(given, dict) and not _is_binary(given) else None
        columns = named if named is not None else {_only(signature).alias: given}
        return _arrays(columns, signature, bools), False
    rows = request["instances"]
    if not isinstance(rows, list) or not rows:
        raise InvalidArgumentError("'instances' has to be a list that is not empty")
    if isinstance(rows[0], dict) and not _is_binary(rows[0]):
        names = rows[0].keys()
        for number, row in enumerate(rows):
            if not isinstance(row, dict) or row.keys() != names:
                raise InvalidArgumentError(f"instance {number} has to be an object with {', '.join(sorted(names))}")
        return _arrays({name: [row[name] for row in rows] for name in names}, signature, bools), True
    return _arrays({_only(signature).alias: rows}, signature, bools), True


def _only(signature: Signature) -> Port:
    if len(signature.inputs) != 1:
        names = ", ".join(port.alias for port in signature.inputs)
        raise InvalidArgumentError(f"the signature has several inputs: give objects with {names}")
    return signature.inputs[0]


def _arrays(columns: Mapping[str, Any], signature: Signature, bools: bool) -> dict[str, Array]:
    ports = {port.alias: port for port in signature.inputs}
    # A name that is not known is told by the signature's own check.
    return {
        name: _array(given, ports[name], bools) if name in ports else np.zeros(0) for name, given in columns.items()
    }


def _array(given: Any, port: Port, bools: bool) -> Array:
    kind = np.dtype(port.dtype.as_numpy_dtype)
    if kind.hasobject:
        return _strings(given, port)
    try:
        made = np.array(given)
    except ValueError:
        raise InvalidArgumentError(f"input {port.alias}: its lists have to be of one length") from None
    wanted = "a bool" if kind.kind == "b" else "a whole number" if kind.kind in "iu" else "a number"
    allowed = {"b": "b", "i": "iu", "u": "iu"}.get(kind.kind, "iuf")
    # Among numbers NumPy takes a bool for one.
    if made.size and (made.dtype.kind not in allowed or (bools and kind.kind != "b" and _has_bool(given))):
        raise InvalidArgumentError(f"input {port.alias}: each value has to be {wanted}")
    if kind.kind in "iu" and made.size:
        limits = np.iinfo(kind)
        if int(made.min()) < limits.min or int(made.max()) > limits.max:
            raise InvalidArgumentError(f"input {port.alias}: a value is out of the range of {port.dtype.name}")
    return made.astype(kind, copy=False)


def _has_bool(given: Any) -> bool:
    if not isinstance(given, list):
        return isinstance(given, bool)
    kinds = set(map(type, given))
    return bool in kinds or (list in kinds and any(map(_has_bool, given)))


def _strings(given: Any, port: Port) -> Array:
    shape: list[int] = []
    level = given
    while isinstance(level, list):
        shape.append(len(level))
        if not level:
            break
        level = level[0]
    flat: list[bytes] = []

    def read(value: Any, depth: int) -> None:
        if depth < len(shape):
            if not isinstance(value, list) or len(value) != shape[depth]:
                raise InvalidArgumentError(f"input {port.alias}: its lists have to be of one length")
            for one in value:
                read(one, depth + 1)
        else:
            flat.append(_bytes(value, port.alias))

    read(given, 0)
    return object_array(flat, tuple(shape))


def _is_binary(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str)


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if _is_binary(value):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except binascii.Error:
            raise InvalidArgumentError(f"{name}: Unable to base64 decode") from None
    raise InvalidArgumentError(f'{name}: each value has to be a string, or {{"b64": "..."}}')


def predictions(found: Mapping[str, Array], by_rows: bool) -> bytes:
    """Write the answer to a predict request.

    Raises:
        InvalidArgumentError: in rows, where outputs do not have one row for each of the same number of examples.
    """
    if not by_rows:
        columns = {name: _json(value, name) for name, value in found.items()}
        return _dump({"outputs": next(iter(columns.values())) if len(columns) == 1 else columns})
    counts = {value.shape[0] if value.ndim else None for value in found.values()}
    if len(counts) != 1 or None in counts:
        raise InvalidArgumentError("outputs have no common number of rows: ask by 'inputs' in place of 'instances'")
    plain = {name: _json(value, name) for name, value in found.items()}
    if len(plain) == 1:
        return _dump({"predictions": next(iter(plain.values()))})
    names = list(plain)
    return _dump({"predictions": [dict(zip(names, row)) for row in zip(*plain.values())]})


def _json(value: Array, name: str) -> Any:
    if value.dtype != object:
        kind = value.dtype.kind
        return (value if kind in "biuf" else value.astype(np.float64)).tolist()
    return _texts(value.tolist(), name.endswith("_bytes"))


def _texts(value: Any, binary: bool) -> Any:
    if isinstance(value, list):
        return [_texts(one, binary) for one in value]
    content = bytes(value)
    if binary:
        return {"b64": base64.b64encode(content).decode()}
    return content.decode("utf-8", "replace")


def _dump(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def examples(request: Mapping[str, Any]) -> Input:
    """Read the Examples of a classify or regress request.

    Raises:
        InvalidArgumentError: there are none, or a feature is of no type that it could be.
    """
    given = request.get("examples")
    if not isinstance(given, list) or not given:
        raise InvalidArgumentError("'examples' has to be a list of objects that is not empty")
    context = request.get("context")
    made = Input()
    if context is None:
        made.example_list.examples.extend(_example(one) for one in given)
    else:
        made.example_list_with_context.context.CopyFrom(_example(context))
        made.example_list_with_context.examples.extend(_example(one) for one in given)
    return made


def _example(given: Any) -> Example:
    if not isinstance(given, dict):
        raise InvalidArgumentError("each of 'examples' has to be an object of features")
    made = Example()
    for name, value in given.items():
        _fill(made, name, value if isinstance(value, list) else [value])
    return made


def _fill(made: Example, name: str, values: Sequence[Any]) -> None:
    try:
        feature = made.features.feature[name]
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{name!r} is no text that could be a feature's name") from None
    if all(isinstance(one, int) and not isinstance(one, bool) for one in values):
        if any(abs(one) >= 2**63 for one in values):
            raise InvalidArgumentError(f"feature {name}: a number is too large")
        feature.int64_list.value.extend(values)
    elif all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        try:
            feature.float_list.value.extend(values)
        except OverflowError:
            raise InvalidArgumentError(f"feature {name}: a number is too large") from None
    else:
        feature.bytes_list.value.extend(_bytes(one, f"feature {name}") for one in values)


def results(content: Any) -> bytes:
    """Write the answer to a classify or regress request."""
    return _dump({"results": content})
