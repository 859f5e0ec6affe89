"""In which order the stages of a pipeline stand best: each sends to the next one only."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dtfctl.runtime.client.session import Session
from dtfctl.runtime.framework.convert import constant
from dtfctl.runtime.framework.graph import Graph
from dtfctl.runtime.framework.op_builder import apply_op
from dtfctl.runtime.pipelines.stages import Devices

# Groups that strategies and programs make count from 1.
_GROUP_KEY = 0x70697065


def devices_along_links(devices: Sequence[str], target: str) -> list[str]:
    """Order the devices of several tasks so that each has a good way to the next one, for a pipeline's stages.

    Those of one host stand beside each other, then those of one rack, and slow links are gone round, by what the tasks
    know of each other now: racks of the spec, or what was measured. A pipeline that is made keeps its order.

    Args:
        target: a task's master; all tasks of the devices are up.

    Raises:
        ValueError: two devices are the same, or there are none.
        OpError: a task is not there.
    """
    names = Devices(devices).names
    if len(names) < 3:
        return list(names)
    with Graph().as_default() as graph:
        places = []
        for name in names:
            with graph.device(name):
                keys = {"group_size": len(names), "group_key": _GROUP_KEY, "instance_key": 1}
                places.append(apply_op("_CollectivePlace", input=constant(0), name="place", **keys))
        with Session(target, graph=graph) as session:
            found = session.run(places)
    stands = {name: (int(place), int(rack)) for name, (place, rack) in zip(names, found, strict=True)}
    return opened(sorted(names, key=stands.__getitem__), [rack for _, rack in sorted(stands.values())])


def opened(ring: Sequence[str], racks: Sequence[int]) -> list[str]:
    """Cut a ring into a row where it goes from one rack to another: the last stage sends nothing to the first.

    Args:
        racks: of each in the ring.
    """
    around = itertools.chain([(racks[-1], racks[0])], itertools.pairwise(racks))
    at = next((i for i, (before, after) in enumerate(around) if before != after), 0)
    return [*ring[at:], *ring[:at]]
