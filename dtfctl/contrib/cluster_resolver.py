"""`tf.contrib.cluster_resolver`: where a program's cluster is. There are no TPUs."""

from __future__ import annotations

from typing import Any

from dtfctl.runtime.train.cluster_resolver import SimpleClusterResolver, TFConfigClusterResolver

__all__ = ["SimpleClusterResolver", "TFConfigClusterResolver", "TPUClusterResolver"]


class TPUClusterResolver:
    """Fails when it is made: programs import it, and make it only where their flags say `use_tpu`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "TPUClusterResolver: there are no TPUs here. Run with use_tpu=False, or take TFConfigClusterResolver"
        )
