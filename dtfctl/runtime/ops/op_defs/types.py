"""Sets of types that many signatures name, in TensorFlow's order."""

INDEX = "type in {int32, int64}"
FLOATS = "type in {bfloat16, half, float, double}"
HALF_FIRST = "type in {half, bfloat16, float, double}"
REALS = "type in {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}"
NUMBERS = (
    "type in {float, double, int32, uint8, int16, int8, complex64, int64, qint8, quint8, qint32, bfloat16, qint16, "
    "quint16, uint16, complex128, half, uint32, uint64}"
)
FLOATS_COMPLEX = "type in {bfloat16, half, float, double, complex64, complex128}"
COMPLEX = "type in {complex64, complex128}"
QUANTIZED = "type in {qint8, quint8, qint32, qint16, quint16}"
