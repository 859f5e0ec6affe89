"""Elements of a dataset in files: TensorFlow's layout of snapshots.

    FOLDER/snapshot.metadata                        which run is the newest, and whether it is whole
    FOLDER/RUN/00000002.shard/00000000.snapshot     a shard's elements: TFRecords, one for each component

A folder may be read while another run is written; the metadata names a run only once it is there.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from google.protobuf.message import DecodeError

from dtfctl.protocol import snapshot_pb2, tensor_pb2
from dtfctl.runtime.checkpoint.atomic import atomic_file, os_error
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import DataLossError, InvalidArgumentError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.runtime.framework.tensor_shape import TensorShape
from dtfctl.runtime.kernels.dataset.core import Dataset, Element, EndOfSequence, Iteration, Next
from dtfctl.runtime.kernels.io.records import TFRecordWriter, read_tfrecords

FORMAT = 2
_METADATA = "snapshot.metadata"
_SUFFIX = ".shard"
COMPRESSIONS = ("", "GZIP", "SNAPPY")


def check_compression(name: str) -> str:
    """Check the name of a compression, and return it.

    Raises:
        InvalidArgumentError: these files are never compressed so.
    """
    if name not in COMPRESSIONS:
        raise InvalidArgumentError(f"compression must be either '', 'GZIP' or 'SNAPPY', got '{name}'")
    return name


def read_metadata(folder: str) -> snapshot_pb2.SnapshotMetadataRecord | None:
    """Read what describes the newest run of a folder; None where there is none.

    Raises:
        DataLossError: the file is damaged.
    """
    path = Path(local_path(folder)) / _METADATA
    try:
        return snapshot_pb2.SnapshotMetadataRecord.FromString(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as e:
        raise os_error(e, str(path)) from e
    except DecodeError as e:
        raise DataLossError(f"{path}: Can't parse as binary proto") from e


class Run:
    """A new run of elements in `folder`; its metadata stands there at once and says when it is whole."""

    def __init__(self, folder: str, types: Sequence[DType], compression: str, graph_hash: str = "") -> None:
        self._folder = Path(local_path(folder))
        self._types, self._compression = tuple(types), compression
        self._metadata = snapshot_pb2.SnapshotMetadataRecord(
            graph_hash=graph_hash,
            run_id=str(secrets.randbits(64)),
            version=FORMAT,
            dtype=[t.as_datatype_enum for t in types],  # type: ignore[misc]
        )
        self._shards: dict[int, TFRecordWriter] = {}
        self._make(self._folder / self._metadata.run_id)
        self._describe()

    def write(self, shard: int, element: Element) -> None:
        writer = self._shards.get(shard)
        if writer is None:
            folder = self._folder / self._metadata.run_id / f"{shard:08d}{_SUFFIX}"
            self._make(folder)
            writer = self._shards[shard] = TFRecordWriter(str(folder / "00000000.snapshot"), self._compression)
        for value, dtype in zip(element, self._types):
            writer.write(encode_tensor(value, dtype).SerializeToString())
        self._metadata.num_elements += 1

    def finish(self) -> None:
        """Close the run, and note that all its elements are written."""
        self.close()
        self._metadata.finalized = True
        self._describe()

    def close(self) -> None:
        shards, self._shards = self._shards, {}
        for writer in shards.values():
            writer.close()

    def _describe(self) -> None:
        self._metadata.creation_timestamp = time.time_ns() // 1000
        with atomic_file(str(self._folder / _METADATA)) as file:
            file.write(self._metadata.SerializeToString())

    @staticmethod
    def _make(folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise os_error(e, str(folder)) from e


class ShardDataset(Dataset):
    """The elements of one shard from the one at `start` on."""

    def __init__(
        self, folder: str, compression: str, types: Sequence[DType], shapes: Sequence[TensorShape], start: int = 0
    ) -> None:
        self.folder, self.compression, self.start = folder, compression, start
        self.types, self.shapes = tuple(types), tuple(shapes)

    def iterate(self, iteration: Iteration) -> Next:
        elements = self._elements()
        for _ in range(self.start):
            next(elements, None)

        def advance() -> Element:
            try:
                return next(elements)
            except StopIteration:
                raise EndOfSequence from None

        return advance

    def _elements(self) -> Iterator[Element]:
        for number in range(1 << 30):
            path = f"{self.folder}/{number:08d}.snapshot"
            if not Path(local_path(path)).exists():
                return
            records = read_tfrecords(path, self.compression)
            while True:
                element = tuple(_value(path, record) for record in itertools.islice(records, len(self.types)))
                if not element:
                    break
                if len(element) < len(self.types):
                    raise DataLossError(f"{path} ends inside an element")
                yield element


def _value(path: str, record: bytes) -> object:
    try:
        return decode_tensor(tensor_pb2.TensorProto.FromString(record))
    except (DecodeError, InvalidArgumentError) as e:
        raise DataLossError(f"Unable to parse tensor from stored proto in file: {path}") from e


class ShardsDataset(Dataset):
    """A dataset whose elements are datasets: one for each shard."""

    types = (dtypes.variant,)
    shapes = (TensorShape([]),)

    def __init__(self, shards: Sequence[Dataset]) -> None:
        self.shards = tuple(shards)

    def iterate(self, iteration: Iteration) -> Next:
        waiting = iter(self.shards)

        def advance() -> Element:
            for shard in waiting:
                return (shard.scalar(),)
            raise EndOfSequence

        return advance

    def cardinality(self) -> int:
        return len(self.shards)


def shards_of(
    folder: str, run: str, compression: str, types: Sequence[DType], shapes: Sequence[TensorShape]
) -> ShardsDataset:
    """Make a dataset of the shards of a run, in the order of their numbers."""
    folders = sorted(Path(local_path(folder), run).glob(f"*{_SUFFIX}"))
    return ShardsDataset([ShardDataset(str(f), compression, types, shapes) for f in folders])
