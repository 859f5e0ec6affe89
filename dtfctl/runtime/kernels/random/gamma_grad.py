"""How a gamma sample moves with its shape parameter while its quantile stays: -(dP(a, x)/da) / pdf(x; a)."""

from __future__ import annotations

from typing import Any

import numpy as np


def gamma_sample_derivative(alpha: Any, sample: Any) -> Any:
    """float64 arrays, broadcast. The derivative of the regularized incomplete gamma function is taken by the complex
    step on its series below the mean and by central differences of the continued fraction's logarithm above."""
    from scipy.special import gammainc, gammaincc, gammaln

    a, x = np.broadcast_arrays(alpha, sample)
    with np.errstate(all="ignore"):
        log_pdf = (a - 1) * np.log(x) - x - gammaln(a)
        # Fourth-order central differences, on whichever tail is the smaller so that no digits cancel.
        h = 1e-3 * np.maximum(a, 1e-3)
        lower = x < a + 1

        def tail(shape: Any) -> Any:
            return np.where(lower, gammainc(shape, x), -gammaincc(shape, x))

        slope = (8 * (tail(a + h) - tail(a - h)) - (tail(a + 2 * h) - tail(a - 2 * h))) / (12 * h)
        return np.where((a > 0) & (x > 0), -slope / np.exp(log_pdf), np.nan)
