"""Whether sessions made from now on compute in mixed precision, for programs that ask for it in one line."""

from __future__ import annotations

from dtfctl.protocol import config_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.dtypes import DType

_ON, _DEFAULT = config_pb2.RewriterConfig.ON, config_pb2.RewriterConfig.DEFAULT
# The switch of a session's configuration that says so, by type.
SWITCHES = {dtypes.float16: "auto_mixed_precision", dtypes.bfloat16: "auto_mixed_precision_onednn_bfloat16"}


class MixedPrecision:
    """What the process has asked for.

    Attributes:
        dtype: the type to compute in; None for that of the graph.
        is_late: whether there are sessions that it says nothing of.
    """

    dtype: DType | None = None
    is_late = False

    def configured(self, config: config_pb2.ConfigProto) -> config_pb2.ConfigProto:
        """Return a session's configuration with what was asked for, unless it says otherwise itself."""
        if self.dtype is None:
            self.is_late = True
            return config
        switch = SWITCHES[self.dtype]
        if getattr(config.graph_options.rewrite_options, switch) != _DEFAULT:
            return config
        changed = config_pb2.ConfigProto()
        changed.CopyFrom(config)
        setattr(changed.graph_options.rewrite_options, switch, _ON)
        return changed


MIXED = MixedPrecision()
