"""`tf.distributions`: densities, statistics, divergences, and what training through them does."""

from __future__ import annotations

from typing import Any

import numpy as np


def located_distributions(tf: Any) -> Any:
    ds = tf.distributions
    x = tf.placeholder(tf.float32, [4, 1], name="x")
    made = [
        ds.Normal(loc=[0.0, 1.0], scale=[1.0, 2.5]),
        ds.Laplace(loc=[0.0, -1.0], scale=2.0),
        ds.StudentT(df=3.0, loc=0.5, scale=2.0),
        ds.Uniform(low=[-3.0, 0.0], high=2.0),
    ]
    out = []
    for d in made:
        out += [d.prob(x), d.log_prob(x), d.cdf(x), d.log_cdf(x), d.survival_function(x), d.log_survival_function(x)]
        out += [d.mean(), d.variance(), d.stddev(), d.entropy(), d.batch_shape_tensor(), d.event_shape_tensor()]
    out += [made[0].mode(), made[1].mode(), made[2].mode(), made[3].range(), made[0].quantile([0.01, 0.3])]
    grads = tf.gradients([d.log_prob(x) for d in made[:3]], [x, *(d.scale for d in made[:3])])
    return [([*out, *grads], {x: [[-12.5], [-0.3], [0.7], [1.9]]})]


def gamma_distributions(tf: Any) -> Any:
    ds = tf.distributions
    x = tf.placeholder(tf.float32, [3, 1], name="x")
    made = [
        ds.Gamma(concentration=[2.0, 0.5], rate=[1.0, 3.0]),
        ds.Exponential(rate=[0.5, 4.0]),
        ds.Beta(concentration1=[2.0, 0.5], concentration0=[3.0, 0.7]),
    ]
    out = []
    for d in made:
        out += [d.prob(x), d.log_prob(x), d.mean(), d.variance(), d.stddev(), d.entropy(), d.mode()]
    out += [made[1].cdf(x), made[1].log_survival_function(x), made[2].cdf([0.25, 0.5])]
    simplex = ds.Dirichlet([[1.5, 2.0, 3.0], [1.0, 0.3, 1.0]])
    p = [[0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]
    out += [simplex.prob(p), simplex.log_prob(p), simplex.mean(), simplex.variance(), simplex.covariance()]
    out += [simplex.entropy(), simplex.event_shape_tensor(), simplex.batch_shape_tensor()]
    out += [ds.kl_divergence(made[0], ds.Gamma([1.0, 2.0], 2.0)), ds.kl_divergence(made[2], ds.Beta(1.0, 2.0))]
    out += [simplex.kl_divergence(ds.Dirichlet([1.0, 1.0, 2.0]))]
    return [(out, {x: [[0.1], [0.4], [0.9]]})]


def discrete_distributions(tf: Any) -> Any:
    ds = tf.distributions
    coin = ds.Bernoulli(probs=[0.2, 0.9])
    other = ds.Bernoulli(logits=[0.3, -1.0], dtype=tf.float32, name="Other")
    out = [coin.logits, other.probs, coin.prob([1, 0]), other.log_prob([[0.0, 1.0], [1.0, 1.0]]), coin.entropy()]
    out += [coin.mean(), coin.variance(), other.mode(), ds.kl_divergence(coin, other), coin.cross_entropy(other)]
    die = ds.Categorical(logits=[[0.1, 0.5, -1.0], [2.0, 0.0, 0.0]])
    fair = ds.Categorical(probs=[0.25, 0.25, 0.5], dtype=tf.int64)
    out += [die.prob([0, 2]), die.log_prob([[1, 1], [2, 0]]), die.entropy(), die.mode(), die.cdf([1, 2]), fair.logits]
    out += [fair.log_prob(tf.constant([0, 2, 1], tf.int64)), fair.mode(), die.kl_divergence(fair), die.event_size]
    counts = [[1.0, 2.0, 3.0], [0.0, 1.0, 5.0]]
    votes = ds.Multinomial(6.0, probs=[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    out += [votes.prob(counts), votes.mean(), votes.variance(), votes.covariance(), votes.event_shape_tensor()]
    urn = ds.DirichletMultinomial(6.0, [1.0, 2.0, 0.5])
    out += [urn.prob(counts), urn.mean(), urn.variance(), urn.covariance()]
    return [(out, {})]


def variational_autoencoder(tf: Any) -> Any:
    """A small VAE: a normal posterior, a normal prior, a Bernoulli likelihood; noise comes from the seed."""
    ds = tf.distributions
    x = tf.placeholder(tf.float32, [8, 6], name="x")
    hidden = tf.layers.dense(x, 5, tf.nn.tanh, kernel_initializer=_ramp(tf, 0.3), name="encoder")
    loc = tf.layers.dense(hidden, 2, kernel_initializer=_ramp(tf, 0.2), name="loc")
    scale = tf.layers.dense(hidden, 2, tf.nn.softplus, kernel_initializer=_ramp(tf, 0.1), name="scale")
    posterior = ds.Normal(loc, scale, name="posterior")
    z = posterior.mean() + posterior.stddev() * 0.5
    logits = tf.layers.dense(z, 6, kernel_initializer=_ramp(tf, 0.5), name="decoder")
    likelihood = tf.reduce_sum(ds.Bernoulli(logits=logits).log_prob(x), 1)
    prior = ds.Normal(tf.zeros([2]), tf.ones([2]), name="prior")
    divergence = tf.reduce_sum(ds.kl_divergence(posterior, prior), 1)
    elbo = tf.reduce_mean(likelihood - divergence)
    train = tf.train.AdamOptimizer(0.05).minimize(-elbo)
    data = (np.arange(48).reshape(8, 6) % 5 < 2).astype(np.float32)
    return [([train, elbo, divergence], {x: data})] * 6


def policy_gradient(tf: Any) -> Any:
    """REINFORCE with a categorical policy and an entropy bonus."""
    observed = tf.placeholder(tf.float32, [None, 4], name="observed")
    action = tf.placeholder(tf.int32, [None], name="action")
    advantage = tf.placeholder(tf.float32, [None], name="advantage")
    with tf.variable_scope("policy"):
        hidden = tf.layers.dense(observed, 8, tf.nn.relu, kernel_initializer=_ramp(tf, 0.4))
        logits = tf.layers.dense(hidden, 3, kernel_initializer=_ramp(tf, 0.2))
    policy = tf.distributions.Categorical(logits=logits)
    loss = -tf.reduce_mean(policy.log_prob(action) * advantage) - 0.01 * tf.reduce_mean(policy.entropy())
    train = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    feed = {
        observed: np.linspace(-1, 1, 20).reshape(5, 4),
        action: [0, 2, 1, 1, 0],
        advantage: [1.0, -0.5, 2.0, 0.1, -1.0],
    }
    return [([train, loss, policy.mode(), policy.probs], feed)] * 5


def _ramp(tf: Any, size: float) -> Any:
    def make(shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        count = int(np.prod([int(n) for n in shape]))
        return tf.constant(np.sin(np.arange(count) + 1.0).reshape([int(n) for n in shape]) * size, tf.float32)

    return make
