# /// script
# dependencies = ["scikit-learn>=1.4"]
# ///
"""JAX on handwritten digits (1,797 images that come with scikit-learn), data parallel over all workers.

    dtfctl submit --framework jax --python ~/venv/bin/python jax_digits.py --epochs 20
    dtfctl submit --framework jax --min-workers 1 --python ~/venv/bin/python jax_digits.py   # hosts come and go

scikit-learn is installed on the hosts by the first lines of this file. A batch is one array over the devices of all
processes, so that XLA itself sums the gradients; process 0 saves after each epoch, and all go on from there when a
process or a host was lost.
"""

import argparse
import json
import os
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

BATCH = 96


def tell(step: int, total: int, **metrics: float) -> None:
    """Say how far it is: `dtfctl job` shows it, and a process that says nothing more is started again."""
    with open(os.environ["DTF_PROGRESS_FILE"], "a") as file:
        file.write(json.dumps({"step": step, "total": total, "metrics": metrics, "time": time.time()}) + "\n")


def logits(weights: dict[str, jax.Array], images: jax.Array) -> jax.Array:
    """Make the scores of the ten digits: float32 [images, 10]."""
    hidden = jax.nn.relu(images @ weights["w1"] + weights["b1"])
    return hidden @ weights["w2"] + weights["b2"]


def loss_of(weights: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> jax.Array:
    chances = jax.nn.log_softmax(logits(weights, images))
    return -jnp.take_along_axis(chances, labels[:, None], axis=1).mean()


@jax.jit
def step(weights: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
    """Make one step of gradient descent over the batch of all processes."""
    loss, gradients = jax.value_and_grad(loss_of)(weights, images, labels)
    return jax.tree.map(lambda value, change: value - 0.3 * change, weights, gradients), loss


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds an epoch takes longer")
    args = parser.parse_args()
    # The coordinator's address is read from JAX_COORDINATOR_ADDRESS.
    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )
    me, count = jax.process_index(), jax.process_count()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    split, everywhere = NamedSharding(mesh, PartitionSpec("data")), NamedSharding(mesh, PartitionSpec())

    digits = load_digits()
    images, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int32)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1500], order[1500:]

    random = np.random.default_rng(1)
    begin = {
        "w1": random.normal(0, 0.125, (64, 64)).astype(np.float32),
        "b1": np.zeros(64, np.float32),
        "w2": random.normal(0, 0.125, (64, 10)).astype(np.float32),
        "b2": np.zeros(10, np.float32),
    }
    checkpoint = Path(os.environ["DTF_CHECKPOINT_DIR"]) / "digits.npz"
    epoch = np.zeros((), np.int32)
    if me == 0 and checkpoint.exists():
        saved = np.load(checkpoint)
        begin, epoch = {name: saved[name] for name in begin}, saved["epoch"]
    begin, epoch = multihost_utils.broadcast_one_to_all((begin, epoch))
    if me == 0:
        print(f"{count} processes begin at epoch {int(epoch)}", flush=True)
    weights = jax.tree.map(lambda value: jax.make_array_from_process_local_data(everywhere, np.asarray(value)), begin)

    part = BATCH // len(jax.devices()) * jax.local_device_count()  # of every batch, for this process
    for number in range(int(epoch), args.epochs):
        mixed = np.random.default_rng(number).permutation(train)
        for first in range(0, len(mixed) - BATCH + 1, BATCH):
            mine = mixed[first + me * part : first + (me + 1) * part]
            batch = (jax.make_array_from_process_local_data(split, data[mine]) for data in (images, labels))
            weights, loss = step(weights, *batch)
        here = {name: np.asarray(value.addressable_data(0)) for name, value in weights.items()}
        accuracy = float((np.asarray(logits(here, images[test])).argmax(1) == labels[test]).mean())
        tell(number + 1, args.epochs, loss=float(loss.addressable_data(0)), accuracy=accuracy)
        if me == 0:
            new = checkpoint.with_suffix(".new.npz")
            np.savez(new, epoch=np.int32(number + 1), **here)
            new.replace(checkpoint)
            print(f"epoch {number + 1}, accuracy {accuracy:.3f}", flush=True)
        time.sleep(args.pause)
    if me == 0:
        print(f"accuracy on {len(test)} images that it has not seen: {accuracy:.3f}", flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
