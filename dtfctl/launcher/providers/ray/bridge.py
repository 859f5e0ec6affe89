"""Speak with a Ray cluster for dtfctl. A program of its own, run by the Python that Ray is installed for, which need
not be dtfctl's: what Ray loads and starts stays out of the controller.

It reads frames from stdin and writes them to stdout: two lengths (`<II`), a header in JSON, bytes. A request has an
`id`, which its answer repeats; what a command on a host writes comes unasked, with the command's `number`.

The hosts of a cluster are the bundles of one placement group (STRICT_SPREAD: every one on a node of its own). Where
hosts may come and go it has only the fewest of them, and each further one is a group by itself, kept off the nodes of
the others. On each is a detached actor, which runs commands with pipes. What these leave running ends with the actor:
see `HOLDER`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import socket
import struct
import sys
from typing import Any

NAMESPACE = "dtfctl"
LENGTHS = struct.Struct("<II")
MOST = 2**26
BLOCK = 2**18
KNOCK_S = 5.0
ASK_S = 5.0
POLL_S = 20.0
FORGOTTEN_S = 60.0
"""A command of which nobody has read for so long has lost who began it."""

HOLDER = r"""
import ctypes, os, select, signal, sys
life, command = int(sys.argv[1]), sys.argv[2]
if os.fork():
    os._exit(0)  # Ray ends direct children of an actor with it, which would leave theirs
os.setsid()
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: daemons that the command starts become children
wakes, wake = os.pipe()
for fd in (wakes, wake):
    os.set_blocking(fd, False)
signal.set_wakeup_fd(wake)
signal.signal(signal.SIGCHLD, lambda *_: None)
first = os.fork()
if not first:
    for fd in (life, wakes, wake):
        os.close(fd)
    os.execv("/bin/sh", ["/bin/sh", "-c", command])
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
nothing = os.open(os.devnull, os.O_RDWR)
for fd in range(3):
    os.dup2(nothing, fd)

def children_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []

def end(pid):
    for child in children_of(pid):
        end(child)
    if pid != os.getpid():
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            pass

is_over = False
while True:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            os._exit(0)
        if not pid:
            break
        if pid == first and not is_over:
            code = os.waitstatus_to_exitcode(status)
            try:
                os.write(life, b"%d\n" % (code if code >= 0 else 128 - code))
            except OSError:
                pass
    if is_over:
        end(os.getpid())
    ready = select.select([wakes] if is_over else [wakes, life], [], [], 0.05 if is_over else None)[0]
    if wakes in ready:
        os.read(wakes, 4096)
    if life in ready and not os.read(life, 4096):
        is_over = True
"""
"""Runs one command, and holds all that comes of it: the actor's end of `life` closed, all of it is killed."""


class Host:
    """A host of a cluster, as an actor: runs commands on its node."""

    def __init__(self) -> None:
        import secrets

        self._life = secrets.token_hex(8)
        self._count = 0
        self._commands: dict[int, Any] = {}

    async def about(self) -> dict[str, Any]:
        """Tell where it is; `life` is another one each time that the actor begins."""
        import ray

        return {
            "life": self._life,
            "node": ray.get_runtime_context().get_node_id(),
            "address": ray.util.get_node_ip_address(),
        }

    async def start(self, holder: str, command: str, has_gpus: bool) -> int:
        """Begin a command line as a login would; its number."""
        import os
        import socket
        import subprocess
        import sys

        import ray

        kept = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        own = os.path.dirname(sys.executable)
        environment["PATH"] = f"{environment.get('PATH', os.defpath)}:{own}"
        environment["DTFCTL_CONNECTION"] = f" 0 {ray.util.get_node_ip_address()} 0"
        environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "") if has_gpus else ""
        ours, theirs = socket.socketpair()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", holder, str(theirs.fileno()), command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd="/",
            start_new_session=True,
        )
        theirs.close()
        await asyncio.get_running_loop().run_in_executor(None, process.wait)
        self._count += 1
        command_ = _Command(process, ours)
        await command_.open()
        self._commands[self._count] = command_
        for number, other in list(self._commands.items()):
            if other.is_forgotten():
                other.end_input()
                if other.code is not None:
                    self._commands.pop(number)
        return self._count

    async def write(self, number: int, data: bytes, end: bool) -> None:
        """Write to a command's stdin; the caller waits for the answer before the next one."""
        command = self._commands.get(number)
        if command is None:
            raise BrokenPipeError
        await command.write(data, end)

    async def read(self, number: int) -> dict[str, Any]:
        """Take what a command has written since, waiting for it a while; `code` once all has been taken."""
        command = self._commands.get(number)
        if command is None:
            return {"stdout": b"", "stderr": b"", "code": 255}
        found: dict[str, Any] = await command.read()
        if found["code"] is not None:
            self._commands.pop(number, None)
        return found

    async def close(self, number: int) -> None:
        """Close a command's stdin and forget it; what it has left running goes on."""
        command = self._commands.get(number)
        if command is not None:
            command.end_input()

    async def end(self) -> None:
        """End all that has come of any command."""
        _Command.end_all()


