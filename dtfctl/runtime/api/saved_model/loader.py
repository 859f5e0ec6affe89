"""`tf.saved_model.loader`: reading SavedModels."""

from __future__ import annotations

from dtfctl.runtime.export.loader import load, maybe_saved_model_directory
