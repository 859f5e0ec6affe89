"""Measures dtfctl against TensorFlow and its other peers: `python -m benchmarks --help`, or `make bench`.

Nothing here is part of the product. `programs/` are TensorFlow 1 programs that run unchanged on both runtimes;
`driver.py` and `server.py` run them, in the product's environment or in the peer's. `peer_programs/` are what other
peers run. The rest runs only in the product's environment.
"""
