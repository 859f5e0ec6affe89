"""`tf.keras.saving`: models in files, and classes by name in what describes them."""

from __future__ import annotations

from dtfctl.runtime.keras.registry import (
    custom_object_scope as custom_object_scope,
    deserialize_keras_object as deserialize_keras_object,
    get_custom_objects as get_custom_objects,
    get_registered_name as get_registered_name,
    get_registered_object as get_registered_object,
    register_keras_serializable as register_keras_serializable,
    serialize_keras_object as serialize_keras_object,
)
from dtfctl.runtime.keras.whole_models import load_model as load_model, save_model as save_model