def _same(it: Any) -> Any:
    """Give what is there already."""
    return it


class _Command:
    """A command that an actor runs."""

    lives: list[Any] = []
    """The sockets whose other ends are with holders: closed with this process, at the latest."""

    def __init__(self, process: Any, life: Any) -> None:
        self._process = process
        self._life = life
        self.lives.append(life)
        self._found = {"stdout": b"", "stderr": b""}
        self._tasks: list[Any] = []
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._open = 2
        self._read_at = asyncio.get_running_loop().time()
        self.code: int | None = None
        self._writer: Any = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for name, pipe in (("stdout", self._process.stdout), ("stderr", self._process.stderr)):
            reader = asyncio.StreamReader()
            protocol = asyncio.StreamReaderProtocol(reader)
            await loop.connect_read_pipe(functools.partial(_same, protocol), pipe)
            self._tasks.append(loop.create_task(self._collect(name, reader)))
        flow, control = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, self._process.stdin)
        self._writer = asyncio.StreamWriter(flow, control, None, loop)
        self._tasks.append(loop.create_task(self._wait()))

    async def _collect(self, name: str, reader: Any) -> None:
        while data := await reader.read(BLOCK):
            self._found[name] += data
            self._news.set()
            while len(self._found[name]) > 4 * BLOCK:
                self._room.clear()
                await self._room.wait()
        self._open -= 1
        self._news.set()

    async def _wait(self) -> None:
        self._life.setblocking(False)
        said = await asyncio.get_running_loop().sock_recv(self._life, 64)
        self.code = int(said) if said else 255
        self._news.set()

    async def write(self, data: bytes, end: bool) -> None:
        if self._writer.is_closing():
            raise BrokenPipeError
        self._writer.write(data)
        await self._writer.drain()
        if end:
            self._writer.close()

    async def read(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        self._read_at = loop.time()
        self._news.clear()
        if not any(self._found.values()) and (self.code is None or self._open):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), POLL_S)
        self._read_at = loop.time()
        found: dict[str, Any] = {**self._found, "code": None}
        self._found = {"stdout": b"", "stderr": b""}
        self._room.set()
        if not found["stdout"] and not found["stderr"] and self.code is not None and not self._open:
            found["code"] = self.code
        return found

    def is_forgotten(self) -> bool:
        return bool(asyncio.get_running_loop().time() - self._read_at > FORGOTTEN_S)

    def end_input(self) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.close()

    @classmethod
    def end_all(cls) -> None:
        for life in cls.lives:
            life.close()
        cls.lives.clear()


