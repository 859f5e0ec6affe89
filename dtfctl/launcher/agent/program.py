"""The agent as a program: arguments, the server, the file that says where it is, the loop."""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
from pathlib import Path

from dtfctl.launcher.agent.access import AccessService
from dtfctl.launcher.agent.agent import Agent
from dtfctl.launcher.agent.service import AgentService
from dtfctl.launcher.certificates import TlsFiles
from dtfctl.launcher.daemon import own_lock
from dtfctl.launcher.errors import LauncherError
from dtfctl.launcher.files import private_folder, write_whole
from dtfctl.launcher.procfs import identify
from dtfctl.launcher.rpc.server import serve

STOP_S = 5.0
"""For replies that are on their way when everything has ended."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="dtfctl-agent")
    parser.add_argument("--lock-fd", required=True, type=int)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--host", required=True)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--logs", required=True, type=Path)
    parser.add_argument("--certificates", required=True, type=Path)
    parser.add_argument("--listen", default="127.0.0.1")
    parser.add_argument("--advertise", default="127.0.0.1")
    parser.add_argument("--came-from", default="", help="address from which SSH started it")
    args = parser.parse_args()
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    own_lock(args.lock_fd)
    try:
        agent = Agent(
            args.host, private_folder(args.folder), args.logs, args.certificates, args.advertise, args.came_from
        )
        return run(agent, args.certificates, args.listen)
    except LauncherError as error:
        logging.getLogger().error("%s %s", error.message, error.hint)
        return error.exit_code


def run(agent: Agent, certificates: Path, listen: str) -> int:
    handlers = {**AgentService(agent).handlers(), **AccessService(agent, certificates).handlers()}
    server = serve(handlers, TlsFiles.of(certificates, f"agent-{agent.host}"), f"{listen}:0")
    me = identify(os.getpid())
    assert me is not None
    info = {"pid": me.pid, "start_ticks": me.start_ticks, "address": f"{agent.advertise}:{server.port}"}
    write_whole(agent.folder / "agent.json", json.dumps(info).encode())
    agent.run()
    (agent.folder / "agent.json").unlink(missing_ok=True)
    server.stop(STOP_S)
    return 0
