"""PyTorch, data parallel over all workers (gloo, CPU).

    dtfctl submit --framework torch --python ~/venv/bin/python torch_ddp.py --steps 200

Nothing in here knows about dtfctl but for the folder of the checkpoint: the group meets by the variables that torchrun
sets too. When a process dies, all are started again and go on from the newest checkpoint.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds a step takes longer")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    print(f"rank {rank} of {world}, start {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)

    torch.manual_seed(0)
    weights = torch.tensor([[2.0], [-3.0], [0.5]])
    model = torch.nn.Linear(3, 1)
    checkpoint = Path(os.environ["DTF_CHECKPOINT_DIR"]) / "model.pt"
    step = torch.zeros(1, dtype=torch.int64)
    if rank == 0 and checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        step[0] = saved["step"]
    dist.broadcast(step, src=0)  # DDP sends the weights of rank 0 to all
    if int(step):
        print(f"rank {rank} goes on from step {int(step)}", flush=True)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(1000 + rank)
    loss = torch.zeros(1)
    for number in range(int(step), args.steps):
        inputs = torch.randn(32, 3, generator=data)
        loss = torch.nn.functional.mse_loss(ddp(inputs), inputs @ weights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(args.pause)
        if rank == 0 and (number + 1) % args.every == 0:
            new = checkpoint.with_suffix(".new")
            torch.save({"model": model.state_dict(), "step": number + 1}, new)
            new.replace(checkpoint)
            print(f"step {number + 1}, loss {loss.item():.2e}", flush=True)
    if rank == 0:
        print(f"weights {[round(w, 2) for w in model.weight.detach().flatten().tolist()]}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
