"""`tf.distributions`: what no comparison with TensorFlow shows: samples, checks, errors, laziness."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import dtfctl.runtime as tf

MADE: dict[str, Any] = {
    "Normal": lambda ds: ds.Normal([0.0, 3.0], 2.0),
    "Laplace": lambda ds: ds.Laplace([0.0, 3.0], 0.5),
    "StudentT": lambda ds: ds.StudentT(8.0, [0.0, 3.0], 0.5),
    "Uniform": lambda ds: ds.Uniform([0.0, -3.0], [1.0, 3.0]),
    "Gamma": lambda ds: ds.Gamma([2.0, 5.0], 2.0),
    "Exponential": lambda ds: ds.Exponential([2.0, 5.0]),
    "Beta": lambda ds: ds.Beta([2.0, 5.0], 2.0),
    "Dirichlet": lambda ds: ds.Dirichlet([[2.0, 5.0, 1.0], [1.0, 1.0, 1.0]]),
    "Bernoulli": lambda ds: ds.Bernoulli(probs=[0.2, 0.9]),
    "Multinomial": lambda ds: ds.Multinomial([4.0, 8.0], probs=[0.2, 0.3, 0.5]),
    "DirichletMultinomial": lambda ds: ds.DirichletMultinomial(4.0, [[2.0, 5.0, 1.0]]),
}


@pytest.mark.parametrize("name", MADE)
def test_samples_have_the_moments_that_are_said(name: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(3)
        made = MADE[name](tf.distributions)
        samples = made.sample([40, 50], seed=5)
        assert samples.shape.as_list() == [40, 50, *made.batch_shape.as_list(), *made.event_shape.as_list()]
        drawn, mean, deviation = session.run([samples, made.mean(), made.stddev()])
        one = made.sample()
        assert one.shape == made.batch_shape.concatenate(made.event_shape)
        assert session.run(one).shape == drawn.shape[2:]
    flat = drawn.reshape((2000, *drawn.shape[2:])).astype(np.float64)
    # 2,000 samples: six deviations of the mean's own.
    assert np.all(np.abs(flat.mean(0) - mean) < 6 * deviation / np.sqrt(2000))
    assert np.allclose(flat.std(0), deviation, rtol=0.15)


def test_categorical_samples_follow_the_probabilities() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        die = tf.distributions.Categorical(probs=[[0.5, 0.25, 0.25], [0.0, 0.1, 0.9]])
        drawn = session.run(die.sample(4000, seed=1))
    assert drawn.shape == (4000, 2)
    assert drawn.dtype == np.int32
    shares = np.stack([np.bincount(drawn[:, i], minlength=3) / 4000 for i in range(2)])
    assert np.allclose(shares, [[0.5, 0.25, 0.25], [0.0, 0.1, 0.9]], atol=0.04)


def test_shapes_that_are_known_in_a_step_only() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        loc = tf.placeholder(tf.float32)
        count = tf.placeholder(tf.int32)
        made = tf.distributions.Normal(loc, 1.0)
        sizes = [tf.shape(made.sample(count)), made.batch_shape_tensor(), made.is_scalar_batch()]
        assert made.batch_shape.ndims is None
        got = session.run(sizes, {loc: np.zeros((2, 3)), count: 4})
        assert [got[0].tolist(), got[1].tolist(), bool(got[2])] == [[4, 2, 3], [2, 3], False]
        got = session.run(sizes, {loc: 0.0, count: [4, 1]})
        assert [got[0].tolist(), got[1].tolist(), bool(got[2])] == [[4, 1], [], True]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda ds: ds.Normal(0.0, -1.0, validate_args=True).mean(), None),
        (lambda ds: ds.Gamma(-1.0, 1.0, validate_args=True).mean(), None),
        (lambda ds: ds.Uniform(1.0, 0.0, validate_args=True).mean(), "low >= high"),
        (lambda ds: ds.Beta(0.5, 0.5, allow_nan_stats=False).mode(), "Mode undefined"),
        (lambda ds: ds.StudentT(1.0, 0.0, 1.0, allow_nan_stats=False).mean(), "df <= 1"),
        (lambda ds: ds.Categorical(probs=[0.5, 0.6], validate_args=True).entropy(), "sum to 1"),
        (lambda ds: ds.Bernoulli(probs=1.5, validate_args=True).mean(), "greater than 1"),
        (lambda ds: ds.Multinomial(3.0, probs=[0.5, 0.5], validate_args=True).prob([1.0, 1.0]), "must sum to"),
    ],
)
def test_what_is_wrong_fails_in_the_step(make: Any, said: str | None) -> None:
    with tf.Graph().as_default(), tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=said):
        session.run(make(tf.distributions))


def test_what_is_wrong_fails_when_it_is_made() -> None:
    ds = tf.distributions
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="not both"):
            ds.Bernoulli(logits=0.0, probs=0.5)
        with pytest.raises(TypeError, match="floating"):
            ds.Categorical(logits=[1, 2])
        with pytest.raises(ValueError, match="floating"):
            ds.Normal(0, 1)
        with pytest.raises(NotImplementedError, match="RegisterKL"):
            ds.kl_divergence(ds.Normal(0.0, 1.0), ds.Laplace(0.0, 1.0))
        with pytest.raises(NotImplementedError, match="cdf is not implemented: Dirichlet"):
            ds.Dirichlet([1.0, 2.0]).cdf([0.5, 0.5])


def test_a_distribution_of_ones_own() -> None:
    ds = tf.distributions

    class Fixed(ds.Distribution):
        def __init__(self, value: Any, name: str = "Fixed") -> None:
            self.value = tf.convert_to_tensor(value, tf.float32)
            super().__init__(
                self.value.dtype, ds.FULLY_REPARAMETERIZED, False, True, {"value": value, "name": name}, [self.value]
            )

        def _batch_shape(self) -> Any:
            return self.value.shape

        def _mean(self) -> Any:
            return self.value

        def _stddev(self) -> Any:
            return self.value * 2.0

    @ds.RegisterKL(Fixed, ds.Normal)
    def kl(a: Any, b: Any, name: Any = None) -> Any:
        return b.loc - a.value

    with tf.Graph().as_default(), tf.Session() as session:
        made = Fixed([1.0, 3.0])
        assert session.run(made.variance()).tolist() == [4.0, 36.0]
        assert session.run(made.kl_divergence(ds.Normal(5.0, 1.0))).tolist() == [4.0, 2.0]
        assert session.run(made.copy(value=[7.0]).mean()).tolist() == [7.0]
    with pytest.raises(ValueError, match="already been registered"):
        ds.RegisterKL(Fixed, ds.Normal)(kl)


def test_namespaces_that_few_programs_use_are_imported_when_asked_for() -> None:
    code = (
        "import sys, dtfctl.runtime as tf\n"
        "tf.constant\n"
        "above = ['dtfctl.contrib', 'dtfctl.runtime.distributions', 'unittest']\n"
        "later = ['email', 'dtfctl.runtime.kernels.data_flow', 'dtfctl.runtime.kernels.string', 'scipy.special']\n"
        "assert [name for name in above + later if name in sys.modules] == []\n"
        "tf.distributions.Normal\n"
        "assert 'dtfctl.runtime.distributions' in sys.modules and 'distributions' in dir(tf)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
