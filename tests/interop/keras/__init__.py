"""`tf.keras` beside TensorFlow's: the same programs, their histories, weights, names and checkpoints."""
