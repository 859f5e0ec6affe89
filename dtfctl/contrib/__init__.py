"""What is most used of TensorFlow 1's `tf.contrib`: `from dtfctl.contrib import layers, rnn, training, framework`."""

from __future__ import annotations

from dtfctl.contrib import framework, layers, rnn, training

__all__ = ["framework", "layers", "rnn", "training"]
