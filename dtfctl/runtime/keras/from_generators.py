"""The names that Keras had for training on generators, which `fit`, `evaluate` and `predict` take too."""

from __future__ import annotations

from typing import Any


class FromGenerators:
    """What a model does with generators and sequences, by names of their own.

    `max_queue_size`, `workers` and `use_multiprocessing` change nothing: generators run in this thread.
    """

    def fit_generator(
        self: Any,
        generator: Any,
        steps_per_epoch: int | None = None,
        epochs: int = 1,
        verbose: int = 1,
        callbacks: Any = None,
        validation_data: Any = None,
        validation_steps: int | None = None,
        validation_freq: Any = 1,
        class_weight: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        shuffle: Any = True,
        initial_epoch: int = 0,
    ) -> Any:
        """Train on batches that a generator or a `tf.keras.utils.Sequence` gives, as `fit` does."""
        return self.fit(
            generator,
            steps_per_epoch=steps_per_epoch,
            epochs=epochs,
            verbose=verbose,
            callbacks=callbacks,
            validation_data=validation_data,
            validation_steps=validation_steps,
            validation_freq=validation_freq,
            class_weight=class_weight,
            shuffle=shuffle,
            initial_epoch=initial_epoch,
        )

    def evaluate_generator(
        self: Any,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: int = 0,
    ) -> Any:
        """Compute loss and metrics over batches that a generator gives, as `evaluate` does."""
        return self.evaluate(generator, steps=steps, verbose=verbose, callbacks=callbacks)

    def predict_generator(
        self: Any,
        generator: Any,
        steps: int | None = None,
        callbacks: Any = None,
        max_queue_size: int = 10,
        workers: int = 1,
        use_multiprocessing: bool = False,
        verbose: int = 0,
    ) -> Any:
        """Compute the outputs for batches that a generator gives, as `predict` does."""
        return self.predict(generator, steps=steps, verbose=verbose, callbacks=callbacks)
