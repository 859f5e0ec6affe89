"""Ranks sum a vector: `exchange.py gloo RANKS` (starts the others), `exchange.py gloo ADDRESS PORT RANK` on each of two
hosts, of which the first rank's has that address, or `mpiexec -n RANKS python exchange.py mpi`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.peer_programs import serve

END = 0


class Gloo:
    """torch.distributed over gloo."""

    def __init__(self, size: int = 2, address: str = "", port: int = 0, rank: int = 0) -> None:
        import torch
        import torch.distributed as dist

        self._torch, self._dist = torch, dist
        self.size = size
        self.rank = rank or int(os.environ.get("RANK", "0"))
        if address:
            store = dist.TCPStore(address, port, size, is_master=self.rank == 0, wait_for_workers=False)
        elif self.rank == 0:
            store = dist.TCPStore("127.0.0.1", 0, size, is_master=True, wait_for_workers=False)
            command = [sys.executable, "-m", "benchmarks.peer_programs.exchange", "gloo", str(size)]
            for other in range(1, size):
                subprocess.Popen(command, env={**os.environ, "RANK": str(other), "PORT": str(store.port)})
        else:
            store = dist.TCPStore("127.0.0.1", int(os.environ["PORT"]), size, is_master=False)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=size)

    def share(self, numbers: list[int]) -> list[int]:
        """Rank 0's numbers, on all."""
        tensor = self._torch.tensor(numbers)
        self._dist.broadcast(tensor, 0)
        return [int(n) for n in tensor]

    def vector(self, elements: int) -> tuple[np.ndarray[Any, Any], Callable[[], None]]:
        """A vector of ones, and what sums it over all ranks in place."""
        tensor = self._torch.ones(elements)
        return tensor.numpy(), lambda: self._dist.all_reduce(tensor)


class Mpi:
    """MPICH through mpi4py."""

    def __init__(self) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._world = MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()

    def share(self, numbers: list[int]) -> list[int]:
        return list(self._world.bcast(numbers, 0))

    def vector(self, elements: int) -> tuple[np.ndarray[Any, Any], Callable[[], None]]:
        array = np.ones(elements, "f4")
        return array, lambda: self._world.Allreduce(self._mpi.IN_PLACE, array)


def run(ranks: Gloo | Mpi, elements: int, steps: int) -> list[float]:
    """Time that many sums."""
    array, add = ranks.vector(elements)
    add()
    if not np.all(array == ranks.size):
        raise AssertionError(f"the sum of ones over {ranks.size} ranks is {array[0]}")
    times = []
    for _ in range(steps):
        array[:] = 1.0
        begin = time.perf_counter()
        add()
        times.append(time.perf_counter() - begin)
    return times


def main() -> None:
    kind, *place = sys.argv[1:]
    if kind == "mpi":
        ranks: Gloo | Mpi = Mpi()
    elif len(place) == 1:
        ranks = Gloo(int(place[0]))
    else:
        ranks = Gloo(2, place[0], int(place[1]), int(place[2]))
    if ranks.rank == 0:

        def measure(elements: int, steps: int) -> dict[str, Any]:
            ranks.share([elements, steps])
            return {"times": run(ranks, elements, steps)}

        serve({"measure": measure})
        ranks.share([END, END])
        return
    while True:
        elements, steps = ranks.share([0, 0])
        if elements == END:
            return
        run(ranks, elements, steps)


if __name__ == "__main__":
    main()
