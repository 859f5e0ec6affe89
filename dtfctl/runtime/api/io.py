"""`tf.io`."""

from __future__ import annotations

from dtfctl.runtime.api._exported.io import *
from dtfctl.runtime.api._shared.image_files import *
from dtfctl.runtime.api._shared.io import *
from dtfctl.runtime.api._shared.queues import *
from dtfctl.runtime.api._shared.records import *
from dtfctl.runtime.ops.sequence_parsing import parse_sequence_example
from dtfctl.runtime.train.graph_io import write_graph
from dtfctl.runtime.train.input import match_filenames_once
