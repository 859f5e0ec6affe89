"""Runs partitions: straight-line plans, a frame machine for loops, functions."""

from dtfctl.runtime.executor.executor import Executor
from dtfctl.runtime.executor.functions import FunctionRunner
from dtfctl.runtime.executor.kernel_cache import KernelCache
from dtfctl.runtime.executor.trace import StepTrace

__all__ = ["Executor", "FunctionRunner", "KernelCache", "StepTrace"]
