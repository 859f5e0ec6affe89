"""`tf.saved_model.signature_def_utils`: signatures."""

from __future__ import annotations

from dtfctl.runtime.export.signatures import (
    build_signature_def,
    classification_signature_def,
    is_valid_signature,
    predict_signature_def,
    regression_signature_def,
)
