"""Kernels of the data_flow family: all modules are imported when one of its ops is first looked up."""
