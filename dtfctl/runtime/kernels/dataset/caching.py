"""Datasets whose first whole pass is kept for later ones, in memory or in files."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dtfctl.runtime.checkpoint.atomic import os_error
from dtfctl.runtime.checkpoint.bundle_reader import BundleReader
from dtfctl.runtime.checkpoint.bundle_writer import BundleWriter, index_file
from dtfctl.runtime.framework.dtypes import DType
from dtfctl.runtime.framework.errors import AlreadyExistsError
from dtfctl.runtime.framework.local_path import local_path
from dtfctl.runtime.kernels.context import StepContext
from dtfctl.runtime.kernels.dataset.core import (
    Access,
    Dataset,
    Element,
    EndOfSequence,
    Iteration,
    Next,
    dataset_of,
    scalar_of,
)
from dtfctl.runtime.kernels.dataset.registration import register_dataset
from dtfctl.runtime.kernels.registry import KernelBuild


class CacheDataset(Dataset):
    """The first whole pass is kept and later ones repeat it."""

    def __init__(self, source: Dataset) -> None:
        self.source = source
        self.lock = threading.Lock()
        self.kept: list[Element] | None = None
        self.places: dict[int, Element] = {}

    def iterate(self, iteration: Iteration) -> Next:
        at, following = 0, None if self.kept is not None else self.source.iterate(iteration)
        mine: list[Element] = []

        def advance() -> Element:
            nonlocal at
            if following is None:
                assert self.kept is not None
                if at >= len(self.kept):
                    raise EndOfSequence
                at += 1
                return self.kept[at - 1]
            try:
                element = following()
            except EndOfSequence:
                with self.lock:
                    if self.kept is None:
                        self.kept = mine
                raise
            mine.append(element)
            return element

        return advance

    def cardinality(self) -> int:
        return self.source.cardinality()

    def require_access(self) -> None:
        self.source.require_access()

    def access(self, iteration: Iteration) -> Access:
        element = self.source.access(iteration)

        def kept(at: int) -> Element:
            if at not in self.places:
                self.places[at] = element(at)
            return self.places[at]

        return kept


class FileCacheDataset(Dataset):
    """The same in a tensor bundle under `prefix`, whose index is written when a pass has ended."""

    def __init__(self, source: Dataset, prefix: str) -> None:
        self.source, self.prefix = source, prefix

    def iterate(self, iteration: Iteration) -> Next:
        types = self.types or self.source.types
        if Path(index_file(local_path(self.prefix))).exists():
            return _reading(self.prefix, len(types))
        return _Writing(self.prefix, types, self.source.iterate(iteration), iteration).advance

    def cardinality(self) -> int:
        return self.source.cardinality()


def _key(element: int, component: int, components: int) -> str:
    """Name a component of an element as TensorFlow does: numbers, padded so that names sort as they do."""
    return f"{element:7d}_{component:{len(str(components - 1))}d}"


def _reading(prefix: str, components: int) -> Next:
    bundle, at = BundleReader(prefix), 0

    def advance() -> Element:
        nonlocal at
        names = [_key(at, i, components) for i in range(components)]
        if not bundle.has(names[0]):
            raise EndOfSequence
        at += 1
        return tuple(bundle.read(name) for name in names)

    return advance


class _Writing:
    """The first pass. Its lock file keeps others from writing the same files; what is not whole is removed."""

    def __init__(self, prefix: str, types: Sequence[DType], following: Next, iteration: Iteration) -> None:
        self._prefix, self._types, self._following, self._iteration = prefix, types, following, iteration
        self._lock = Path(local_path(f"{prefix}_0.lockfile"))
        self._bundle: BundleWriter | None = None
        self._count = 0
        self._ended = False

    def advance(self) -> Element:
        if self._ended:
            raise EndOfSequence
        if self._bundle is None:
            self._begin()
        assert self._bundle is not None
        try:
            element = self._following()
        except EndOfSequence:
            self._bundle.finish()
            self._leave()
            raise
        for i, (value, dtype) in enumerate(zip(element, self._types)):
            self._bundle.add(_key(self._count, i, len(self._types)), value, dtype)
        self._count += 1
        return element

    def _begin(self) -> None:
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            with self._lock.open("x") as file:
                file.write(f"Created at: {int(time.time())}")
        except FileExistsError:
            raise AlreadyExistsError(
                f"There appears to be a concurrent caching iterator running - cache lockfile already exists "
                f"('{self._lock}'). If nothing else writes this cache, delete the lockfile and initialize the iterator "
                f"again."
            ) from None
        except OSError as e:
            raise os_error(e, str(self._lock)) from e
        try:
            self._bundle = BundleWriter(self._prefix)
        except BaseException:
            self._lock.unlink(missing_ok=True)
            raise
        self._iteration.on_close(self._abandon)

    def _abandon(self) -> None:
        if self._bundle is not None and not self._ended:
            self._bundle.abort()
            self._leave()

    def _leave(self) -> None:
        self._ended = True
        self._lock.unlink(missing_ok=True)


@register_dataset("CacheDataset", "CacheDatasetV2")
def cache_dataset(k: KernelBuild, step: StepContext, source: Any, filename: Any, cache: Any = None) -> Dataset:
    prefix = scalar_of(filename, "filename").decode()
    return FileCacheDataset(dataset_of(source), prefix) if prefix else CacheDataset(dataset_of(source))
