"""CUDA sources of the kernels that have no common body for numpy and cupy, and what compiles and launches them."""
