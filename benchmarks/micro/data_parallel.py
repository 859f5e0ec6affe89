"""Training with a replica in each of several processes: here, PyTorch's DDP (gloo), TensorFlow's MultiWorkerMirrored.

    python -m benchmarks.micro.data_parallel [--model mlp|cnn] [--workers 2] [--rounds 3]

Sides take turns. All train the same model, from the same weights, on the same batches; their last losses are compared.
A side's figure is the median of its workers' fastest window of steps, and the processor time of all processes a step:
on a machine with other work the second says more. DTF_BENCH_TORCH and DTF_BENCH_TENSORFLOW name the Pythons of peers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

WINDOWS, STEPS, WARM = 8, 10, 5
BATCH = {"mlp": 256, "cnn": 64}
RATE = 0.01
HIDDEN = 1024


def weights(model: str) -> list[np.ndarray[Any, Any]]:
    """Make the weights that all sides begin with: images are NHWC, kernels HWIO."""
    draw = np.random.RandomState(0)
    if model == "mlp":
        shapes = [(784, HIDDEN), (HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN, 10), (10,)]
    else:
        shapes = [(3, 3, 1, 32), (32,), (3, 3, 32, 64), (64,), (7 * 7 * 64, 10), (10,)]
    return [(draw.randn(*s) * 0.05 if len(s) > 1 else np.zeros(s)).astype("f4") for s in shapes]


def batch(model: str, rank: int, workers: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Make a worker's part of the batch."""
    draw = np.random.RandomState(1)
    rows = BATCH[model]
    shape = (rows, 784) if model == "mlp" else (rows, 28, 28, 1)
    images, labels = draw.rand(*shape).astype("f4"), draw.randint(0, 10, rows)
    part = rows // workers
    return images[rank * part : (rank + 1) * part], labels[rank * part : (rank + 1) * part]


def logits_of(tf: Any, model: str, x: Any, w: list[Any]) -> Any:
    if model == "mlp":
        hidden = tf.nn.relu(tf.matmul(x, w[0]) + w[1])
        hidden = tf.nn.relu(tf.matmul(hidden, w[2]) + w[3])
        return tf.matmul(hidden, w[4]) + w[5]
    for kernel, bias in ((w[0], w[1]), (w[2], w[3])):
        x = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME"), bias))
        x = tf.nn.max_pool2d(x, ksize=2, strides=2, padding="SAME")
    return tf.matmul(tf.reshape(x, [-1, 7 * 7 * 64]), w[4]) + w[5]


def ours(model: str, rank: int, addresses: list[str]) -> tuple[Callable[[], Any], Callable[[], float]]:
    import dtfctl.runtime as tf

    cluster = {"worker": addresses}
    server = tf.train.Server(cluster, "worker", rank)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, server.target, "worker", rank)
    pack = int(os.environ.get("DTF_BENCH_PACK", "0"))
    strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(
        cluster_resolver=resolver,
        communication_options=tf.distribute.experimental.CommunicationOptions(bytes_per_pack=pack),
    )
    images, labels = batch(model, rank, len(addresses))
    with strategy.scope():
        own: dict[str, Any] = {"collections": [tf.GraphKeys.LOCAL_VARIABLES], "trainable": False}
        x, y = tf.Variable(images, **own), tf.Variable(labels, **own)
        w = [tf.Variable(v) for v in weights(model)]

        def step() -> Any:
            logits = logits_of(tf, model, x, w)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_sum(losses) / BATCH[model]
            return tf.train.GradientDescentOptimizer(RATE).minimize(loss), loss

        train, loss = strategy.run(step)
        whole = strategy.reduce("SUM", loss)
        session = tf.Session(server.target, config=strategy.update_config_proto(tf.ConfigProto()))
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    return session.make_callable(train), lambda: float(session.run(whole))


def tensorflow(model: str, rank: int, addresses: list[str]) -> tuple[Callable[[], Any], Callable[[], float]]:
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    images, labels = batch(model, rank, len(addresses))
    x, y = tf.constant(images), tf.constant(labels)
    with strategy.scope():
        w = [tf.Variable(v) for v in weights(model)]

    def loss_of() -> Any:
        logits = logits_of(tf, model, x, w)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)) / BATCH[model]

    def replica() -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of()
        summed = tf.distribute.get_replica_context().all_reduce("sum", tape.gradient(loss, w))
        tf.distribute.get_replica_context().merge_call(apply, args=(summed,))
        return loss

    def apply(across: Any, gradients: Any) -> Any:
        for v, g in zip(w, gradients):
            across.extended.update(v, lambda copy, grad: copy.assign_sub(RATE * grad), args=(g,))
        return None

    train = tf.function(lambda: strategy.run(replica), autograph=False)
    whole = tf.function(lambda: strategy.reduce("SUM", strategy.run(loss_of), axis=None), autograph=False)
    return train, lambda: float(whole())


