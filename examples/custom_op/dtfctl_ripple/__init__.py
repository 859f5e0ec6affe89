"""An op of one's own: Ripple(x) = x + amplitude * sin(frequency * x), elementwise, with its gradient.

Importing this package adds the op and its kernel; `ripple` builds it.
"""

import dtfctl.runtime as tf


def _slope(op):
    amplitude, frequency = op.get_attr("amplitude"), op.get_attr("frequency")
    return 1 + amplitude * frequency * tf.cos(frequency * op.inputs[0])


@tf.define_op(
    "Ripple(x: T) -> (y: T); amplitude: float = 0.1; frequency: float = 1.0; T: type in {float, double} = float",
    shape="unchanged",
    gradient=lambda op, grad: grad * _slope(op),
)
def ripple(x, amplitude=0.1, frequency=1.0, name=None):
    """x + amplitude * sin(frequency * x) for a float32 or float64 tensor of any shape."""


@tf.register_kernel("Ripple", devices=("CPU", "GPU"), T=(tf.float32, tf.float64))
def _kernel(build):
    xp, amplitude, frequency = build.xp, build.attr("amplitude"), build.attr("frequency")
    return lambda x: x + x.dtype.type(amplitude) * xp.sin(x.dtype.type(frequency) * x)
