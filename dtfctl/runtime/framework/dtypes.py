"""Element types, with TensorFlow's names and enum values, and how each is held in memory.

A tensor's value is always a numpy (or cupy) array. Strings, resource handles and variants are arrays of Python objects
(`dtype=object`): `bytes`, `ResourceHandle` and variant objects. bfloat16, float8 and 4-bit integers are ml_dtypes
types. A reference type (enum value + 100) marks an edge that carries a variable rather than its value.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

REF_OFFSET = 100

_iinfo: Any = ml_dtypes.iinfo
_finfo: Any = ml_dtypes.finfo


class DType:
    """An element type. Instances are singletons: compare with `==` or `is`.

    Attributes:
        as_datatype_enum: TensorFlow's DataType number.
        name: TensorFlow's Python name ("float32", "string", "float32_ref").
        as_numpy_dtype: scalar type of arrays of this type (`object` for string, resource and variant).
    """

    __slots__ = ("_limits", "as_datatype_enum", "as_numpy_dtype", "base_dtype", "kind", "name", "np")

    def __init__(self, number: int, name: str, numpy_type: Any, kind: str, base: DType | None = None) -> None:
        self.as_datatype_enum = number
        self.name = name
        self.as_numpy_dtype = numpy_type
        self.np: np.dtype[Any] = np.dtype(numpy_type)
        self.kind = kind
        self.base_dtype: DType = base or self

    @property
    def is_ref(self) -> bool:
        return self.base_dtype is not self

    @property
    def ref(self) -> DType:
        """The reference type of this type."""
        return BY_NUMBER[self.base_dtype.as_datatype_enum + REF_OFFSET]

    # TensorFlow's own name for `ref`, kept for scripts that use it.
    _as_ref = ref

    @property
    def real_dtype(self) -> DType:
        return {complex64: float32, complex128: float64}.get(self.base_dtype, self.base_dtype)

    @property
    def is_floating(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_unsigned(self) -> bool:
        return self.kind == "uint"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_quantized(self) -> bool:
        return self.kind == "quantized"

    @property
    def is_numpy_compatible(self) -> bool:
        return self.base_dtype not in (resource, variant)

    @property
    def is_object(self) -> bool:
        """True for types held as arrays of Python objects: string, resource, variant."""
        return self.kind in ("string", "resource", "variant")

    @property
    def size(self) -> int:
        """Bytes per element; 1 for object types, as TensorFlow answers."""
        return 1 if self.is_object else self.np.itemsize

    @property
    def min(self) -> Any:
        return self._limit("min")

    @property
    def max(self) -> Any:
        return self._limit("max")

    @property
    def limits(self) -> tuple[Any, Any]:
        return self.min, self.max

    def _limit(self, which: str) -> Any:
        if self.kind in ("int", "uint", "quantized"):
            info: Any = _iinfo(self.np) if "int4" in self.name or "int2" in self.name else np.iinfo(self.np)
        elif self.kind == "float":
            info = _finfo(self.np)
        elif self.kind == "bool":
            return which == "max"
        else:
            raise TypeError(f"Cannot find {which}imum value of {self}.")
        return getattr(info, which)

    def is_compatible_with(self, other: Any) -> bool:
        other = as_dtype(other)
        return self is other or (self.base_dtype is other.base_dtype and not (self.is_ref and not other.is_ref))

    def __eq__(self, other: object) -> bool:
        if other is None:
            return False
        if not isinstance(other, DType):
            try:
                other = as_dtype(other)
            except TypeError:
                return False
        return self is other

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return as_dtype, (self.as_datatype_enum,)


# (number, TensorFlow name, wire word, numpy type, kind)
_TABLE: tuple[tuple[int, str, str, Any, str], ...] = (
    (1, "float32", "float", np.float32, "float"),
    (2, "float64", "double", np.float64, "float"),
    (3, "int32", "int32", np.int32, "int"),
    (4, "uint8", "uint8", np.uint8, "uint"),
    (5, "int16", "int16", np.int16, "int"),
    (6, "int8", "int8", np.int8, "int"),
    (7, "string", "string", object, "string"),
    (8, "complex64", "complex64", np.complex64, "complex"),
    (9, "int64", "int64", np.int64, "int"),
    (10, "bool", "bool", np.bool_, "bool"),
    (11, "qint8", "qint8", np.int8, "quantized"),
    (12, "quint8", "quint8", np.uint8, "quantized"),
    (13, "qint32", "qint32", np.int32, "quantized"),
    (14, "bfloat16", "bfloat16", ml_dtypes.bfloat16, "float"),
    (15, "qint16", "qint16", np.int16, "quantized"),
    (16, "quint16", "quint16", np.uint16, "quantized"),
    (17, "uint16", "uint16", np.uint16, "uint"),
    (18, "complex128", "complex128", np.complex128, "complex"),
    (19, "float16", "half", np.float16, "float"),
    (20, "resource", "resource", object, "resource"),
    (21, "variant", "variant", object, "variant"),
    (22, "uint32", "uint32", np.uint32, "uint"),
    (23, "uint64", "uint64", np.uint64, "uint"),
    (24, "float8_e5m2", "float8_e5m2", ml_dtypes.float8_e5m2, "float"),
    (25, "float8_e4m3fn", "float8_e4m3fn", ml_dtypes.float8_e4m3fn, "float"),
    (26, "float8_e4m3fnuz", "float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, "float"),
    (27, "float8_e4m3b11fnuz", "float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, "float"),
    (28, "float8_e5m2fnuz", "float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, "float"),
    (29, "int4", "int4", ml_dtypes.int4, "int"),
    (30, "uint4", "uint4", ml_dtypes.uint4, "uint"),
    (31, "int2", "int2", ml_dtypes.int2, "int"),
    (32, "uint2", "uint2", ml_dtypes.uint2, "uint"),
    (33, "float4_e2m1fn", "float4_e2m1fn", ml_dtypes.float4_e2m1fn, "float"),
)

BY_NUMBER: dict[int, DType] = {}
_BY_NAME: dict[str, DType] = {}
_BY_NUMPY: dict[Any, DType] = {}
WIRE_NAME: dict[DType, str] = {}
for _number, _name, _wire, _numpy, _kind in _TABLE:
    _dtype = DType(_number, _name, _numpy, _kind)
    _ref = DType(_number + REF_OFFSET, _name + "_ref", _numpy, _kind, base=_dtype)
    BY_NUMBER[_number], BY_NUMBER[_number + REF_OFFSET] = _dtype, _ref
    for _key in (_name, _wire):
        _BY_NAME[_key], _BY_NAME[_key + "_ref"] = _dtype, _ref
    WIRE_NAME[_dtype], WIRE_NAME[_ref] = _wire, f"ref({_wire})"
    if _kind not in ("quantized", "string", "resource", "variant"):
        _BY_NUMPY[np.dtype(_numpy)] = _dtype

float32, float64, float16 = BY_NUMBER[1], BY_NUMBER[2], BY_NUMBER[19]
half, double, bfloat16 = float16, float64, BY_NUMBER[14]
int8, int16, int32, int64 = BY_NUMBER[6], BY_NUMBER[5], BY_NUMBER[3], BY_NUMBER[9]
uint8, uint16, uint32, uint64 = BY_NUMBER[4], BY_NUMBER[17], BY_NUMBER[22], BY_NUMBER[23]
complex64, complex128 = BY_NUMBER[8], BY_NUMBER[18]
string, resource, variant = BY_NUMBER[7], BY_NUMBER[20], BY_NUMBER[21]
qint8, quint8, qint16, quint16, qint32 = (BY_NUMBER[n] for n in (11, 12, 15, 16, 13))
int4, uint4 = BY_NUMBER[29], BY_NUMBER[30]
float8_e5m2, float8_e4m3fn, float8_e4m3fnuz, float8_e4m3b11fnuz, float8_e5m2fnuz = (BY_NUMBER[n] for n in range(24, 29))
# `bool` is TensorFlow's public name; inside this module the builtin is not needed below this line.
bool_ = BY_NUMBER[10]


def as_dtype(type_value: Any) -> DType:
    """Find the `DType` meant by a DType, enum number, name, numpy type or Python type.

    Raises:
        TypeError: nothing of that name exists.
    """
    if isinstance(type_value, DType):
        return type_value
    if isinstance(type_value, (int, np.integer)) and not isinstance(type_value, (bool, np.bool_)):
        found = BY_NUMBER.get(int(type_value))
    elif isinstance(type_value, str):
        found = _BY_NAME.get(type_value)
    elif type_value is float:
        found = float32
    elif type_value is int:
        found = int32
    elif type_value is bool:
        found = bool_
    elif type_value in (str, bytes, object):
        found = string
    else:
        found = None
    if found is not None:
        return found
    try:
        numpy_dtype = np.dtype(type_value)
    except TypeError:
        numpy_dtype = None
    if numpy_dtype is not None:
        if numpy_dtype.kind in "SUO":
            return string
        found = _BY_NUMPY.get(numpy_dtype)
    if found is None:
        raise TypeError(f"Cannot convert value {type_value!r} to a TensorFlow DType.")
    return found
