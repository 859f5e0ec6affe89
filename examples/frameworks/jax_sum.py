"""JAX over all workers: every process computes a part, all see the sum (CPU).

    dtfctl submit --framework jax --python ~/venv/bin/python jax_sum.py --steps 100

When a process dies, all are started again, with another coordinator port.
"""

import argparse
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds a step takes longer")
    args = parser.parse_args()
    # The coordinator's address is read from JAX_COORDINATOR_ADDRESS.
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )
    me, count = jax.process_index(), jax.process_count()
    print(f"process {me} of {count}, {jax.device_count()} devices, start {os.environ['DTF_STARTS']}", flush=True)

    checkpoint = Path(os.environ["DTF_CHECKPOINT_DIR"]) / "state.npy"
    begin = jnp.zeros(2)
    if me == 0 and checkpoint.exists():
        begin = jnp.load(checkpoint)
    state = multihost_utils.broadcast_one_to_all(begin)
    step, total = int(state[0]), float(state[1])
    if step:
        print(f"process {me} goes on from step {step}", flush=True)
    for number in range(step, args.steps):
        parts = multihost_utils.process_allgather(jnp.float32(number * (me + 1)))
        total += float(parts.sum())
        time.sleep(args.pause)
        if me == 0 and (number + 1) % args.every == 0:
            new = checkpoint.with_suffix(".new.npy")
            jnp.save(new, jnp.array([number + 1, total]))
            new.replace(checkpoint)
            print(f"step {number + 1}, total {total:.0f}", flush=True)
    print(f"process {me}: total {total:.0f}", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
