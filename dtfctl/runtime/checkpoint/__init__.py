"""TensorFlow's checkpoint files, written and read."""
