"""Training on machines that are not there: step times of strategies, algorithms and topologies, by simulation."""
