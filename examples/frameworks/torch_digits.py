# /// script
# dependencies = ["scikit-learn>=1.4"]
# ///
"""PyTorch on handwritten digits (1,797 images that come with scikit-learn), data parallel over all workers.

    dtfctl submit --framework torch --python ~/venv/bin/python torch_digits.py --epochs 20
    dtfctl submit --framework torch --min-workers 1 --python ~/venv/bin/python torch_digits.py   # hosts come and go

scikit-learn is installed on the hosts by the first lines of this file. Every rank trains on its share of the data;
rank 0 saves after each epoch, and all go on from there when a process or a host was lost.
"""

import argparse
import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch.nn.parallel import DistributedDataParallel


def tell(step: int, total: int, **metrics: float) -> None:
    """Say how far it is: `dtfctl job` shows it, and a process that says nothing more is started again."""
    with open(os.environ["DTF_PROGRESS_FILE"], "a") as file:
        file.write(json.dumps({"step": step, "total": total, "metrics": metrics, "time": time.time()}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds an epoch takes longer")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    train, test = order[:1500], order[1500:]

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    checkpoint = Path(os.environ["DTF_CHECKPOINT_DIR"]) / "digits.pt"
    epoch = torch.zeros(1, dtype=torch.int64)
    if rank == 0 and checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        epoch[0] = saved["epoch"]
    dist.broadcast(epoch, src=0)
    if rank == 0:
        print(f"{world} ranks begin at epoch {int(epoch)}", flush=True)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(ddp.parameters(), lr=2e-3)
    for number in range(int(epoch), args.epochs):
        mixed = train[torch.randperm(len(train), generator=torch.Generator().manual_seed(number))]
        share = mixed[: len(mixed) // world * world].view(world, -1)[rank]  # as many for each: all take the same steps
        for batch in share.split(32):
            loss = torch.nn.functional.cross_entropy(ddp(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
        tell(number + 1, args.epochs, loss=loss.item(), accuracy=accuracy)
        if rank == 0:
            new = checkpoint.with_suffix(".new")
            torch.save({"model": model.state_dict(), "epoch": number + 1}, new)
            new.replace(checkpoint)
            print(f"epoch {number + 1}, accuracy {accuracy:.3f}", flush=True)
        time.sleep(args.pause)
    if rank == 0:
        print(f"accuracy on {len(test)} images that it has not seen: {accuracy:.3f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
