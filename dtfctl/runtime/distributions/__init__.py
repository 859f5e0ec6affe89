"""`tf.distributions`: random variables with densities, statistics, samples and divergences."""

from __future__ import annotations

from dtfctl.runtime.distributions.counts import DirichletMultinomial, Multinomial
from dtfctl.runtime.distributions.discrete import Bernoulli, Categorical
from dtfctl.runtime.distributions.distribution import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    ReparameterizationType,
)
from dtfctl.runtime.distributions.divergence import RegisterKL, kl_divergence
from dtfctl.runtime.distributions.gammas import Beta, Dirichlet, Exponential, Gamma
from dtfctl.runtime.distributions.located import Laplace, Normal, StudentT, Uniform

__all__ = [
    "FULLY_REPARAMETERIZED",
    "NOT_REPARAMETERIZED",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Dirichlet",
    "DirichletMultinomial",
    "Distribution",
    "Exponential",
    "Gamma",
    "Laplace",
    "Multinomial",
    "Normal",
    "RegisterKL",
    "ReparameterizationType",
    "StudentT",
    "Uniform",
    "kl_divergence",
]