class Bridge:
    """Answers requests of one controller, or of one `up` or `down`."""

    def __init__(self, out: int) -> None:
        self._out = out
        self._hosts: dict[str, Any] = {}
        self._kept_off: dict[str, set[str]] = {}
        """The nodes that a group of one host was asked for off."""
        self._commands: dict[int, tuple[Any, int]] = {}
        self._writes: dict[int, asyncio.Queue[tuple[int, bytes, bool]]] = {}
        self._count = 0
        self._tasks: set[Any] = set()

    def say(self, header: dict[str, Any], data: bytes = b"") -> None:
        text = json.dumps(header).encode()
        whole = LENGTHS.pack(len(text), len(data)) + text + data
        while whole:
            whole = whole[os.write(self._out, whole) :]

    async def serve(self, reader: Any) -> None:
        while True:
            try:
                lengths = LENGTHS.unpack(await reader.readexactly(LENGTHS.size))
                if max(lengths) > MOST:
                    return
                header = json.loads(await reader.readexactly(lengths[0]))
                data = await reader.readexactly(lengths[1])
            except asyncio.IncompleteReadError:
                return
            if header["do"] == "write":  # in their order
                self._write(header, data)
            else:
                self._begin(self._answer(header))

    def _begin(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, header: dict[str, Any]) -> None:
        number = header.pop("id")
        try:
            found = await getattr(self, "do_" + header.pop("do"))(**header)
            self.say({"id": number, **(found or {})})
        except Exception as error:
            self.say({"id": number, "error": f"{type(error).__name__}: {str(error).strip()}"[:1000]})

    async def do_acquire(self, name: str, count: int, bundle: dict[str, float]) -> None:
        """Ask for the hosts of a cluster, unless that has been done."""
        import ray.util

        if _group(name) is None:
            ray.util.placement_group([bundle] * count, strategy="STRICT_SPREAD", name=name, lifetime="detached")

    async def do_look(self, name: str, count: int, least: int, bundle: dict[str, float]) -> dict[str, Any]:
        """Tell how the placement group stands, and which hosts it lends; ask for those beyond the `least`."""
        import ray
        import ray.util

        group = _group(name)
        if group is None:
            return {"state": "REMOVED", "hosts": {}, "waits": {}}
        table = ray.util.placement_group_table(group)
        state = table["state"]
        nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        why = ""
        if state in ("PENDING", "PREPARED"):
            fit = sum(
                all(node["Resources"].get(key, 0) >= much for key, much in bundle.items()) for node in nodes.values()
            )
            wanted = ", ".join(f"{key} {much:g}" for key, much in bundle.items())
            why = (
                f"{fit} of {least} nodes that have {wanted} are there"
                if fit < least
                else f"nodes with {wanted} are in use"
            )
            return {"state": state, "why": why, "hosts": {}, "waits": {}}
        places = {int(index): node for index, node in table["bundles_to_node_id"].items()}
        asked = {i: (group, i) for i in range(least) if places.get(i) in nodes}
        used = {places[i] for i in asked}
        more, waits = self._more(name, range(least, count), bundle, used, nodes)
        asked |= more
        found = await asyncio.gather(*(self._about(name, i, *place, bundle) for i, place in asked.items()))
        hosts = {str(i): about for i, about in zip(asked, found) if about is not None}
        return {"state": state, "why": why, "hosts": hosts, "waits": waits}

    def _more(
        self, name: str, wanted: Any, bundle: dict[str, float], used: set[str], nodes: dict[str, Any]
    ) -> tuple[dict[int, Any], dict[str, str]]:
        """Find the hosts that are groups by themselves, and ask for those that are not: (places, what others wait for).

        `used`: the nodes of other hosts; those found here are added.
        """
        import ray.util

        places: dict[int, Any] = {}
        waits: dict[str, str] = {}
        for index in wanted:
            called = f"{name}+{index}"
            group = _group(called)
            if group is not None:
                table = ray.util.placement_group_table(group)
                node = table["bundles_to_node_id"].get(0)
                if table["state"] == "CREATED" and node in nodes and node not in used:
                    used.add(node)
                    places[index] = (group, 0)
                    continue
                is_twice = table["state"] == "CREATED" and node in used
                is_kept_off = bool(self._kept_off.get(called, set()) & nodes.keys() - used)
                if is_twice or is_kept_off:  # asked for again, off the nodes that are others' now
                    ray.util.remove_placement_group(group)
                    self._hosts.pop(f"{name}/{index}", None)
                    group = None
            if group is None:
                self._kept_off[called] = set(used)
                off = [{"ray.io/node-id": f"!in({','.join(sorted(used))})"}]
                ray.util.placement_group(
                    [bundle], strategy="STRICT_SPREAD", name=called, lifetime="detached", bundle_label_selector=off
                )
            waits[str(index)] = "no further node is free"
        return places, waits

    async def _about(
        self, name: str, index: int, group: Any, at: int, bundle: dict[str, float]
    ) -> dict[str, Any] | None:
        import ray
        import ray.exceptions

        try:
            actor = self._actor(name, index, group, at, bundle)
            about: dict[str, Any] = await asyncio.wait_for(actor.about.remote(), ASK_S)
            return about
        except (TimeoutError, ray.exceptions.RayError, ValueError):
            self._hosts.pop(f"{name}/{index}", None)
            return None

    def _actor(self, name: str, index: int, group: Any, at: int, bundle: dict[str, float]) -> Any:
        """Find the actor of a host, or begin it; `at`: its bundle in the group."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        called = f"{name}/{index}"
        if called not in self._hosts:
            more = {key: much for key, much in bundle.items() if key not in ("CPU", "GPU", "memory")}
            self._hosts[called] = (
                ray.remote(Host)
                .options(
                    name=called,
                    namespace=NAMESPACE,
                    lifetime="detached",
                    get_if_exists=True,
                    max_restarts=-1,
                    max_task_retries=0,
                    num_cpus=bundle.get("CPU", 0),
                    num_gpus=bundle.get("GPU", 0),
                    memory=bundle.get("memory"),
                    resources=more or None,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, at),
                )
                .remote()
            )
        return self._hosts[called]

    async def do_run(self, name: str, index: int, life: str, command: str, has_gpus: bool) -> dict[str, Any]:
        """Begin a command on a host; its number here."""
        actor = self._hosts.get(f"{name}/{index}")
        if actor is None or (await asyncio.wait_for(actor.about.remote(), ASK_S))["life"] != life:
            raise RuntimeError("its actor has begun anew")
        theirs = await actor.start.remote(HOLDER, command, has_gpus)
        self._count += 1
        self._commands[self._count] = (actor, theirs)
        self._writes[self._count] = asyncio.Queue()
        self._begin(self._write_all(self._count))
        self._begin(self._read_all(self._count))
        return {"number": self._count}

    def _write(self, header: dict[str, Any], data: bytes) -> None:
        queue = self._writes.get(header["number"])
        if queue is None:
            self.say({"id": header["id"], "error": "it has ended"})
        else:
            queue.put_nowait((header["id"], data, bool(header["end"])))

    async def _write_all(self, number: int) -> None:
        actor, theirs = self._commands[number]
        while number in self._commands:
            told, data, end = await self._writes[number].get()
            try:
                await actor.write.remote(theirs, data, end)
                self.say({"id": told})
            except Exception as error:
                self.say({"id": told, "error": type(error).__name__})

    async def _read_all(self, number: int) -> None:
        actor, theirs = self._commands[number]
        code = None
        while number in self._commands:
            try:
                found = await actor.read.remote(theirs)
            except Exception:
                break
            for name in ("stdout", "stderr"):
                if found[name]:
                    self.say({"number": number, "stream": name}, found[name])
            code = found["code"]
            if code is not None:
                break
        self._commands.pop(number, None)
        self._writes.pop(number, None)
        self.say({"number": number, "code": code})

    async def do_close(self, number: int) -> None:
        """Close a command's stdin, and hear no more of it."""
        actor, theirs = self._commands.pop(number, (None, 0))
        self._writes.pop(number, None)
        if actor is not None:
            await actor.close.remote(theirs)

    async def do_release(self, name: str, count: int) -> None:
        """End all that runs on the hosts, and give them back."""
        import ray
        import ray.exceptions
        import ray.util

        for index in range(count):
            try:
                actor = ray.get_actor(f"{name}/{index}", NAMESPACE)
            except ValueError:
                continue
            with contextlib.suppress(TimeoutError, ray.exceptions.RayError):
                await asyncio.wait_for(actor.end.remote(), ASK_S)
            ray.kill(actor)
        for called in (name, *(f"{name}+{index}" for index in range(count))):
            group = _group(called)
            if group is not None:
                ray.util.remove_placement_group(group)


