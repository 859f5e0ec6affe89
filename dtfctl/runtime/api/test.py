"""`tf.test`: a TestCase with sessions and assertions about arrays, numeric gradients, small clusters."""

from __future__ import annotations

from unittest import mock

from dtfctl.runtime.testing.benchmark import Benchmark, benchmark_config
from dtfctl.runtime.testing.devices import (
    create_local_cluster,
    disable_with_predicate,
    get_temp_dir,
    gpu_device_name,
    is_built_with_cuda,
    is_built_with_gpu_support,
    is_built_with_rocm,
    is_built_with_xla,
    is_cpu_target_available,
    is_gpu_available,
    test_src_dir_path,
)
from dtfctl.runtime.testing.gradient_checker import compute_gradient, compute_gradient_error
from dtfctl.runtime.testing.test_case import TestCase, assert_equal_graph_def, main
