"""Images a batch at a time, changed as a generator says: of arrays, and of folders."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator as Iterable, Sequence as Several
from pathlib import Path
from typing import Any

import numpy as np

from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.keras.layers.spatial import checked_format
from dtfctl.runtime.keras.preprocessing.image_files import array_to_img, img_to_array, load_img, pillow
from dtfctl.runtime.keras.sequence import Sequence

ENDS = (".png", ".jpg", ".jpeg", ".bmp", ".ppm", ".tif", ".tiff")


class Iterator(Sequence):
    """Base of iterators over images, without end; subclasses make the batch of some indices.

    Args:
        n: how many images there are.
        seed: of NumPy's global generator, for each batch one more.
    """

    def __init__(self, n: int, batch_size: int, shuffle: bool, seed: int | None) -> None:
        self.n, self.batch_size, self.shuffle, self.seed = n, batch_size, shuffle, seed
        self.batch_index = self.total_batches_seen = 0
        self.lock = threading.Lock()
        self.index_array: Any = None
        self.index_generator = self._flow_index()

    def _set_index_array(self) -> None:
        self.index_array = np.random.permutation(self.n) if self.shuffle else np.arange(self.n)

    def _sow(self) -> None:
        if self.seed is not None:
            np.random.seed(self.seed + self.total_batches_seen)

    def __getitem__(self, index: int) -> Any:
        if index >= len(self):
            raise ValueError(f"Asked to retrieve element {index}, but the Sequence has length {len(self)}")
        self._sow()
        self.total_batches_seen += 1
        if self.index_array is None:
            self._set_index_array()
        return self._get_batches_of_transformed_samples(
            self.index_array[self.batch_size * index : self.batch_size * (index + 1)]
        )

    def __len__(self) -> int:
        return -(-self.n // self.batch_size)

    def on_epoch_end(self) -> None:
        """Draw the order anew."""
        self._set_index_array()

    def reset(self) -> None:
        """Begin with the first batch again."""
        self.batch_index = 0

    def _flow_index(self) -> Iterable[Any]:
        self.reset()
        while True:
            self._sow()
            if self.batch_index == 0:
                self._set_index_array()
            begin = self.batch_index * self.batch_size % self.n if self.n else 0
            self.batch_index = self.batch_index + 1 if self.n > begin + self.batch_size else 0
            self.total_batches_seen += 1
            yield self.index_array[begin : begin + self.batch_size]

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> Any:
        with self.lock:
            indices = next(self.index_generator)
        return self._get_batches_of_transformed_samples(indices)

    next = __next__

    def _get_batches_of_transformed_samples(self, index_array: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not say what the images of a batch are")


class _Kept(Iterator):
    """What writes the images it makes to a folder, if it is told one."""

    data_format: str
    save_to_dir: str | None
    save_prefix: str
    save_format: str
    _most = int(1e4)

    def _save(self, batch: Any, indices: Any) -> None:
        for image, index in zip(batch, indices) if self.save_to_dir else ():
            name = f"{self.save_prefix}_{index}_{np.random.randint(self._most)}.{self.save_format}"
            array_to_img(image, self.data_format, scale=True).save(os.path.join(str(self.save_to_dir), name))


def part_of(subset: str | None, share: float, count: int) -> slice:
    """Say which examples a subset has: validation the first, training the rest."""
    if subset is None:
        return slice(0, count)
    if subset not in ("training", "validation"):
        raise ValueError(f'Invalid subset name: {subset}; expected "training" or "validation"')
    end = int(share * count)
    return slice(0, end) if subset == "validation" else slice(end, count)


class NumpyArrayIterator(_Kept):
    """Batches of arrays of images; with labels, weights and what else comes with each image."""

    def __init__(
        self,
        x: Any,
        y: Any,
        image_data_generator: Any,
        batch_size: int = 32,
        shuffle: bool = False,
        sample_weight: Any = None,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        ignore_class_split: bool = False,
        dtype: Any = None,
    ) -> None:
        self.data_format, self.dtype = checked_format(data_format), dtype or floatx()
        beside: list[Any] = []
        if isinstance(x, (tuple, list)):
            beside = [np.asarray(each) for each in (x[1] if isinstance(x[1], list) else [x[1]])]
            x = x[0]
        for what, values in [("x", b) for b in beside] + [("y", y), ("sample_weight", sample_weight)]:
            if values is not None and len(values) != len(x):
                raise ValueError(f"`x` has {len(x)} images, `{what}` is for {len(values)}: they should be as many")
        chosen = part_of(subset, image_data_generator._validation_split, len(x))
        if subset is not None and y is not None and not ignore_class_split:
            end = int(image_data_generator._validation_split * len(x))
            if not np.array_equal(np.unique(y[:end]), np.unique(y[end:])):
                raise ValueError(
                    "Training and validation subsets have different number of classes after the split. If your numpy "
                    "arrays are sorted by the label, you might want to shuffle them."
                )
        self.x = np.asarray(x[chosen], dtype=self.dtype)
        self.x_misc = [each[chosen] for each in beside]
        self.y = None if y is None else np.asarray(y)[chosen]
        # Weights are not cut into subsets: Keras takes those of the first examples.
        self.sample_weight = None if sample_weight is None else np.asarray(sample_weight)
        if self.x.ndim != 4:
            raise ValueError(f"Input data in `NumpyArrayIterator` should have rank 4, not the shape {self.x.shape}")
        self.image_data_generator = image_data_generator
        self.save_to_dir, self.save_prefix, self.save_format = save_to_dir, save_prefix, save_format
        super().__init__(len(self.x), batch_size, shuffle, seed)

    def _get_batches_of_transformed_samples(self, index_array: Any) -> Any:
        generator = self.image_data_generator
        batch = np.zeros((len(index_array), *self.x.shape[1:]), dtype=self.dtype)
        for place, index in enumerate(index_array):
            image = self.x[index]
            drawn = generator.get_random_transform(image.shape)
            batch[place] = generator.standardize(generator.apply_transform(image.astype(self.dtype), drawn))
        self._save(batch, index_array)
        inputs = [batch, *(each[index_array] for each in self.x_misc)] if self.x_misc else batch
        if self.y is None:
            return inputs
        weights = () if self.sample_weight is None else (self.sample_weight[index_array],)
        return (inputs, self.y[index_array], *weights)


class FilesIterator(_Kept):
    """Base of iterators over files of images; subclasses say which, and what belongs to them."""

    _most = int(1e7)

    def _take(
        self,
        image_data_generator: Any,
        target_size: Any,
        color_mode: str,
        data_format: str | None,
        save_to_dir: Any,
        save_prefix: str,
        save_format: str,
        subset: str | None,
        interpolation: str,
        keep_aspect_ratio: bool,
        dtype: Any,
    ) -> None:
        pillow("Image")
        channels = {"grayscale": 1, "rgb": 3, "rgba": 4}
        if color_mode not in channels:
            raise ValueError(f'Invalid color mode: {color_mode}; expected "rgb", "rgba", or "grayscale".')
        self.image_data_generator, self.target_size, self.color_mode = (
            image_data_generator,
            tuple(target_size),
            color_mode,
        )
        self.data_format, self.dtype = checked_format(data_format), dtype or floatx()
        self.save_to_dir, self.save_prefix, self.save_format = save_to_dir, save_prefix, save_format
        self.subset, self.interpolation, self.keep_aspect_ratio = subset, interpolation, keep_aspect_ratio
        last, count = self.data_format == "channels_last", channels[color_mode]
        self.image_shape = (*self.target_size, count) if last else (count, *self.target_size)

    @property
    def filepaths(self) -> list[str]:
        """The paths of the images."""
        raise NotImplementedError(f"{type(self).__name__} does not say what its files are")

    def _images_at(self, index_array: Any) -> np.ndarray[Any, Any]:
        """Read, change and keep the images of a batch."""
        generator, paths = self.image_data_generator, self.filepaths
        batch = np.zeros((len(index_array), *self.image_shape), dtype=self.dtype)
        for place, index in enumerate(index_array):
            sized = (self.target_size, self.interpolation, self.keep_aspect_ratio)
            image = img_to_array(load_img(paths[index], False, self.color_mode, *sized), self.data_format)
            drawn = generator.get_random_transform(image.shape)
            batch[place] = generator.standardize(np.array(generator.apply_transform(image, drawn)))
        self._save(batch, index_array)
        return batch


class DirectoryIterator(FilesIterator):
    """Batches of the images in a folder, which has one for each class.

    Args:
        classes: the names of the folders; all, in the order of their names, when None.
        class_mode: what the targets are: "categorical", "binary", "sparse", "input" (the images) or None.
        interpolation: how images are resized to `target_size`.
    """

    def __init__(
        self,
        directory: Any,
        image_data_generator: Any,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Several[str] | None = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        data_format: str | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = None,
    ) -> None:
        if class_mode not in ("categorical", "binary", "sparse", "input", None):
            raise ValueError(
                f"Invalid class_mode: {class_mode}; expected one of: categorical, binary, sparse, input, None"
            )
        self.directory, self.class_mode = str(directory), class_mode
        self._take(
            *(image_data_generator, target_size, color_mode, data_format, save_to_dir, save_prefix, save_format),
            *(subset, interpolation, keep_aspect_ratio, dtype),
        )
        names = list(classes) if classes else sorted(p.name for p in Path(directory).iterdir() if p.is_dir())
        self.num_classes, self.class_indices = len(names), {name: index for index, name in enumerate(names)}
        self.filenames: list[str] = []
        found: list[int] = []
        for index, name in enumerate(names):
            files = list(_images(Path(directory, name), follow_links))
            chosen = files[part_of(subset, image_data_generator._validation_split, len(files))]
            self.filenames += [os.path.relpath(file, directory) for file in chosen]
            found += [index] * len(chosen)
        self.classes = np.array(found, dtype="int32")
        self.samples = len(self.filenames)
        print(f"Found {self.samples} images belonging to {self.num_classes} classes.")
        super().__init__(self.samples, batch_size, shuffle, seed)

    @property
    def filepaths(self) -> list[str]:
        """The paths of the images."""
        return [os.path.join(self.directory, name) for name in self.filenames]

    @property
    def labels(self) -> Any:
        """The numbers of the images' classes."""
        return self.classes

    def _get_batches_of_transformed_samples(self, index_array: Any) -> Any:
        batch = self._images_at(index_array)
        if self.class_mode is None:
            return batch
        if self.class_mode == "input":
            return batch, batch.copy()
        numbers = self.classes[index_array]
        if self.class_mode == "categorical":
            return batch, np.eye(self.num_classes, dtype=self.dtype)[numbers]
        return batch, numbers.astype(self.dtype)


def _images(folder: Path, follow_links: bool) -> Iterable[str]:
    for root, _, names in sorted(os.walk(folder, followlinks=follow_links), key=lambda found: found[0]):
        for name in sorted(names):
            if name.lower().endswith(ENDS):
                yield os.path.join(root, name)
