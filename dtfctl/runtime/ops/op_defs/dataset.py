"""Entries of the dataset family."""

from __future__ import annotations

from dtfctl.runtime.ops.op_defs.entry import OpFamily

define = OpFamily("dataset")

define.op(
    "BatchDatasetV2(input_dataset: variant, batch_size: int64, drop_remainder: bool) -> (handle: variant); "
    "parallel_copy: bool = false; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    'metadata: string = ""',
    shape=[()],
    gradient="none",
)
define.op(
    'DatasetCardinality(input_dataset: variant) -> (cardinality: int64); cardinality_options: string = ""', shape=[()]
)
define.op(
    "DatasetToSingleElement(dataset: variant) -> (components: list(output_types)); "
    'output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""; !stateful',
    shape=lambda op: list(op.attr("output_shapes")),
)
define.op(
    "Iterator() -> (handle: resource); shared_name: string; container: string; output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; !stateful",
    shape=[()],
)
define.op(
    "IteratorFromStringHandle(string_handle: string) -> (resource_handle: resource); "
    "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []; !stateful",
    shape=[()],
)
define.op(
    "IteratorFromStringHandleV2(string_handle: string) -> (resource_handle: resource); "
    "output_types: list(type) >= 0 = []; output_shapes: list(shape) >= 0 = []; !stateful",
    shape=[()],
)
define.op(
    "IteratorGetNext(iterator: resource) -> (components: list(output_types)); output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; !stateful",
    shape=lambda op: list(op.attr("output_shapes")),
    gradient="none",
)
define.op(
    "IteratorGetNextAsOptional(iterator: resource) -> (optional: variant); output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1; !stateful",
    shape=[()],
)
define.op(
    "IteratorGetNextSync(iterator: resource) -> (components: list(output_types)); "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; !stateful",
    shape=lambda op: list(op.attr("output_shapes")),
    gradient="none",
)
define.op(
    "IteratorToStringHandle(resource_handle: resource) -> (string_handle: string); !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    "IteratorV2() -> (handle: resource); shared_name: string; container: string; "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; !stateful",
    shape=[()],
)
define.op(
    "MapDataset(input_dataset: variant, other_arguments: list(Targuments)) -> (handle: variant); f: func; "
    "Targuments: list(type) >= 0; output_types: list(type) >= 1; output_shapes: list(shape) >= 1; "
    "use_inter_op_parallelism: bool = true; preserve_cardinality: bool = false; "
    'force_synchronous: bool = false; metadata: string = ""',
    shape=[()],
    gradient="none",
)
define.op(
    "OneShotIterator() -> (handle: resource); dataset_factory: func; output_types: list(type) >= 1; "
    'output_shapes: list(shape) >= 1; container: string = ""; shared_name: string = ""; !stateful',
    shape=[()],
)
define.op(
    "OptionalFromValue(components: list(Toutput_types)) -> (optional: variant); Toutput_types: list(type) >= 1",
    shape=[()],
    gradient="none",
)
define.op(
    "OptionalGetValue(optional: variant) -> (components: list(output_types)); output_types: list(type) >= 1; "
    "output_shapes: list(shape) >= 1",
    shape=lambda op: list(op.attr("output_shapes")),
    gradient="none",
)
define.op("OptionalHasValue(optional: variant) -> (has_value: bool)", shape=[()], gradient="none")
define.op("OptionalNone() -> (optional: variant)", shape=[()], gradient="none")
define.op(
    "PrefetchDataset(input_dataset: variant, buffer_size: int64) -> (handle: variant); "
    "output_types: list(type) >= 1; output_shapes: list(shape) >= 1; slack_period: int = 0; "
    'legacy_autotune: bool = true; buffer_size_min: int = 0; metadata: string = ""',
    shape=[()],
)
define.op(
    "RangeDataset(start: int64, stop: int64, step: int64) -> (handle: variant); "
    'output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""; '
    "replicate_on_split: bool = false; !stateful",
    shape=[()],
    gradient="none",
)
define.op(
    "ReduceDataset(input_dataset: variant, initial_state: list(Tstate), "
    "other_arguments: list(Targuments)) -> (components: list(output_types)); f: func; "
    "Tstate: list(type) >= 1; Targuments: list(type) >= 0; output_types: list(type) >= 1; "
    'output_shapes: list(shape) >= 1; use_inter_op_parallelism: bool = true; metadata: string = ""; !stateful',
    shape=lambda op: list(op.attr("output_shapes")),
    gradient="none",
)
define.op(
    "RepeatDataset(input_dataset: variant, count: int64) -> (handle: variant); output_types: list(type) >= 1; "
    'output_shapes: list(shape) >= 1; metadata: string = ""',
    shape=[()],
)
define.op(
    "ShuffleDataset(input_dataset: variant, buffer_size: int64, seed: int64, "
    "seed2: int64) -> (handle: variant); reshuffle_each_iteration: bool = true; "
    'output_types: list(type) >= 1; output_shapes: list(shape) >= 1; metadata: string = ""',
    shape=[()],
)
define.op(
    "TensorDataset(components: list(Toutput_types)) -> (handle: variant); Toutput_types: list(type) >= 1; "
    'output_shapes: list(shape) >= 1; metadata: string = ""; !stateful',
    shape=[()],
    gradient="none",
)
define.op(
    "TensorSliceDataset(components: list(Toutput_types)) -> (handle: variant); "
    "Toutput_types: list(type) >= 1; output_shapes: list(shape) >= 1; is_files: bool = false; "
    'metadata: string = ""; replicate_on_split: bool = false; !stateful',
    shape=[()],
    gradient="none",
)
define.op(
    "ZipDataset(input_datasets: N * variant) -> (handle: variant); output_types: list(type) >= 1; "
    'output_shapes: list(shape) >= 1; N: int >= 1; metadata: string = ""',
    shape=[()],
)
