"""`tf.keras.preprocessing.image`: images changed at random while a model is trained on them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from dtfctl.runtime.keras.backend.settings import floatx
from dtfctl.runtime.keras.layers.spatial import checked_format
from dtfctl.runtime.keras.preprocessing.image_files import (
    array_to_img as array_to_img,
    img_to_array as img_to_array,
    load_img as load_img,
    save_img as save_img,
)
from dtfctl.runtime.keras.preprocessing.iterators import (
    DirectoryIterator as DirectoryIterator,
    Iterator as Iterator,
    NumpyArrayIterator as NumpyArrayIterator,
)
from dtfctl.runtime.keras.preprocessing.tables import DataFrameIterator as DataFrameIterator
from dtfctl.runtime.keras.preprocessing.transforms import (
    apply_affine_transform as apply_affine_transform,
    apply_brightness_shift as apply_brightness_shift,
    apply_channel_shift as apply_channel_shift,
    flip_axis as flip_axis,
    random_brightness as random_brightness,
    random_channel_shift as random_channel_shift,
    random_rotation as random_rotation,
    random_shear as random_shear,
    random_shift as random_shift,
    random_zoom as random_zoom,
    random_zoom_of,
)

_LOG = logging.getLogger(__name__)


class ImageDataGenerator:
    """Batches of images that are changed at random, and brought to a mean and a deviation.

    Args:
        featurewise_center, featurewise_std_normalization, zca_whitening: by what `fit` saw.
        samplewise_center, samplewise_std_normalization: each image by itself.
        rotation_range, shear_range: in degrees.
        width_shift_range, height_shift_range: shares, or pixels from 1 on; a list of them to choose from.
        brightness_range: two factors (needs Pillow); zoom_range: two factors, or how far around 1.
        fill_mode: what comes in from outside: "constant" (`cval`), "nearest", "reflect" or "wrap".
        rescale: what values are multiplied by.
        preprocessing_function: called with each image that is changed, before it is rescaled.
        validation_split: what share of the images `subset="validation"` has.
    """

    def __init__(
        self,
        featurewise_center: bool = False,
        samplewise_center: bool = False,
        featurewise_std_normalization: bool = False,
        samplewise_std_normalization: bool = False,
        zca_whitening: bool = False,
        zca_epsilon: float = 1e-6,
        rotation_range: float = 0,
        width_shift_range: Any = 0.0,
        height_shift_range: Any = 0.0,
        brightness_range: Any = None,
        shear_range: float = 0.0,
        zoom_range: Any = 0.0,
        channel_shift_range: float = 0.0,
        fill_mode: str = "nearest",
        cval: float = 0.0,
        horizontal_flip: bool = False,
        vertical_flip: bool = False,
        rescale: float | None = None,
        preprocessing_function: Callable[[Any], Any] | None = None,
        data_format: str | None = None,
        validation_split: float = 0.0,
        interpolation_order: int = 1,
        dtype: Any = None,
    ) -> None:
        if validation_split and not 0 < validation_split < 1:
            raise ValueError(f"`validation_split` must be strictly between 0 and 1.  Received: {validation_split}")
        if brightness_range is not None and (
            not isinstance(brightness_range, (tuple, list)) or len(brightness_range) != 2
        ):
            raise ValueError(f"`brightness_range should be tuple or list of two floats. Received: {brightness_range}")
        self.featurewise_center = featurewise_center or zca_whitening or featurewise_std_normalization
        self.featurewise_std_normalization = featurewise_std_normalization and not zca_whitening
        self.samplewise_center = samplewise_center or samplewise_std_normalization
        self.samplewise_std_normalization = samplewise_std_normalization
        self.zca_whitening, self.zca_epsilon = zca_whitening, zca_epsilon
        self.rotation_range, self.shear_range = rotation_range, shear_range
        self.width_shift_range, self.height_shift_range = width_shift_range, height_shift_range
        self.brightness_range, self.channel_shift_range = brightness_range, channel_shift_range
        if isinstance(zoom_range, (int, float)):
            zoom_range = [1 - zoom_range, 1 + zoom_range]
        elif len(zoom_range) != 2 or not all(isinstance(v, (int, float)) for v in zoom_range):
            raise ValueError(f"`zoom_range` should be a float or a tuple or list of two floats. Received: {zoom_range}")
        self.zoom_range = list(zoom_range)
        self.fill_mode, self.cval, self.interpolation_order = fill_mode, cval, interpolation_order
        self.horizontal_flip, self.vertical_flip = horizontal_flip, vertical_flip
        self.rescale, self.preprocessing_function = rescale, preprocessing_function
        self.data_format, self.dtype = checked_format(data_format), dtype or floatx()
        last = self.data_format == "channels_last"
        self.row_axis, self.col_axis, self.channel_axis = (1, 2, 3) if last else (2, 3, 1)
        self._validation_split = validation_split
        self.mean: Any = None
        self.std: Any = None
        self.zca_whitening_matrix: Any = None

    def flow(
        self,
        x: Any,
        y: Any = None,
        batch_size: int = 32,
        shuffle: bool = True,
        sample_weight: Any = None,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        ignore_class_split: bool = False,
        subset: str | None = None,
    ) -> NumpyArrayIterator:
        """Give batches of arrays: [n, height, width, channels], or that and what else belongs to each image."""
        return NumpyArrayIterator(
            *(x, y, self, batch_size, shuffle, sample_weight, seed, self.data_format, save_to_dir, save_prefix),
            *(save_format, subset, ignore_class_split, self.dtype),
        )

    def flow_from_directory(
        self,
        directory: Any,
        target_size: Any = (256, 256),
        color_mode: str = "rgb",
        classes: Any = None,
        class_mode: str | None = "categorical",
        batch_size: int = 32,
        shuffle: bool = True,
        seed: int | None = None,
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        follow_links: bool = False,
        subset: str | None = None,
        interpolation: str = "nearest",
        keep_aspect_ratio: bool = False,
    ) -> DirectoryIterator:
        """Give batches of the images in a folder, which has one for each class (needs Pillow)."""
        return DirectoryIterator(
            *(directory, self, target_size, color_mode, classes, class_mode, batch_size, shuffle, seed),
            *(self.data_format, save_to_dir, save_prefix, save_format, follow_links, subset, interpolation),
            *(keep_aspect_ratio, self.dtype),
        )

    def flow_from_dataframe(
        self,
        dataframe: Any,
        directory: Any = None,
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
        save_to_dir: Any = None,
        save_prefix: str = "",
        save_format: str = "png",
        subset: str | None = None,
        interpolation: str = "nearest",
        validate_filenames: bool = True,
    ) -> DataFrameIterator:
        """Give batches of the images that a column of a pandas.DataFrame, or of a dict, names (needs Pillow)."""
        return DataFrameIterator(
            *(dataframe, directory, self, x_col, y_col, weight_col, target_size, color_mode, classes, class_mode),
            *(batch_size, shuffle, seed, self.data_format, save_to_dir, save_prefix, save_format, subset),
            *(interpolation, False, self.dtype, validate_filenames),
        )

    def standardize(self, x: Any) -> Any:
        """Bring an image, or a batch, to mean and deviation; in place, if it is an array of numbers with a point."""
        if self.preprocessing_function:
            x = self.preprocessing_function(x)
        if self.rescale:
            x *= self.rescale
        if self.samplewise_center:
            x -= np.mean(x, keepdims=True)
        if self.samplewise_std_normalization:
            x /= np.std(x, keepdims=True) + 1e-6
        if self.featurewise_center and self._has(self.mean, "featurewise_center"):
            x -= self.mean
        if self.featurewise_std_normalization and self._has(self.std, "featurewise_std_normalization"):
            x /= self.std + 1e-6
        if self.zca_whitening and self._has(self.zca_whitening_matrix, "zca_whitening"):
            x = np.reshape(x.reshape(-1, np.prod(x.shape[-3:])) @ self.zca_whitening_matrix, x.shape)
        return x

    def _has(self, value: Any, option: str) -> bool:
        if value is None:
            _LOG.warning("this ImageDataGenerator has %s, but saw no data: call `fit` first", option)
        return value is not None

    def _shifted(self, by: Any, size: int) -> Any:
        if not np.any(by):
            return 0
        try:  # a list to choose from, or a whole number
            drawn = np.random.choice(by) * np.random.choice([-1, 1])
        except ValueError:
            drawn = np.random.uniform(-by, by)
        return drawn * size if np.max(by) < 1 else drawn

    def get_random_transform(self, img_shape: Any, seed: int | None = None) -> dict[str, Any]:
        """Draw how an image of a shape is changed."""
        if seed is not None:
            np.random.seed(seed)
        theta = np.random.uniform(-self.rotation_range, self.rotation_range) if self.rotation_range else 0
        tx = self._shifted(self.height_shift_range, img_shape[self.row_axis - 1])
        ty = self._shifted(self.width_shift_range, img_shape[self.col_axis - 1])
        shear = np.random.uniform(-self.shear_range, self.shear_range) if self.shear_range else 0
        zx, zy = random_zoom_of(self.zoom_range)
        flips = [bool(np.random.random() < 0.5) and flip for flip in (self.horizontal_flip, self.vertical_flip)]
        intensity = brightness = None
        if self.channel_shift_range != 0:
            intensity = np.random.uniform(-self.channel_shift_range, self.channel_shift_range)
        if self.brightness_range is not None:
            brightness = np.random.uniform(*self.brightness_range)
        found = {"theta": theta, "tx": tx, "ty": ty, "shear": shear, "zx": zx, "zy": zy}
        found |= {"flip_horizontal": flips[0], "flip_vertical": flips[1]}
        return {**found, "channel_shift_intensity": intensity, "brightness": brightness}

    def apply_transform(self, x: Any, transform_parameters: dict[str, Any]) -> Any:
        """Change an image as `get_random_transform` has drawn."""
        given = transform_parameters
        row, col, channel = self.row_axis - 1, self.col_axis - 1, self.channel_axis - 1
        theta, tx, ty, shear = (given.get(name, 0) for name in ("theta", "tx", "ty", "shear"))
        x = apply_affine_transform(
            x,
            theta,
            tx,
            ty,
            shear,
            given.get("zx", 1),
            given.get("zy", 1),
            row,
            col,
            channel,
            self.fill_mode,
            self.cval,
            self.interpolation_order,
        )
        if given.get("channel_shift_intensity") is not None:
            x = apply_channel_shift(x, given["channel_shift_intensity"], channel)
        if given.get("flip_horizontal", False):
            x = flip_axis(x, col)
        if given.get("flip_vertical", False):
            x = flip_axis(x, row)
        if given.get("brightness") is not None:
            x = apply_brightness_shift(x, given["brightness"], False)
        return x

    def random_transform(self, x: Any, seed: int | None = None) -> Any:
        """Change an image at random."""
        return self.apply_transform(x, self.get_random_transform(x.shape, seed))

    def fit(self, x: Any, augment: bool = False, rounds: int = 1, seed: int | None = None) -> None:
        """Learn mean, deviation and what whitens of some images.

        Args:
            augment: of images that are changed at random, `rounds` times each.

        Raises:
            ValueError: they are no images.
        """
        x = np.asarray(x, dtype=self.dtype)
        if x.ndim != 4:
            raise ValueError(f"Input to `.fit()` should have rank 4. Got array with shape: {x.shape}")
        if seed is not None:
            np.random.seed(seed)
        x = np.copy(x)
        if self.rescale:
            x *= self.rescale
        if augment:
            x = np.stack([self.random_transform(image) for _ in range(rounds) for image in x]).astype(self.dtype)
        shape = [1, 1, 1]
        shape[self.channel_axis - 1] = x.shape[self.channel_axis]
        axes = (0, self.row_axis, self.col_axis)
        if self.featurewise_center:
            self.mean = np.reshape(np.mean(x, axis=axes), shape)
            x -= self.mean
        if self.featurewise_std_normalization:
            self.std = np.reshape(np.std(x, axis=axes), shape)
            x /= self.std + 1e-6
        if self.zca_whitening:
            u, s, _ = np.linalg.svd(np.reshape(x, (len(x), -1)).T, full_matrices=False)
            self.zca_whitening_matrix = (u * (np.sqrt(len(x)) / (s + self.zca_epsilon))) @ u.T
