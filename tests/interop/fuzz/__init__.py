"""Programs made at random out of TensorFlow 1's API, and what they do here and with TensorFlow."""
