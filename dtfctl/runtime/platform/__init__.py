"""The parts of TF1 around the graph: command-line flags, files, logging."""
