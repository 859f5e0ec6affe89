"""Functions of `tf` whose values are those of TensorFlow: of a front end, what to fetch.

Run as a program, for TensorFlow: `python -m tests.interop.functions.cases OUT`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from tests.interop.functions import made_and_refused
from tests.interop.ragged.cases import Case, run

CASES: dict[str, Case] = dict(made_and_refused.CASES)


def case(function: Case) -> Case:
    CASES[function.__name__] = function
    return function


WAVE = np.sin(np.arange(64) * 0.37).astype(np.float32)


@case
def cosine_transforms(tf: Any) -> Any:
    x = tf.constant(WAVE[:24].reshape(3, 8))
    return [
        *(tf.signal.dct(x, type=t) for t in (1, 2, 3, 4)),
        *(tf.signal.dct(x, type=t, norm="ortho") for t in (2, 3, 4)),
        *(tf.signal.idct(x, type=t, norm="ortho") for t in (2, 3, 4)),
        tf.signal.idct(x, type=1), tf.signal.dct(x, n=5), tf.signal.dct(x, n=11), tf.spectral.dct(x),
        tf.gradients(tf.reduce_sum(tf.square(tf.signal.dct(x))), x),
    ]  # fmt: skip


@case
def modified_cosine_transforms(tf: Any) -> Any:
    x = tf.constant(WAVE)
    return [
        tf.signal.mdct(x, 16), tf.signal.mdct(x, 16, norm="ortho"), tf.signal.mdct(x, 16, window_fn=None),
        tf.signal.inverse_mdct(tf.signal.mdct(x, 16)),
        tf.signal.inverse_mdct(tf.signal.mdct(x, 16, norm="ortho"), norm="ortho"),
        tf.signal.inverse_mdct(tf.signal.mdct(x, 16, window_fn=None), window_fn=None),
    ]  # fmt: skip


@case
def mel_spectra(tf: Any) -> Any:
    spectrum = tf.abs(tf.signal.stft(tf.constant(WAVE), 16, 8))
    mel = tf.tensordot(spectrum, tf.signal.linear_to_mel_weight_matrix(6, 9, 8000, 100.0, 3500.0), 1)
    return [
        tf.signal.linear_to_mel_weight_matrix(), mel,
        tf.signal.mfccs_from_log_mel_spectrograms(tf.log(mel + 1e-3)),
    ]  # fmt: skip


@case
def windows(tf: Any) -> Any:
    return [
        tf.signal.kaiser_window(9), tf.signal.kaiser_window(8, beta=4.0), tf.signal.kaiser_bessel_derived_window(8),
        tf.signal.vorbis_window(8), tf.signal.fftshift(tf.range(7)), tf.signal.ifftshift(tf.range(7)),
        tf.signal.fftshift(tf.reshape(tf.range(12), [3, 4])),
        tf.signal.fftshift(tf.reshape(tf.range(12), [3, 4]), axes=1),
        tf.signal.ifftshift(tf.placeholder_with_default(np.arange(10).reshape(2, 5), [None, None]), axes=[0, 1]),
    ]  # fmt: skip


@case
def images(tf: Any) -> Any:
    boxes = tf.constant([[0.0, 0.0, 1.0, 1.0], [0.0, 0.1, 1.0, 1.1], [0.0, 2.0, 1.0, 3.0]])
    return [
        tf.image.is_jpeg(b"\xff\xd8\xff\xe0"), tf.io.is_jpeg(b"GIF89a"),
        tf.image.non_max_suppression_with_scores(boxes, [0.9, 0.75, 0.6], 3, soft_nms_sigma=0.5),
        tf.image.non_max_suppression_with_scores(boxes, [0.9, 0.75, 0.6], 3),
    ]  # fmt: skip


@case
def cropped_jpegs(tf: Any) -> Any:
    """Pillow decodes these here."""
    data = tf.image.encode_jpeg(np.full((16, 16, 3), 100, np.uint8), quality=100)
    return [tf.shape(tf.image.decode_and_crop_jpeg(data, [2, 4, 8, 6])), tf.image.is_jpeg(data)]


@case
def pairwise_losses(tf: Any) -> Any:
    labels = tf.constant([[1.0, 9.0, 2.0], [-5.0, -2.0, 6.0]])
    predictions = tf.constant([[4.0, 8.0, 12.0], [8.0, 1.0, 3.0]])
    loss = tf.losses.mean_pairwise_squared_error
    return [
        loss(labels, predictions), loss(labels, predictions, 2.3), loss(labels, predictions, [[1.2], [3.4]]),
        loss(labels, predictions, [[1.2], [0.0]]), loss(labels, predictions, 0.0),
        tf.gradients(loss(labels, predictions), predictions),
    ]  # fmt: skip


def main(out: str) -> None:
    import tensorflow

    tf = tensorflow.compat.v1
    tf.disable_v2_behavior()
    with open(out, "w") as file:
        json.dump({name: run(tf, made) for name, made in CASES.items()}, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
