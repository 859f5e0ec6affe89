"""The front end beside TensorFlow's own: the same programs, their values, names, variables and checkpoints."""
