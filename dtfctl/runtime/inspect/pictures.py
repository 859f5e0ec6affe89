"""Find in a graph what takes a picture and gives a score for each class, for whoever wants to ask it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dtfctl.protocol import graph_pb2
from dtfctl.runtime.framework import dtypes
from dtfctl.runtime.framework.device_spec import DeviceSpec
from dtfctl.runtime.framework.errors import NotFoundError, ResourceExhaustedError
from dtfctl.runtime.framework.graph_util import extract_sub_graph, node_of
from dtfctl.runtime.inspect.sources import Source

MOST_BYTES = 1 << 24
"""A page takes no longer graph: variables are not in it, but constants are."""
LEAST_SIDE, MOST_SIDE = 4, 1024
CHANNELS = (1, 3)
_PLACEHOLDERS = ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")
_SOFTMAX = ("SparseSoftmaxCrossEntropyWithLogits", "SoftmaxCrossEntropyWithLogits", "Softmax", "LogSoftmax")
_WANTED = (
    "a placeholder of float32 and shape [?, 64], [?, 8, 8], [?, 8, 8, 1 or 3] or [?, 1 or 3, 8, 8], for any square or "
    "sides, from which alone scores come: what a softmax takes, or what a step has fetched that fed nothing else"
)


@dataclass(frozen=True)
class PictureModel:
    """What takes a picture and gives scores.

    Attributes:
        graph: the nodes that the scores need, under their names and on their devices.
        input: the tensor to feed. shape: of one picture. output: the tensor to fetch.
        tasks: the tasks on which it is computed, as device filters.
    """

    graph: graph_pb2.GraphDef
    input: str
    shape: tuple[int, ...]
    output: str
    tasks: tuple[str, ...]


def find_picture_model(source: Source) -> PictureModel:
    """Find it: what a step has asked for in so many words, as in serving, or else what a softmax takes.

    Raises:
        NotFoundError: there is none. ResourceExhaustedError: it is larger than `MOST_BYTES`.
    """
    nodes = {node.name: node for node in source.graph.node}
    pictures = {name: shape for name, node in nodes.items() if (shape := _picture(node)) is not None}
    for output, fed in _candidates(source, nodes, pictures):
        needed = extract_sub_graph(source.graph, [node_of(output)])
        taken = [node for node in needed.node if node.op in _PLACEHOLDERS]
        missing = {node.name for node in taken if node.op != "PlaceholderWithDefault"} - {fed}
        chosen = [fed] if fed else [node.name for node in taken if node.name in pictures]
        if len(chosen) != 1 or missing - set(chosen) or not any(node.name == chosen[0] for node in taken):
            continue
        if needed.ByteSize() > MOST_BYTES:
            raise ResourceExhaustedError(f"what {output} of {source.name} needs is longer than {MOST_BYTES >> 20} MiB")
        return PictureModel(needed, f"{chosen[0]}:0", pictures[chosen[0]], output, _filters(needed.node, source.master))
    raise NotFoundError(f"{source.name} takes no picture: {_WANTED}")


def _candidates(
    source: Source, nodes: dict[str, graph_pb2.NodeDef], pictures: dict[str, tuple[int, ...]]
) -> Iterable[tuple[str, str]]:
    """List tensors that may be scores, with the placeholder that is fed for them; "": whichever they need."""
    for step in source.steps:
        fed = node_of(step.feeds[0]) if len(step.feeds) == 1 else ""
        if fed in pictures:
            yield from ((fetch, fed) for fetch in step.fetches if _may_be_scores(nodes.get(node_of(fetch))))
    for kind in _SOFTMAX:
        for node in nodes.values():
            if node.op == kind and "gradients" not in node.name:
                name = node.input[0]
                yield (name if ":" in name else f"{name}:0"), ""


def _may_be_scores(node: graph_pb2.NodeDef | None) -> bool:
    # Calls of functions say their types in a list, others in an attribute of any name.
    if node is None or node.op in ("ArgMax", "Equal", "TopKV2"):
        return False
    said = node.attr["T"].type if "T" in node.attr else dtypes.float32.as_datatype_enum
    return bool(said == dtypes.float32.as_datatype_enum)


def _picture(node: graph_pb2.NodeDef) -> tuple[int, ...] | None:
    """Give the shape of one picture that a placeholder takes; None: it takes none."""
    if node.op not in _PLACEHOLDERS or node.attr["dtype"].type != dtypes.float32.as_datatype_enum:
        return None
    shape = node.attr["shape"].shape
    sizes = tuple(int(dim.size) for dim in shape.dim)
    if shape.unknown_rank or not sizes or sizes[0] > 1 or min(sizes[1:], default=0) < 1:
        return None
    one = sizes[1:]
    sides = sides_of(one)
    return one if sides is not None and all(LEAST_SIDE <= side <= MOST_SIDE for side in sides) else None


def sides_of(shape: Sequence[int]) -> tuple[int, int] | None:
    """Tell height and width of a picture of this shape; None: it is none."""
    match tuple(shape):
        case (size,) if math.isqrt(size) ** 2 == size:
            return math.isqrt(size), math.isqrt(size)
        case (height, width):
            return height, width
        case (height, width, channels) if channels in CHANNELS:
            return height, width
        case (channels, height, width) if channels in CHANNELS:
            return height, width
    return None


def _filters(nodes: Iterable[graph_pb2.NodeDef], master: str) -> tuple[str, ...]:
    found = set()
    for device in {master, *(node.device for node in nodes)}:
        spec = DeviceSpec.from_string(device)
        if spec.job is not None and spec.task is not None:
            found.add(f"/job:{spec.job}/task:{spec.task}")
    return tuple(sorted(found))
