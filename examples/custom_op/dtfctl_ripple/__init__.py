"""An op of one's own: Ripple(x) = x + amplitude * sin(frequency * x), elementwise, with its gradient.

Importing this package registers the op's signature, shape, kernel and gradient; `ripple` builds it.
"""

import dtfctl.runtime as tf

tf.register_op(
    "Ripple(x: T) -> (y: T); amplitude: float = 0.1; frequency: float = 1.0; T: type in {float, double} = float"
)


@tf.register_shape("Ripple")
def _shape(op):
    return [op.inputs[0].shape]


@tf.register_kernel("Ripple", devices=("CPU", "GPU"), T=(tf.float32, tf.float64))
def _kernel(build):
    xp, amplitude, frequency = build.xp, build.attr("amplitude"), build.attr("frequency")
    return lambda x: x + x.dtype.type(amplitude) * xp.sin(x.dtype.type(frequency) * x)


@tf.RegisterGradient("Ripple")
def _gradient(op, grad):
    x = op.inputs[0]
    amplitude, frequency = op.get_attr("amplitude"), op.get_attr("frequency")
    return grad * (1 + amplitude * frequency * tf.cos(frequency * x))


def ripple(x, amplitude=0.1, frequency=1.0, name=None):
    """x + amplitude * sin(frequency * x) for a float32 or float64 tensor of any shape."""
    return tf.apply_op("Ripple", x=x, amplitude=amplitude, frequency=frequency, name=name)
