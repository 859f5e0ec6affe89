"""Datasets in files: saved as a whole and loaded again, or kept from the first pass for later ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtfctl.runtime.framework.errors import InvalidArgumentError, NotFoundError, UnimplementedError
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    UNKNOWN,
    Dataset,
    Element,
    EndOfSequence,
    Function,
    Iteration,
    Next,
    dataset_of,
    drain,
    new_pass,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.fingerprint import fingerprint
from dtfctl.runtime.kernels.dataset.registration import function_of, register_dataset
from dtfctl.runtime.kernels.dataset.shards import FORMAT, Run, check_compression, read_metadata, shards_of
from dtfctl.runtime.kernels.registry import Kernel, KernelBuild, register_kernel

ShardOf = Callable[[Iteration, Element], int]


def _shard_function(function: Function) -> ShardOf:
    def shard_of(iteration: Iteration, element: Element) -> int:
        outputs = function(iteration, element)
        if len(outputs) != 1 or outputs[0].dtype.kind != "i" or outputs[0].size != 1:
            raise InvalidArgumentError("`shard_func` must return a scalar int64.")
        return int(outputs[0].reshape(-1)[0])

    return shard_of


def _shard_of(k: KernelBuild, step: StepContext, captured: tuple[Any, ...]) -> ShardOf:
    if not k.attr("use_shard_func", True):
        return lambda iteration, element: 0
    return _shard_function(function_of(k, step, captured, "shard_func"))


def _folder(value: Any) -> str:
    folder: str = scalar_of(value, "path").decode()
    return folder


@register_kernel("SaveDataset", step=True, blocking=True)
def save_dataset(k: KernelBuild) -> Kernel:
    compression = check_compression(k.text_attr("compression"))

    def run(step: StepContext, source: Any, path: Any, *captured: Any) -> None:
        dataset, shard_of = dataset_of(source), _shard_of(k, step, captured)
        iteration = new_pass(dataset, step)
        written = Run(_folder(path), dataset.types, compression)
        try:
            for element in drain(dataset, iteration):
                written.write(shard_of(iteration, element), element)
            written.finish()
        finally:
            written.close()
            iteration.close()

    return run


class WritingDataset(Dataset):
    """Another dataset; what a pass gives is written to a run that `begin` makes, whole when the pass has ended."""

    def __init__(self, source: Dataset, begin: Callable[[], Run], shard_of: ShardOf) -> None:
        self.source, self.begin, self.shard_of = source, begin, shard_of

    def iterate(self, iteration: Iteration) -> Next:
        following = self.source.iterate(iteration)
        run: Run | None = None
        ended = False

        def advance() -> Element:
            nonlocal run, ended
            if ended:
                raise EndOfSequence
            if run is None:
                run = self.begin()
                iteration.on_close(run.close)
            try:
                element = following()
            except EndOfSequence:
                ended = True
                run.finish()
                raise
            run.write(self.shard_of(iteration, element), element)
            return element

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("SaveDatasetV2")
def save_dataset_v2(k: KernelBuild, step: StepContext, source: Any, path: Any, *captured: Any) -> Dataset:
    dataset, folder = dataset_of(source), _folder(path)
    compression = check_compression(k.text_attr("compression"))
    return WritingDataset(dataset, lambda: Run(folder, dataset.types, compression), _shard_of(k, step, captured))


class LoadDataset(Dataset):
    """The elements of a run, in the order in which `reader` takes them from its shards."""

    def __init__(self, shards: Callable[[], Dataset], reader: Function, count: int) -> None:
        self.shards, self.reader, self.count = shards, reader, count

    def iterate(self, iteration: Iteration) -> Next:
        outputs = self.reader(iteration, (self.shards().scalar(),))
        if len(outputs) != 1:
            raise InvalidArgumentError("reader_func returns more than one argument.")
        return dataset_of(outputs[0]).iterate(iteration)

    def cardinality(self) -> int:
        return self.count


def _require_format(folder: str, version: int) -> None:
    if version != FORMAT:
        raise UnimplementedError(
            f"{folder} is a snapshot in version {version} of the format; only version {FORMAT} is read here. Write it "
            "again with TensorFlow 2.5 or newer."
        )


@register_dataset("LoadDataset")
def load_dataset(k: KernelBuild, step: StepContext, path: Any, *captured: Any) -> Dataset:
    folder = _folder(path)
    found = read_metadata(folder)
    if found is None:
        raise NotFoundError(f"Could not find metadata file [{folder}]")
    _require_format(folder, found.version)
    compression, types, shapes = k.text_attr("compression"), k.attr("output_types"), k.attr("output_shapes")
    reader = function_of(k, step, captured, "reader_func")
    return LoadDataset(lambda: shards_of(folder, found.run_id, compression, types, shapes), reader, found.num_elements)


class SnapshotDataset(Dataset):
    """The newest whole run in `folder`, or the source's elements, which then become such a run.

    Which of them a pass is is known when it is asked for its first element.
    """

    def __init__(self, source: Dataset, folder: str, reading: Callable[[str], Dataset], writing: Dataset) -> None:
        self.source, self.folder, self.reading, self.writing = source, folder, reading, writing

    def iterate(self, iteration: Iteration) -> Next:
        following: Next | None = None

        def advance() -> Element:
            nonlocal following
            if following is None:
                found = read_metadata(self.folder)
                if found is not None and found.finalized:
                    _require_format(self.folder, found.version)
                    following = self.reading(found.run_id).iterate(iteration)
                else:
                    following = self.writing.iterate(iteration)
            return following()

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()


@register_dataset("SnapshotDatasetV2")
def snapshot_dataset(k: KernelBuild, step: StepContext, source: Any, path: Any, *captured: Any) -> Dataset:
    dataset = dataset_of(source)
    compression = k.text_attr("compression")
    compression = "SNAPPY" if compression == "AUTO" else check_compression(compression)
    known = k.attr("hash") if k.attr("hash_valid") else fingerprint(dataset, compression)
    graph_hash = str(known % 2**64)
    count = len(k.attr("Treader_func_args"))
    reader = function_of(k, step, captured[:count], "reader_func")
    shard_of = _shard_function(function_of(k, step, captured[count:], "shard_func"))
    types, shapes = dataset.types, dataset.shapes

    def folder(prefix: str) -> str:
        return "/".join(part.rstrip("/") for part in (k.text_attr(prefix), _folder(path), graph_hash) if part)

    def reading(run: str) -> Dataset:
        return LoadDataset(lambda: shards_of(folder("reader_prefix"), run, compression, types, shapes), reader, UNKNOWN)

    writing = WritingDataset(dataset, lambda: Run(folder("writer_prefix"), types, compression, graph_hash), shard_of)
    return SnapshotDataset(dataset, folder("reader_prefix"), reading, writing)
