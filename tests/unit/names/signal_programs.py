"""Programs over images' colors and edges, and over short-time spectra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_RNG = np.random.RandomState(5)
IMAGES = _RNG.rand(2, 13, 14, 3).astype(np.float32)
OTHERS = np.clip(IMAGES + _RNG.normal(0, 0.1, IMAGES.shape), 0, 1).astype(np.float32)
BYTES = (IMAGES * 255).astype(np.uint8)
SIGNAL = _RNG.normal(size=(2, 50)).astype(np.float32)

Program = Callable[[Any], list[Any]]


def _run(make: Callable[[Any], Any]) -> Program:
    def program(tf: Any) -> list[Any]:
        tensors = make(tf)
        with tf.Session() as session:
            return list(session.run(list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]))

    return program


def _there_and_back(tf: Any) -> Any:
    spectra = tf.signal.stft(SIGNAL, 16, 4, fft_length=20, pad_end=True)
    window = tf.signal.inverse_stft_window_fn(4)
    return [spectra, tf.signal.inverse_stft(spectra, 16, 4, 20, window), tf.signal.inverse_stft(spectra, 24, 6, 20)]


PROGRAMS: dict[str, Program] = {
    "colors": _run(lambda tf: [getattr(tf.image, f)(IMAGES) for f in ("rgb_to_yiq", "rgb_to_yuv")]),
    "colors_back": _run(lambda tf: [getattr(tf.image, f)(IMAGES) for f in ("yiq_to_rgb", "yuv_to_rgb")]),
    "edges": _run(
        lambda tf: [tf.image.sobel_edges(tf.constant(IMAGES)), *tf.image.image_gradients(tf.constant(IMAGES))]
    ),
    "ssim": _run(
        lambda tf: [tf.image.ssim(IMAGES, OTHERS, 1.0), tf.image.ssim(BYTES, BYTES[::-1], 255, 7, 2.0, 0.02, 0.05)]
    ),
    "windows": _run(
        lambda tf: [
            getattr(tf.signal, f)(n, periodic=p)
            for f in ("hann_window", "hamming_window")
            for n in (1, 7, 8)
            for p in (True, False)
        ]
    ),
    "frames": _run(
        lambda tf: [
            tf.signal.frame(SIGNAL, 7, 3),
            tf.signal.frame(SIGNAL, 7, 9, pad_end=True, pad_value=2.0),
            tf.signal.frame(IMAGES, 4, 2, axis=1),
            tf.signal.frame(SIGNAL, 60, 3),
        ]
    ),
    "overlap_and_add": _run(
        lambda tf: [tf.signal.overlap_and_add(SIGNAL.reshape(2, 5, 10), step) for step in (3, 10, 12)]
    ),
    "stft": _run(lambda tf: [tf.signal.stft(SIGNAL, 12, 5), tf.signal.stft(SIGNAL, 12, 5, window_fn=None)]),
    "there_and_back": _run(_there_and_back),
}
