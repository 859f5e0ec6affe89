"""Write a profile for others to read: as TensorFlow's ProfileProto, and as the tool pprof wants it."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dtfctl.protocol import config_pb2, pprof_pb2, stats_pb2, tfprof_log_pb2
from dtfctl.runtime.profiler.model.nodes import Figures, Node
from dtfctl.runtime.profiler.model.options import TIMES
from dtfctl.runtime.profiler.model.views import Place

Steps = Mapping[int, Sequence[config_pb2.RunMetadata]]
"""The metadata of traced steps, by number."""


class _Numbers:
    """Numbers texts in the order in which they are first asked for; 0 is the empty one."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {"": 0}

    def of(self, text: str) -> int:
        return self.known.setdefault(text, len(self.known))


def to_profile_proto(nodes: Mapping[str, Node], steps: Steps) -> tfprof_log_pb2.ProfileProto:
    """Write nodes, the lines that made them, and what each run of them took, as TensorFlow's own tools read it."""
    proto = tfprof_log_pb2.ProfileProto(steps=sorted(steps))
    numbers = {name: number for number, name in enumerate(nodes)}
    texts = _Numbers()
    for name, node in nodes.items():
        told = proto.nodes[numbers[name]]
        told.name, told.op, told.id, told.float_ops = name, node.op, numbers[name], node.figures.float_ops
        told.op_types.extend(sorted(node.types))
        told.shape.extend(node.variable_shape)
        for slot, source in enumerate(node.inputs):
            told.inputs[slot] = numbers[source]
        for slot, shape in enumerate(node.input_shapes):
            told.input_shapes[slot].int64_values.extend(shape.known() if shape.is_fully_defined() else ())
        for slot, shape in enumerate(node.shapes):
            told.output_shapes[slot].int64_values.extend(shape.known() if shape.is_fully_defined() else ())
        if node.devices:
            told.canonical_device = node.devices[0]
        for frame in node.made_by.traceback if node.made_by is not None else ():
            told.trace.traces.add(
                file_id=texts.of(frame.filename), lineno=frame.lineno or 0, function_id=texts.of(frame.name)
            )
    takers: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for source in node.inputs:
            takers.setdefault(source, []).append(name)
    for name, found in takers.items():
        for slot, taker in enumerate(found):
            proto.nodes[numbers[name]].outputs[slot] = numbers[taker]
            proto.nodes[numbers[taker]].src_output_index[numbers[name]] = slot
    proto.has_trace = any(told.trace.traces for told in proto.nodes.values())
    for number, added in steps.items():
        for device, stats in _ran(added):
            if stats.node_name in numbers:
                _add_run(proto.nodes[numbers[stats.node_name]].execs[number], device, stats)
    for text, number in texts.known.items():
        proto.id_to_string[number] = text
    return proto


def _ran(added: Sequence[config_pb2.RunMetadata]) -> Iterator[tuple[str, stats_pb2.NodeExecStats]]:
    for metadata in added:
        for device in metadata.step_stats.dev_stats:
            for stats in device.node_stats:
                yield device.device.lower(), stats


def _add_run(told: tfprof_log_pb2.ExecProfile, device: str, stats: stats_pb2.NodeExecStats) -> None:
    told.run_count += 1
    spent = max(stats.op_end_rel_micros, 1)
    end = stats.all_start_micros + max(stats.all_end_rel_micros, spent)
    told.all_start_micros = min(told.all_start_micros or stats.all_start_micros, stats.all_start_micros)
    told.latest_end_micros = max(told.latest_end_micros, end)
    execs = told.accelerator_execs if "/device:gpu" in device else told.cpu_execs
    execs[device].times.add(int64_values=[stats.all_start_micros, spent])
    if device not in told.devices:
        told.devices.append(device)
    size = sum(output.tensor_description.allocation_description.requested_bytes for output in stats.output)
    told.memory_execs.add(
        memory_micros=stats.all_start_micros,
        requested_bytes=sum(memory.total_bytes for memory in stats.memory) if stats.memory else size,
        peak_bytes=sum(memory.peak_bytes for memory in stats.memory) if stats.memory else size,
        residual_bytes=sum(memory.live_bytes for memory in stats.memory) if stats.memory else size,
        output_bytes=size,
    )


def write_pprof(root: Place, figure: str, file: Path) -> None:
    """Write the view by lines of code: a sample for each node that is shown, with the calls that made it.

    Args:
        figure: what is told of a node, besides that it is one.
    """
    texts = _Numbers()
    profile = pprof_pb2.Profile()
    unit = "microseconds" if figure in TIMES else "bytes" if figure.endswith("bytes") else "count"
    for kind, measure in (("count", "count"), (figure, unit)):
        profile.sample_type.add(type=texts.of(kind), unit=texts.of(measure))
    functions: dict[tuple[str, str], int] = {}
    lines: dict[tuple[str, str, int], int] = {}
    stack = [root]
    while stack:
        place = stack.pop()
        stack.extend(place.children)
        for node in place.nodes:
            sample = profile.sample.add(value=[1, getattr(node.figures, figure)])
            sample.label.add(key=texts.of("graph node:"), str=texts.of(node.name))
            # From the innermost call outwards.
            for frame in reversed(node.made_by.traceback if node.made_by is not None else ()):
                line = frame.filename, frame.name, frame.lineno or 0
                sample.location_id.append(lines.setdefault(line, len(lines) + 1))
    for (filename, name, at), number in lines.items():
        function = functions.setdefault((filename, name), len(functions) + 1)
        profile.location.add(id=number).line.add(function_id=function, line=at)
    for (filename, name), number in functions.items():
        called = f"{Path(filename).stem}:{name}"
        profile.function.add(id=number, name=texts.of(called), filename=texts.of(filename))
    profile.string_table.extend(texts.known)
    file.write_bytes(gzip.compress(profile.SerializeToString()))


PPROF_FIGURES = frozenset(vars(Figures())) - {"occurrence", "run_count"}
"""What can be written for pprof."""
