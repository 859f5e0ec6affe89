"""`tf.linalg.LinearOperator*`: matrices of a known form, [..., rows, columns], with what is quick for their form."""

from dtfctl.runtime.ops.linear_operators import forms as forms
