"""A task without a runtime: beats, becomes ready, notes what it is told about its peers. Run by a path, no imports
beyond the standard library and dtfctl's own protocol."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

from dtfctl.health.beats import Beat, pack, unpack_all


def main() -> int:
    config = json.loads(Path(sys.argv[1]).read_bytes())
    name = f"{config['job']}/{config['index']}"
    state = Path(config["state_folder"])
    control = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    control.bind(config["control_path"])
    control.settimeout(0.05)
    host, _, port = config["listen"].rpartition(":")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, int(port)))
    listener.listen()
    print(f"{name} incarnation {config['incarnation']} serves at {config['listen']}", flush=True)
    if os.environ.get("STUB_EXIT"):
        print("this stub is told to fail", file=sys.stderr, flush=True)
        return int(os.environ["STUB_EXIT"])
    if os.environ.get("STUB_DEAF"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(float(os.environ.get("STUB_SLOW", "0")))
    _eaten = [bytearray(os.urandom(2**20)) for _ in range(int(os.environ.get("STUB_EAT", "0")))]
    fail_when = Path(os.environ.get("STUB_FAIL_WHEN", "/nonexistent"))
    steps = 0
    next_beat = 0.0
    with (state / "peers.jsonl").open("a") as peers:
        while True:
            if time.monotonic() >= next_beat:
                next_beat = time.monotonic() + config["beat_s"]
                steps += 1
                try:
                    beat = pack(Beat(name, config["incarnation"], True, steps))
                    control.sendto(beat, socket.MSG_DONTWAIT, config["agent_path"])
                except (FileNotFoundError, ConnectionRefusedError, BlockingIOError, TimeoutError):
                    steps -= 1  # the agent is being replaced, or hangs
            if fail_when.exists():
                return 1
            if (state / "fail").exists():
                print(os.environ.get("STUB_SAYS", "told to fail"), file=sys.stderr, flush=True)
                return 3
            try:
                notes = unpack_all(control.recv(65536))
            except TimeoutError:
                continue
            for note in notes:
                print(f"{config['incarnation']} {note}", file=peers, flush=True)


if __name__ == "__main__":
    sys.exit(main())
