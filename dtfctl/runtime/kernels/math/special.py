"""Special functions, from scipy.special, with TensorFlow's answers at the edges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.errors import InvalidArgumentError
from dtfctl.runtime.kernels.array.common import in_float32, text
from dtfctl.runtime.kernels.math.binary import checked
from dtfctl.runtime.kernels.promises import LIKE_FIRST
from dtfctl.runtime.kernels.registry import FLOATS, Kernel, KernelBuild, register_kernel

_LOW = (dtypes.float16, dtypes.bfloat16)

_UNARY = {
    "BesselI0": "i0",
    "BesselI0e": "i0e",
    "BesselI1": "i1",
    "BesselI1e": "i1e",
    "BesselJ0": "j0",
    "BesselJ1": "j1",
    "BesselK0": "k0",
    "BesselK0e": "k0e",
    "BesselK1": "k1",
    "BesselK1e": "k1e",
    "BesselY0": "y0",
    "BesselY1": "y1",
    "Dawsn": "dawsn",
    "Erf": "erf",
    "Erfc": "erfc",
    "Erfinv": "erfinv",
    "Expint": "expi",
    "Ndtri": "ndtri",
    "Spence": "spence",
}

# What TensorFlow answers for negative arguments, where scipy says NaN or continues the function.
_BELOW_ZERO = {
    "BesselK0": np.inf,
    "BesselK0e": np.inf,
    "BesselK1": np.inf,
    "BesselK1e": np.inf,
    "BesselY0": -np.inf,
    "BesselY1": -np.inf,
    "Expint": np.nan,
}


# Where its series give NaN and scipy has the limit.
_UNDEFINED = {"BesselY0": (np.inf,), "BesselY1": (np.inf, 0), "Expint": (np.inf,)}


def _precise(k: KernelBuild, function: Callable[..., Any]) -> Kernel:
    """Make a function compute at the op's type; half and bfloat16 go through float32."""
    if k.dtype("T") in _LOW:
        return in_float32(function)
    return function


@register_kernel(tuple(_UNARY), promises=LIKE_FIRST, T=FLOATS)
def _special(k: KernelBuild) -> Kernel:
    from scipy import special

    function = getattr(special, _UNARY[k.node.op])
    dtype = k.dtype("T").np

    outside, undefined = _BELOW_ZERO.get(k.node.op), _UNDEFINED.get(k.node.op)

    def kernel(x: Any) -> Any:
        y = function(x).astype(x.dtype, copy=False)
        if outside is not None:
            y = np.where(x < 0, x.dtype.type(outside), y)
        return y if undefined is None else np.where(np.isin(x, undefined), x.dtype.type(np.nan), y)

    return _precise(k, kernel) if dtype.itemsize == 2 else kernel


@register_kernel("Lgamma", T=FLOATS)
def _lgamma(k: KernelBuild) -> Kernel:
    from scipy import special

    return _precise(k, lambda x: np.where(x == -np.inf, x.dtype.type(np.inf), special.gammaln(x)))


def digamma(x: Any) -> Any:
    """psi(x), NaN at its poles."""
    from scipy import special

    return np.where((x <= 0) & (x == np.floor(x)), x.dtype.type(np.nan), special.psi(x))


@register_kernel("Digamma", T=FLOATS)
def _digamma(k: KernelBuild) -> Kernel:
    return _precise(k, digamma)


@register_kernel(("FresnelCos", "FresnelSin"), T=FLOATS)
def _fresnel(k: KernelBuild) -> Kernel:
    from scipy import special

    which = 0 if k.node.op == "FresnelSin" else 1
    return _precise(k, lambda x: special.fresnel(x)[which].astype(x.dtype, copy=False))


