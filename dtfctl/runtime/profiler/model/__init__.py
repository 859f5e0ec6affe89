"""`tf.profiler.profile`: what a graph holds and takes, by scope, inputs, lines of code or type of op."""
