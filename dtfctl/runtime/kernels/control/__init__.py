"""Kernels of the control family: all modules are imported when one of its ops is first looked up."""