def _igamma(name: str) -> Callable[[Any, Any], Any]:
    def function(a: Any, x: Any) -> Any:
        from scipy import special

        result = getattr(special, name)(a, x)
        bad = (a <= 0) | (x < 0) | np.isnan(a) | np.isnan(x)
        if name == "gammainc":
            bad &= x != 0
            result = np.where(x == 0, result.dtype.type(0), result)
        return np.where(bad, result.dtype.type(np.nan), result)

    return function


@register_kernel("Igamma", T=FLOATS)
def _lower_incomplete_gamma(k: KernelBuild) -> Kernel:
    return checked(_precise(k, _igamma("gammainc")))


@register_kernel("Igammac", T=FLOATS)
def _upper_incomplete_gamma(k: KernelBuild) -> Kernel:
    return checked(_precise(k, _igamma("gammaincc")))


def igamma_grad_a(a: Any, x: Any) -> Any:
    """dP(a, x)/da by a five-point stencil on whichever of P and Q is small (relative error about 1e-11)."""
    from scipy import special

    dtype = np.result_type(a, x)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    bad = (a <= 0) | (x < 0) | np.isnan(a) | np.isnan(x)
    a = np.where(bad, 1.0, a)
    h = 1e-3 * np.minimum(a, np.sqrt(a))

    def slope(f: Callable[[Any, Any], Any]) -> Any:
        return (f(a - 2 * h, x) - 8 * f(a - h, x) + 8 * f(a + h, x) - f(a + 2 * h, x)) / (12 * h)

    result = np.where(x <= np.maximum(a, 1.0), slope(special.gammainc), -slope(special.gammaincc))
    return np.where(x == 0, 0.0, np.where(bad, np.nan, result)).astype(dtype)


@register_kernel("IgammaGradA")
def _igamma_grad_a(k: KernelBuild) -> Kernel:
    return checked(igamma_grad_a)


def _zeta(x: Any, q: Any) -> Any:
    from scipy import special

    result = special.zeta(x, q)
    dtype = result.dtype.type
    result = np.where(x == 1, dtype(np.inf), np.where(x < 1, dtype(np.nan), result))
    pole = (q <= 0) & (x > 1)
    whole = x == np.floor(x)
    at_pole = np.where(whole & (np.isinf(x) | (np.mod(x, 2) == 0)), np.inf, np.nan)
    return np.where(pole, np.where(q == np.floor(q), at_pole, np.where(whole, result, np.nan)), result)


@register_kernel("Zeta")
def _zeta_kernel(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np
    return checked(lambda x, q: _zeta(x, q).astype(dtype, copy=False))


@register_kernel("Polygamma")
def _polygamma(k: KernelBuild) -> Kernel:
    dtype = k.dtype("T").np

    def function(n: Any, x: Any) -> Any:
        from scipy import special

        order = n + dtype.type(1)
        sign = np.where(np.mod(order, 2) == 1, -1.0, 1.0)
        value = sign * np.exp(special.gammaln(np.asarray(order, np.float64))) * _zeta(order, x).astype(np.float64)
        value = np.where(n == 0, digamma(np.asarray(x, np.float64)), value)
        return np.where((n < 0) | (n != np.floor(n)), np.nan, value).astype(dtype)

    return checked(function)


@register_kernel("Betainc")
def _betainc(k: KernelBuild) -> Kernel:
    """Compute the regularized incomplete beta function; scalars broadcast, other shapes must agree."""

    def kernel(a: Any, b: Any, x: Any) -> Any:
        from scipy import special

        shapes = [s for s in (a.shape, b.shape, x.shape) if s]
        if any(s != shapes[0] for s in shapes):
            names = (("a", a), ("b", b), ("x", x))
            (n1, first), (n2, second) = next(
                (p, q) for p in names for q in names if p[1].shape and q[1].shape and p[1].shape != q[1].shape
            )
            raise InvalidArgumentError(
                f"Shapes of {n1} and {n2} are inconsistent: {text(first.shape)} vs. {text(second.shape)}"
            )
        return special.betainc(a, b, x).astype(x.dtype, copy=False)

    return kernel
