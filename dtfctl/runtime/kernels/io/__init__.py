"""Kernels of the io family."""

from dtfctl.runtime.kernels.io import (  # noqa: F401
    csv,
    decode,
    examples,
    logging,
    numbers,
    readers,
    save_restore,
    sequence_examples,
    summaries,
    summary_writers,
    wav,
)
