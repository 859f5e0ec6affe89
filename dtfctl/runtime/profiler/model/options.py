"""The options of `tf.profiler.profile`, as a dict, and what builds them."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError

TRAINABLE = "_trainable_variables"
"""The type that trainable variables have besides their op and device."""
ORDERS = (
    "name",
    "depth",
    "bytes",
    "peak_bytes",
    "residual_bytes",
    "output_bytes",
    "micros",
    "accelerator_micros",
    "cpu_micros",
    "params",
    "float_ops",
    "occurrence",
)
TIMES = ("micros", "accelerator_micros", "cpu_micros")
SELECTS = (*ORDERS[2:], "device", "op_types", "input_shapes")
Options = dict[str, Any]

_PLAIN: Options = {
    "max_depth": 100,
    "min_bytes": 0,
    "min_peak_bytes": 0,
    "min_residual_bytes": 0,
    "min_output_bytes": 0,
    "min_micros": 0,
    "min_accelerator_micros": 0,
    "min_cpu_micros": 0,
    "min_params": 0,
    "min_float_ops": 0,
    "min_occurrence": 0,
    "order_by": "name",
    "account_type_regexes": [".*"],
    "start_name_regexes": [".*"],
    "trim_name_regexes": [],
    "show_name_regexes": [".*"],
    "hide_name_regexes": [],
    "account_displayed_op_only": False,
    "select": ["micros"],
    "step": -1,
    "output": "stdout",
}


def complete(options: Mapping[str, Any]) -> Options:
    """Fill in what is not said.

    Raises:
        InvalidArgumentError: an option is not known, or has a value that makes no sense.
    """
    unknown = sorted(set(options) - set(_PLAIN) - {"dump_to_file"})
    if unknown:
        raise InvalidArgumentError(f"Options that tf.profiler does not have: {', '.join(unknown)}")
    found: Options = {**_PLAIN, "max_depth": 10, "select": [], "account_type_regexes": [], "show_name_regexes": []}
    found |= {"start_name_regexes": [], **options}
    if found["order_by"] not in ORDERS:
        raise InvalidArgumentError(f"order_by={found['order_by']!r}: it is one of {', '.join(ORDERS)}")
    wrong = [name for name in found["select"] if name not in SELECTS]
    if wrong:
        raise InvalidArgumentError(f"select={wrong}: it is some of {', '.join(SELECTS)}")
    for name, regexes in found.items():
        for regex in regexes if name.endswith("_regexes") else ():
            try:
                re.compile(regex)
            except re.error as error:
                raise InvalidArgumentError(f"{name} has {regex!r}, which is no regular expression: {error}") from None
    return found


class ProfileOptionBuilder:
    """Builds the options of `tf.profiler.profile`, step by step; `build` gives them.

    Args:
        options: what to begin with, such as `ProfileOptionBuilder.time_and_memory()`.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._options: Options = copy.deepcopy(dict(_PLAIN if options is None else options))

    @staticmethod
    def trainable_variables_parameter() -> Options:
        """Choose the numbers of parameters of trainable variables, for the view by scope."""
        own = {"account_type_regexes": [TRAINABLE], "account_displayed_op_only": True, "select": ["params"]}
        return copy.deepcopy({**_PLAIN, "max_depth": 10000, **own})

    @staticmethod
    def float_operation() -> Options:
        """Choose the numbers of operations with floats."""
        own = {"min_float_ops": 1, "order_by": "float_ops", "account_displayed_op_only": True, "select": ["float_ops"]}
        return copy.deepcopy({**_PLAIN, "max_depth": 10000, **own})

    @staticmethod
    def time_and_memory(
        min_micros: int = 1,
        min_bytes: int = 1,
        min_accelerator_micros: int = 0,
        min_cpu_micros: int = 0,
        min_peak_bytes: int = 0,
        min_residual_bytes: int = 0,
        min_output_bytes: int = 0,
    ) -> Options:
        """Choose times and memory of what takes so much of them at least."""
        own = {
            "min_micros": min_micros,
            "min_bytes": min_bytes,
            "min_accelerator_micros": min_accelerator_micros,
            "min_cpu_micros": min_cpu_micros,
            "min_peak_bytes": min_peak_bytes,
            "min_residual_bytes": min_residual_bytes,
            "min_output_bytes": min_output_bytes,
            "order_by": "micros",
            "account_displayed_op_only": True,
            "select": ["micros", "bytes"],
        }
        return copy.deepcopy({**_PLAIN, "max_depth": 10000, **own})

    def build(self) -> Options:
        return copy.deepcopy(self._options)

    def _with(self, **options: Any) -> ProfileOptionBuilder:
        self._options.update(copy.deepcopy(options))
        return self

    def with_max_depth(self, max_depth: int) -> ProfileOptionBuilder:
        """Show no more levels than these: of scopes, of inputs, or ops of a list."""
        return self._with(max_depth=max_depth)

    def with_min_memory(
        self, min_bytes: int = 0, min_peak_bytes: int = 0, min_residual_bytes: int = 0, min_output_bytes: int = 0
    ) -> ProfileOptionBuilder:
        return self._with(
            min_bytes=min_bytes,
            min_peak_bytes=min_peak_bytes,
            min_residual_bytes=min_residual_bytes,
            min_output_bytes=min_output_bytes,
        )

    def with_min_execution_time(
        self, min_micros: int = 0, min_accelerator_micros: int = 0, min_cpu_micros: int = 0
    ) -> ProfileOptionBuilder:
        return self._with(
            min_micros=min_micros, min_accelerator_micros=min_accelerator_micros, min_cpu_micros=min_cpu_micros
        )

    def with_min_parameters(self, min_params: int) -> ProfileOptionBuilder:
        return self._with(min_params=min_params)

    def with_min_occurrence(self, min_occurrence: int) -> ProfileOptionBuilder:
        """Show only what stands for so many nodes at least."""
        return self._with(min_occurrence=min_occurrence)

    def with_min_float_operations(self, min_float_ops: int) -> ProfileOptionBuilder:
        return self._with(min_float_ops=min_float_ops)

    def with_accounted_types(self, account_type_regexes: Sequence[str]) -> ProfileOptionBuilder:
        """Count only nodes of which the op, the device or "_trainable_variables" match one of these."""
        return self._with(account_type_regexes=list(account_type_regexes))

    def with_node_names(
        self,
        start_name_regexes: Sequence[str] | None = None,
        show_name_regexes: Sequence[str] | None = None,
        hide_name_regexes: Sequence[str] | None = None,
        trim_name_regexes: Sequence[str] | None = None,
    ) -> ProfileOptionBuilder:
        """Choose what is shown by name: from where on, what of it, what not, and below what nothing."""
        chosen = {
            "start_name_regexes": start_name_regexes,
            "show_name_regexes": show_name_regexes,
            "hide_name_regexes": hide_name_regexes,
            "trim_name_regexes": trim_name_regexes,
        }
        return self._with(**{name: list(value) for name, value in chosen.items() if value is not None})

    def account_displayed_op_only(self, is_true: bool) -> ProfileOptionBuilder:
        """Have totals count only what is shown."""
        return self._with(account_displayed_op_only=is_true)

    def with_empty_output(self) -> ProfileOptionBuilder:
        return self._with(output="none")

    def with_stdout_output(self) -> ProfileOptionBuilder:
        return self._with(output="stdout")

    def with_file_output(self, outfile: str) -> ProfileOptionBuilder:
        return self._with(output=f"file:outfile={outfile}")

    def with_timeline_output(self, timeline_file: str) -> ProfileOptionBuilder:
        """Write the step as a Chrome trace, as `Timeline` does."""
        return self._with(output=f"timeline:outfile={timeline_file}")

    def with_pprof_output(self, pprof_file: str) -> ProfileOptionBuilder:
        """Write the view by lines of code, of one figure, for the tool pprof."""
        return self._with(output=f"pprof:outfile={pprof_file}")

    def order_by(self, attribute: str) -> ProfileOptionBuilder:
        """Order by a figure, the largest first, or by "name"."""
        return self._with(order_by=attribute)

    def select(self, attributes: Sequence[str]) -> ProfileOptionBuilder:
        """Choose what is printed of each node."""
        return self._with(select=list(attributes))

    def with_step(self, step: int) -> ProfileOptionBuilder:
        """Look at a step that was added to a `Profiler`; -1: the average of all."""
        return self._with(step=step)
