"""The agent as a program: arguments, the server, the file that says where it is, the loop."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from dtfctl.launcher.agent.access.host_access import AccessService
from dtfctl.launcher.agent.access.links import LinkService
from dtfctl.launcher.agent.access.service import AgentService
from dtfctl.launcher.agent.loop import Agent
from dtfctl.launcher.errors import LauncherError, UsageError
from dtfctl.launcher.identity.certificates import TlsFiles
from dtfctl.launcher.rpc.server import serve
from dtfctl.launcher.system.daemon import own_lock
from dtfctl.launcher.system.files import private_folder, write_whole
from dtfctl.launcher.system.procfs import identify
from dtfctl.net.descriptors import raise_limit
from dtfctl.values import names_of, value

STOP_S = 5.0
"""The seconds for replies that are on their way when everything has ended."""


@value
class Arguments:
    """`--lock-fd 3 --cluster dev ...`: what provider and `host_side.py` say; argparse would be a tenth of the start."""

    lock_fd: str
    cluster: str
    """The name of the cluster, for who looks at processes."""
    host: str
    folder: str
    logs: str
    certificates: str
    listen: str = "127.0.0.1"
    advertise: str = "127.0.0.1"
    came_from: str = ""
    """Address from which SSH started it."""
    ready_fd: str = ""
    """Closed when it can be called."""

    @classmethod
    def of(cls, words: Sequence[str]) -> Arguments:
        """Read the arguments from words. Raises ValueError: a word is unknown, or one is missing."""
        known = names_of(cls) or ()
        given = dict(zip((word.removeprefix("--").replace("-", "_") for word in words[::2]), words[1::2]))
        unknown = sorted(given.keys() - set(known))
        if unknown or len(words) % 2:
            raise ValueError(f"unknown: {', '.join(unknown) or words[-1]}")
        try:
            return cls(**given)
        except TypeError as error:
            raise ValueError(str(error)) from None


def main() -> int:
    try:
        args = Arguments.of(sys.argv[1:])
    except ValueError as error:
        print(f"dtfctl-agent: {error}", file=sys.stderr)
        return UsageError.exit_code
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s.%(msecs)03d %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    own_lock(int(args.lock_fd))
    raise_limit()
    try:
        folder, certificates = private_folder(Path(args.folder)), Path(args.certificates)
        agent = Agent(args.host, folder, Path(args.logs), certificates, args.advertise, args.came_from)
        return run(agent, certificates, args.listen, int(args.ready_fd or -1))
    except LauncherError as error:
        logging.getLogger().error("%s %s", error.message, error.hint)
        return error.exit_code


def run(agent: Agent, certificates: Path, listen: str, ready_fd: int = -1) -> int:
    services = (AgentService(agent), AccessService(agent, certificates), LinkService(agent))
    handlers = {method: handler for service in services for method, handler in service.handlers().items()}
    socket_path = agent.folder / "agent.sock"
    server = serve(handlers, TlsFiles.of(certificates, f"agent-{agent.host}"), f"{listen}:0", socket_path)
    me = identify(os.getpid())
    assert me is not None
    agent.listens_at(f"{agent.advertise}:{server.port}")
    info = {
        "pid": me.pid,
        "start_ticks": me.start_ticks,
        "address": f"{agent.advertise}:{server.port}",
        "socket": str(socket_path),
        "pulse": agent.pulse.fd,
    }
    write_whole(agent.folder / "agent.json", json.dumps(info).encode())
    if ready_fd >= 0:
        os.close(ready_fd)
    try:
        agent.run()
    finally:
        (agent.folder / "agent.json").unlink(missing_ok=True)
        socket_path.unlink(missing_ok=True)
        server.stop(STOP_S)
    return 0
