"""Colors, edges, windows and short-time spectra against stock TensorFlow's values; messages now and then."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import dtfctl.runtime as tf
from tests.unit.names.programs import check, expected
from tests.unit.names.signal_programs import PROGRAMS, SIGNAL

WANT = expected("signal")


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_program_has_tensorflows_values(name: str) -> None:
    check(PROGRAMS[name], tf, WANT[name], tolerance=1e-4)


def test_a_signal_comes_back_from_its_spectra() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        spectra = tf.signal.stft(SIGNAL, 16, 4)
        back = tf.signal.inverse_stft(spectra, 16, 4, window_fn=tf.signal.inverse_stft_window_fn(4))
        got = session.run(back)
    inner = slice(16, got.shape[1] - 16)
    np.testing.assert_allclose(got[:, inner], SIGNAL[:, inner], 1e-4, 1e-5)


def test_unknown_sizes_are_refused_while_building() -> None:
    with tf.Graph().as_default():
        unknown = tf.placeholder(tf.float32, [None, None])
        with pytest.raises(ValueError, match="known rank"):
            tf.signal.frame(tf.placeholder(tf.float32), 4, 2)
        with pytest.raises(ValueError, match="known number and length"):
            tf.signal.overlap_and_add(unknown, 2)
        with pytest.raises(ValueError, match="4D tensor"):
            tf.image.image_gradients(tf.ones([3, 3, 3]))
        with pytest.raises(ValueError, match="floating point type"):
            tf.signal.hann_window(4, dtype=tf.int32)


def test_messages_are_shown_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dtfctl.user"):
        for i in range(5):
            tf.logging.log_every_n(tf.logging.INFO, "every %d", 2, i)
            tf.logging.log_first_n(tf.logging.INFO, "first %d", 2, i)
            tf.logging.log_if(tf.logging.INFO, "if %d", i == 3, i)
        tf.logging.vlog(1, "detail")
    shown = [r.getMessage() for r in caplog.records]
    assert shown == ["every 0", "first 0", "first 1", "every 2", "if 3", "every 4"]