def _group(name: str) -> Any:
    """Find a placement group that is there."""
    import ray.util

    try:
        group = ray.util.get_placement_group(name)
    except ValueError:
        return None
    return None if ray.util.placement_group_table(group).get("state") in (None, "REMOVED") else group


async def _main(out: int) -> None:
    reader = asyncio.StreamReader(limit=MOST)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    bridge = Bridge(out)
    bridge.say({"hello": 1})
    await bridge.serve(reader)


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # what Ray prints is no frame

    def fail(cause: str, text: str) -> None:
        Bridge(out).say({"hello": 0, "cause": cause, "error": text[:1000]})
        os._exit(1)

    try:
        import ray
    except ImportError as error:
        fail("python", str(error))
    host, _, port = sys.argv[1].rpartition(":")
    try:
        if host:  # it takes Ray a minute to see that nobody is there
            socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except OSError as error:
        fail("unreachable", f"nobody answers there ({error.strerror or error})")
    try:
        ray.init(
            address=sys.argv[1],
            namespace=NAMESPACE,
            log_to_driver=False,
            logging_level="ERROR",
            include_dashboard=False,
        )
    except Exception as error:
        fail("unreachable", f"{type(error).__name__}: {str(error).strip()}")
    asyncio.run(_main(out))
    os._exit(0)


if __name__ == "__main__":
    main()
