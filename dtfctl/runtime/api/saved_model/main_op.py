"""`tf.saved_model.main_op`: ops to run after loading."""

from __future__ import annotations

from dtfctl.runtime.export.builder import main_op
