"""`tf.saved_model`: models as folders that TensorFlow and its servers load, and the other way round."""

from __future__ import annotations

from dtfctl.runtime.api.saved_model import (
    builder,
    constants,
    loader,
    main_op,
    signature_constants,
    signature_def_utils,
    tag_constants,
    utils,
)
from dtfctl.runtime.api.saved_model.constants import *
from dtfctl.runtime.api.saved_model.loader import *
from dtfctl.runtime.api.saved_model.signature_constants import *
from dtfctl.runtime.api.saved_model.signature_def_utils import *
from dtfctl.runtime.api.saved_model.tag_constants import *
from dtfctl.runtime.api.saved_model.utils import *
from dtfctl.runtime.export.builder import simple_save
from dtfctl.runtime.export.loader import contains_saved_model

Builder = builder.SavedModelBuilder
