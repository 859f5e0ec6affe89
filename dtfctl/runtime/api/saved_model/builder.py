"""`tf.saved_model.builder`: writing SavedModels."""

from __future__ import annotations

from dtfctl.runtime.export.builder import SavedModelBuilder
