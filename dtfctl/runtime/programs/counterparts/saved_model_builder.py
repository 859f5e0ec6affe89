"""`tensorflow.python.saved_model.builder`: the builder under TensorFlow's own names, too."""

from __future__ import annotations

from dtfctl.runtime.export.builder import SavedModelBuilder, SavedModelBuilder as _SavedModelBuilder

__all__ = ["SavedModelBuilder", "_SavedModelBuilder"]
