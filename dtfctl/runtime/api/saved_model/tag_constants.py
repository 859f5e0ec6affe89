"""`tf.saved_model.tag_constants`: tags of graphs."""

from __future__ import annotations

from dtfctl.runtime.export.constants import GPU, SERVING, TRAINING
