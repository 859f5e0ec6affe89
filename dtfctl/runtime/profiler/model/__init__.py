"""`tf.profiler.profile`: parameters, operations, times and memory of a graph, by scope, by inputs, by type of op."""