def torch(model: str, rank: int, addresses: list[str]) -> tuple[Callable[[], Any], Callable[[], float]]:
    import torch
    import torch.distributed as dist
    from torch import nn

    # Each worker has its share of the cores, or their threads wait for each other.
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // len(addresses)))
    host, port = addresses[0].rsplit(":", 1)
    dist.init_process_group("gloo", init_method=f"tcp://{host}:{port}", rank=rank, world_size=len(addresses))
    layers: list[Any] = (
        [nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 10)]
        if model == "mlp"
        else [
            *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), Rows(nn), nn.Linear(7 * 7 * 64, 10)),
        ]
    )
    net = nn.Sequential(*layers)
    with torch.no_grad():
        for parameter, value in zip(net.parameters(), weights(model), strict=True):
            turned = value.T if value.ndim == 2 else value.transpose(3, 2, 0, 1) if value.ndim == 4 else value
            parameter.copy_(torch.tensor(np.ascontiguousarray(turned)))
    images, labels = batch(model, rank, len(addresses))
    x, y = torch.tensor(images), torch.tensor(labels)
    if model == "cnn":
        x = x.permute(0, 3, 1, 2).contiguous()
    ddp = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=RATE)
    mean = nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        mean(ddp(x), y).backward()
        optimizer.step()

    def whole() -> float:
        with torch.no_grad():
            loss = mean(net(x), y)
        dist.all_reduce(loss)
        return float(loss) / len(addresses)

    return step, whole


def Rows(nn: Any) -> Any:
    """Lay an image's pixels in the order of the other sides: channels last."""

    class Flat(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)

    return Flat()


SIDES: dict[str, Any] = {"ours": ours, "torch": torch, "tensorflow": tensorflow}


def work(side: str, model: str, rank: int, addresses: list[str]) -> None:
    """Be one worker: train, and say how fast and what came of it."""
    step, loss = SIDES[side](model, rank, addresses)
    for _ in range(WARM):
        step()
    loss()
    before = resource.getrusage(resource.RUSAGE_SELF)
    windows = []
    for _ in range(WINDOWS):
        begun = time.perf_counter()
        for _ in range(STEPS):
            step()
        windows.append((time.perf_counter() - begun) / STEPS)
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / (WINDOWS * STEPS)
    found = {"best_s": min(windows), "median_s": statistics.median(windows), "cpu_s": cpu, "loss": loss()}
    print(json.dumps(found), flush=True)
    # Peers' threads are not waited for.
    sys.stdin.readline()
    os._exit(0)


def measure(side: str, model: str, workers: int) -> dict[str, float]:
    """Run a side once; seconds a step, processor seconds a step of all workers, the loss."""
    from benchmarks.processes import clean_environment
    from tests.support.ports import free_ports

    python = {
        "ours": sys.executable,
        "torch": os.environ.get("DTF_BENCH_TORCH", ""),
        "tensorflow": os.environ.get("DTF_BENCH_TENSORFLOW", ""),
    }[side]
    addresses = [f"127.0.0.1:{port}" for port in free_ports(workers)]
    command = [python, "-m", "benchmarks.micro.data_parallel", "--side", side, "--model", model]
    children = [
        subprocess.Popen(
            [*command, "--rank", str(rank), "--addresses", ",".join(addresses)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment({"GLOO_SOCKET_IFNAME": "lo"}),
        )
        for rank in range(workers)
    ]
    try:
        answers = [json.loads(child.stdout.readline()) for child in children if child.stdout]
    finally:
        for child in children:
            child.kill()
            child.wait()
    return {
        "best_s": max(a["best_s"] for a in answers),
        "median_s": max(a["median_s"] for a in answers),
        "cpu_s": sum(a["cpu_s"] for a in answers),
        "loss": answers[0]["loss"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(BATCH), default="mlp")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=sorted(SIDES), help="be a worker of it")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--addresses", default="")
    args = parser.parse_args()
    if args.side:
        work(args.side, args.model, args.rank, args.addresses.split(","))
        return
    peers = {"torch": "DTF_BENCH_TORCH", "tensorflow": "DTF_BENCH_TENSORFLOW"}
    sides = ["ours", *(side for side, variable in peers.items() if os.environ.get(variable))]
    found: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for _ in range(args.rounds):
        for side in sides:
            found[side].append(measure(side, args.model, args.workers))
            print(f"{side:11} {found[side][-1]}  load {os.getloadavg()[0]:.0f}", flush=True)
    best = {side: min(r["best_s"] for r in rounds) for side, rounds in found.items()}
    cpu = {side: min(r["cpu_s"] for r in rounds) for side, rounds in found.items()}
    print(f"\n{args.model}, {args.workers} workers, batch {BATCH[args.model]}, load {os.getloadavg()[0]:.0f}")
    for side in sides:
        rate = BATCH[args.model] / best[side]
        print(
            f"{side:11} best {best[side] * 1e3:7.2f} ms a step, {rate:9,.0f} samples/s, "
            f"{best[side] / best['ours']:.2f}x; {cpu[side] * 1e3:7.2f} ms of processors, "
            f"{cpu[side] / cpu['ours']:.2f}x; loss {found[side][-1]['loss']:.6f}"
        )


if __name__ == "__main__":
    main()
