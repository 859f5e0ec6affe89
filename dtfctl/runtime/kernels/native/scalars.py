"""Functions of single-precision numbers as instructions that LLVM can make vectors of: no calls, no branches.

Each follows Cephes' polynomials. What is not a number stays so; infinities and numbers that are not normal give what
they should. `tests/unit/kernels/test_native_scalars.py` holds them to the last places they promise.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

F32, I32, I1 = ir.FloatType(), ir.IntType(32), ir.IntType(1)
_ROUNDER = 12582912.0  # 1.5 * 2**23: added to a small number it leaves the nearest whole one in the low bits.
# The exponential of what is smaller is less than half of the smallest number there is.
_GIVES_ZERO = -104.0


def number(value: float) -> Any:
    import numpy as np

    return ir.Constant(F32, float(np.float32(value)))


def _intrinsic(b: Any, name: str, *args: Any) -> Any:
    kind = args[0].type
    function = b.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind] * len(args)))
    return b.call(function, args)


def fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    return _intrinsic(b, "llvm.fma", x, y, z)


def absolute(b: Any, x: Any) -> Any:
    return _intrinsic(b, "llvm.fabs", x)


def root(b: Any, x: Any) -> Any:
    return _intrinsic(b, "llvm.sqrt", x)


def _polynomial(b: Any, x: Any, factors: list[float]) -> Any:
    value = number(factors[0])
    for factor in factors[1:]:
        value = fma(b, value, x, number(factor))
    return value


def _power_of_two(b: Any, n: Any) -> Any:
    return b.bitcast(b.shl(b.add(n, I32(127)), I32(23)), F32)


def exp(b: Any, x: Any) -> Any:
    # Attention is masked by large negative numbers, and a processor takes a hundred times as long where a result is
    # smaller than what is normal: of what gives zero the power of another number is computed.
    gives_zero = b.fcmp_ordered("<", x, number(_GIVES_ZERO))
    return b.select(gives_zero, number(0.0), _powers(b, b.select(gives_zero, number(0.0), x))[0])


def expm1(b: Any, x: Any) -> Any:
    # Below that it is -1.
    y, rest, n = _powers(b, b.select(b.fcmp_ordered("<", x, number(-20.0)), number(-20.0), x))
    # Where nothing was taken off x the power is 1 + rest.
    return b.select(b.icmp_signed("==", n, I32(0)), rest, b.fsub(y, number(1.0)))


def _powers(b: Any, x: Any) -> tuple[Any, Any, Any]:
    """Return exp(x), and (1 + rest) * 2 ** n that it is made of: rest and n; x is not below `_GIVES_ZERO`."""
    x = b.select(b.fcmp_ordered(">", x, number(89.0)), number(89.0), x)
    shifted = fma(b, x, number(1.44269504088896341), number(_ROUNDER))
    n = b.sub(b.bitcast(shifted, I32), b.bitcast(number(_ROUNDER), I32))
    whole = b.fsub(shifted, number(_ROUNDER))
    r = fma(b, whole, number(-0.693359375), x)
    r = fma(b, whole, number(2.12194440e-4), r)
    p = _polynomial(
        b,
        r,
        [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1],
    )
    rest = fma(b, p, b.fmul(r, r), r)
    y = b.fadd(rest, number(1.0))
    # In two steps: the power itself may be too large or too small.
    half = b.ashr(n, I32(1))
    return b.fmul(b.fmul(y, _power_of_two(b, half)), _power_of_two(b, b.sub(n, half))), rest, n


def log(b: Any, x: Any) -> Any:
    is_small = b.fcmp_ordered("<", x, number(1.17549435e-38))
    scaled = b.select(is_small, b.fmul(x, number(8388608.0)), x)
    bits = b.bitcast(scaled, I32)
    e = b.sub(b.ashr(bits, I32(23)), I32(126))
    e = b.sub(e, b.select(is_small, I32(23), I32(0)))
    m = b.bitcast(b.or_(b.and_(bits, I32(0x007FFFFF)), I32(0x3F000000)), F32)
    is_low = b.fcmp_ordered("<", m, number(0.707106781186547524))
    e = b.sub(e, b.select(is_low, I32(1), I32(0)))
    m = b.fsub(b.select(is_low, b.fadd(m, m), m), number(1.0))
    exponent = b.sitofp(e, F32)
    z = b.fmul(m, m)
    p = _polynomial(
        b,
        m,
        [
            7.0376836292e-2,
            -1.1514610310e-1,
            1.1676998740e-1,
            -1.2420140846e-1,
            1.4249322787e-1,
            -1.6668057665e-1,
            2.0000714765e-1,
            -2.4999993993e-1,
            3.3333331174e-1,
        ],
    )
    y = b.fmul(b.fmul(m, z), p)
    y = fma(b, exponent, number(-2.12194440e-4), y)
    y = fma(b, z, number(-0.5), y)
    y = fma(b, exponent, number(0.693359375), b.fadd(m, y))
    # Infinity and what is not a number are their own logarithms.
    y = b.select(b.fcmp_unordered("<", x, number(float("inf"))), y, x)
    y = b.select(b.fcmp_ordered("==", x, number(0.0)), number(float("-inf")), y)
    y = b.select(b.fcmp_ordered("<", x, number(0.0)), number(float("nan")), y)
    return b.select(b.fcmp_unordered("uno", x, x), x, y)


def log1p(b: Any, x: Any) -> Any:
    u = b.fadd(x, number(1.0))
    lost = b.fdiv(b.fsub(b.fsub(u, number(1.0)), x), u)
    y = b.fsub(log(b, u), lost)
    is_whole = b.or_(b.fcmp_ordered("==", u, number(float("inf"))), b.fcmp_ordered("==", u, number(0.0)))
    y = b.select(is_whole, log(b, u), y)
    return b.select(b.fcmp_ordered("==", u, number(1.0)), x, y)


def sigmoid(b: Any, x: Any) -> Any:
    e = exp(b, b.fneg(absolute(b, x)))
    y = b.fdiv(number(1.0), b.fadd(e, number(1.0)))
    return b.select(b.fcmp_ordered("<", x, number(0.0)), b.fmul(e, y), y)


def tanh(b: Any, x: Any) -> Any:
    a = absolute(b, x)
    e = exp(b, b.fmul(a, number(-2.0)))
    large = b.fdiv(b.fsub(number(1.0), e), b.fadd(number(1.0), e))
    large = b.select(b.fcmp_ordered("<", x, number(0.0)), b.fneg(large), large)
    z = b.fmul(x, x)
    p = _polynomial(
        b,
        z,
        [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1],
    )
    small = fma(b, b.fmul(p, z), x, x)
    return b.select(b.fcmp_ordered("<", a, number(0.625)), small, large)


def softplus(b: Any, x: Any) -> Any:
    """Compute log(1 + exp(x)) as the larger of x and 0, plus log1p(exp(-|x|))."""
    rest = log1p(b, exp(b, b.fneg(absolute(b, x))))
    return b.fadd(b.select(b.fcmp_unordered(">", x, number(0.0)), x, number(0.0)), rest)
