"""`tf.contrib.slim`: layers with scoped arguments, and loops to train and evaluate models made of them."""

from __future__ import annotations

from dtfctl.contrib import losses, metrics
from dtfctl.contrib.arg_scope import add_arg_scope, arg_scope, arg_scoped_arguments, current_arg_scope, has_arg_scope
from dtfctl.contrib.framework import (
    add_model_variable,
    assert_global_step,
    assign_from_checkpoint,
    assign_from_checkpoint_fn,
    assign_from_values,
    assign_from_values_fn,
    create_global_step,
    filter_variables,
    get_global_step,
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_unique_variable,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    model_variable,
    variable,
)
from dtfctl.contrib.layers import *
from dtfctl.contrib.slim import evaluation, learning, model_analyzer
