"""Images that a table names, a batch at a time."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from dtfctl.runtime.keras.preprocessing.iterators import ENDS, FilesIterator, part_of

_WITHOUT_CLASSES = ("input", "multi_output", "raw", None)
_MODES = ("binary", "categorical", "sparse", *_WITHOUT_CLASSES)


class DataFrameIterator(FilesIterator):
    """Batches of the images that a column of a table names.

    Args:
        dataframe: a pandas.DataFrame, or a dict of columns.
        directory: what the names are below; they are paths when None.
        y_col: the column of the targets, or a list of columns.
        classes: the names of the classes, in their order; all that there are, sorted, when None.
        class_mode: what the targets are: "categorical" (also of lists of classes), "binary", "sparse", "input" (the
            images), "raw" (the columns themselves), "multi_output" (a list of columns) or None.
        validate_filenames: leave out, with a warning, what is no file of an image.
    """

    def __init__(
        self,
        dataframe: Any,
        directory: Any = None,
        image_data_generator: Any = None,
        x_col: str = "filename",
        y_col: Any = "class",
        weight_col: str | None = None,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Any = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        data_format: str | None = "channels_last",
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
        dtype: Any = "float32",
        validate_filenames: bool = True,
    ) -> None:
        if class_mode not in _MODES:
            raise ValueError(f"Invalid class_mode: {class_mode}; expected one of: {_MODES}")
        if class_mode == "multi_output" and not isinstance(y_col, list):
            raise TypeError(f'If class_mode="multi_output", y_col must be a list. Received {type(y_col).__name__}.')
        names = _column(dataframe, x_col)
        self._take(
            *(image_data_generator, target_size, color_mode, data_format, save_to_dir, save_prefix, save_format),
            *(subset, interpolation, keep_aspect_ratio, dtype),
        )
        self.directory, self.class_mode = directory or "", class_mode
        if not all(isinstance(name, str) for name in names):
            raise TypeError(f"All values in column x_col={x_col} must be strings.")
        weights = None if weight_col is None else np.asarray(_column(dataframe, weight_col))
        if weights is not None and not np.issubdtype(weights.dtype, np.number):
            raise TypeError(f"Column weight_col={weight_col} must be numeric.")
        rows = self._with_images(names, x_col) if validate_filenames else list(range(len(names)))
        labels: list[Any] = []
        if class_mode not in _WITHOUT_CLASSES:
            labels = _column(dataframe, y_col)
            self._check_labels(labels, y_col, classes)
            rows, labels, classes = _of_classes(rows, labels, classes, y_col)
            self.class_indices = {name: index for index, name in enumerate(classes)}
        elif classes:
            warnings.warn(f'`classes` will be ignored given the class_mode="{class_mode}"', stacklevel=3)
        rows = rows[part_of(subset, image_data_generator._validation_split, len(rows))]
        self.filenames = [names[row] for row in rows]
        self._filepaths = [os.path.join(self.directory, name) for name in self.filenames]
        self._sample_weight = None if weights is None else weights[rows]
        self.classes: list[Any] = []
        self._targets: Any = None
        if class_mode == "multi_output":
            self._targets = [np.array([column[row] for row in rows]) for column in _columns(dataframe, y_col)]
        elif class_mode == "raw":
            columns = _columns(dataframe, y_col if isinstance(y_col, (list, tuple)) else [y_col])
            values = np.array([[column[row] for row in rows] for column in columns])
            self._targets = values.T if isinstance(y_col, (list, tuple)) else values[0]
        elif class_mode not in _WITHOUT_CLASSES:
            self.classes = [
                [self.class_indices[name] for name in labels[row]]
                if isinstance(labels[row], (list, tuple))
                else self.class_indices[labels[row]]
                for row in rows
            ]
        self.samples = len(self.filenames)
        kind = "validated" if validate_filenames else "non-validated"
        belonging = "" if class_mode in _WITHOUT_CLASSES else f" belonging to {len(self.class_indices)} classes"
        print(f"Found {self.samples} {kind} image filenames{belonging}.")
        super().__init__(self.samples, batch_size, shuffle, seed)

    def _with_images(self, names: list[str], x_col: str) -> list[int]:
        paths = [os.path.join(self.directory, name) for name in names]
        rows = [row for row, path in enumerate(paths) if path.lower().endswith(ENDS) and os.path.isfile(path)]
        if len(rows) < len(names):
            warnings.warn(
                f'Found {len(names) - len(rows)} invalid image filename(s) in x_col="{x_col}". These filename(s) will '
                "be ignored.",
                stacklevel=4,
            )
        return rows

    def _check_labels(self, labels: list[Any], y_col: Any, classes: Any) -> None:
        kinds = (str, list, tuple) if self.class_mode == "categorical" else (str,)
        if not all(isinstance(label, kinds) for label in labels):
            wanted = "type string, list or tuple" if self.class_mode == "categorical" else "strings"
            raise TypeError(f'If class_mode="{self.class_mode}", y_col="{y_col}" column values must be {wanted}.')
        if self.class_mode == "binary" and len(set(classes or labels)) != 2:
            raise ValueError(
                f'If class_mode="binary" there must be 2 classes. Found {len(set(classes or labels))} classes.'
            )

    @property
    def filepaths(self) -> list[str]:
        """The paths of the images."""
        return self._filepaths

    @property
    def labels(self) -> Any:
        """The targets as they are, or the numbers of the images' classes."""
        return self._targets if self.class_mode in ("multi_output", "raw") else self.classes

    @property
    def sample_weight(self) -> Any:
        """The weights of the images."""
        return self._sample_weight

    def _get_batches_of_transformed_samples(self, index_array: Any) -> Any:
        batch = self._images_at(index_array)
        targets: Any
        if self.class_mode is None:
            return batch
        if self.class_mode == "input":
            targets = batch.copy()
        elif self.class_mode == "multi_output":
            targets = [column[index_array] for column in self._targets]
        elif self.class_mode == "raw":
            targets = self._targets[index_array]
        elif self.class_mode == "categorical":
            targets = np.zeros((len(batch), len(self.class_indices)), dtype=self.dtype)
            for place, index in enumerate(index_array):
                targets[place, self.classes[index]] = 1.0
        else:
            targets = np.array([self.classes[index] for index in index_array], dtype=self.dtype)
        weights = () if self._sample_weight is None else (self._sample_weight[index_array],)
        return (batch, targets, *weights)


def _column(table: Any, name: str) -> list[Any]:
    if not hasattr(table, "columns") and not isinstance(table, dict):
        raise TypeError(
            f"flow_from_dataframe takes a pandas.DataFrame (pip install pandas) or a dict of columns, not {table!r}"
        )
    return list(table[name])


def _columns(table: Any, names: Any) -> list[list[Any]]:
    return [_column(table, name) for name in names]


def _of_classes(rows: list[int], labels: list[Any], classes: Any, y_col: Any) -> tuple[list[int], list[Any], list[str]]:
    """Leave out the labels, and the rows, that are of none of the classes."""
    if not classes:
        found = {name for row in rows for name in _names(labels[row])}
        return rows, labels, sorted(found)
    wanted = list(dict.fromkeys(classes))
    kept = [
        [name for name in label if name in wanted] if isinstance(label, (list, tuple)) else label for label in labels
    ]
    return [row for row in rows if any(name in wanted for name in _names(kept[row]))], kept, wanted


def _names(label: Any) -> list[str]:
    return list(label) if isinstance(label, (list, tuple)) else [label]
