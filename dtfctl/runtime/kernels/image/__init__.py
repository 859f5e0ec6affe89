"""Kernels of the image family: importing this package registers them."""

from dtfctl.runtime.kernels.image import boxes, codecs, color, crop, distort, gpu_resize, resize

__all__ = ["boxes", "codecs", "color", "crop", "distort", "gpu_resize", "resize"]
