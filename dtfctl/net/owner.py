"""Tell whose process is at the other end of a connection within this machine.

The kernel is asked for the one socket that has both ends of the connection. A local port alone names nobody: several
sockets may have it towards different destinations, and those of several users. No answer is kept, as a port is another
process's in the next moment.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

Address: TypeAlias = tuple[str, int]

_ESTABLISHED = 1
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")
_NAME = struct.Struct("!HH16s16s")
_ANY_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
_ANSWER = struct.Struct("=BBBB48sIIIII")
_CREDENTIALS = struct.Struct("3i")
_MAPPED = bytes(10) + b"\xff\xff"
_NOBODY = Path("/proc/sys/kernel/overflowuid")
_USERS = Path("/proc/self/uid_map")
_LOOKS = 3


def credentials_of(connection: socket.socket) -> tuple[int, int]:
    """Ask the kernel for the process at the other end of a unix socket, and its user: (pid, uid)."""
    pid, uid, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid


def owner_of(connection: socket.socket) -> int | None:
    """Return the user id of the process at the other end of an accepted connection.

    None: it is not of this machine, or it cannot be told for certain, also because it has been closed meanwhile.
    """
    if connection.family == socket.AF_UNIX:
        return credentials_of(connection)[1]
    try:
        here, there = _address(connection.getsockname()), _address(connection.getpeername())
    except OSError:
        return None
    if not _is_established(connection):
        return None  # the tables of all sockets are long where many hang up
    found = _ask_kernel(there, here)
    if found is None and is_local(connection):
        # The kernel hands a table out in pieces: one that others change meanwhile may have a socket in none of them.
        looks = (_look_in_tables(there, here) for _ in range(_LOOKS))
        found = next((user for user in looks if user is not None), None)
    # While this end is established the socket that was found is its other end, not one that came after it.
    if found is None or not _is_established(connection) or found == _unmapped_user():
        return None
    return found


def is_local(connection: socket.socket) -> bool:
    """Tell whether the other end has an address of this machine."""
    if connection.family == socket.AF_UNIX:
        return True
    here, there = _address(connection.getsockname())[0], _address(connection.getpeername())[0]
    return there == here or there == "::1" or there.startswith("127.")


def is_mine(owner: int | None) -> bool:
    """Tell whether a process of that user may do all that this one may: it is of the same user, or root's."""
    return owner is not None and owner in (0, os.geteuid())


def _address(name: tuple[object, ...]) -> Address:
    """Without a mapping of IPv4 into IPv6, a scope or a flow."""
    host = str(name[0]).partition("%")[0]
    return host.removeprefix("::ffff:") if "." in host else host, int(str(name[1]))


def _is_established(connection: socket.socket) -> bool:
    try:
        return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED
    except OSError:
        return False


def _unmapped_user() -> int | None:
    """Return whom the kernel names instead of users that this user namespace does not know; None where it knows all."""
    with contextlib.suppress(OSError, ValueError):
        if _USERS.read_text().split() != ["0", "0", "4294967295"]:
            return int(_NOBODY.read_text())
    return None


# ---------------------------------------------------------------- the kernel's answer about one socket


def _packed(host: str, family: int) -> bytes:
    if family == socket.AF_INET6 and ":" not in host:
        return _MAPPED + socket.inet_pton(socket.AF_INET, host)
    return socket.inet_pton(family, host)


def _ask_kernel(socket_of: Address, towards: Address) -> int | None:
    family = socket.AF_INET6 if ":" in socket_of[0] else socket.AF_INET
    name = _NAME.pack(
        socket_of[1],
        towards[1],
        _packed(socket_of[0], family).ljust(16, b"\0"),
        _packed(towards[0], family).ljust(16, b"\0"),
    )
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + name + _ANY_COOKIE
    header = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(1.0)
            kernel.send(header + request)
            reply = kernel.recv(65536)
    except OSError:  # not in this kernel, or not allowed here: the tables have it too
        return None
    if len(reply) < _HEADER.size + _ANSWER.size or _HEADER.unpack_from(reply)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    found_family, state, _, _, found, _, _, _, user, _ = _ANSWER.unpack_from(reply, _HEADER.size)
    near, far, near_host, far_host = _NAME.unpack_from(found)
    size = 4 if found_family == socket.AF_INET else 16
    same = (
        state == _ESTABLISHED  # it may be who listens there
        and (near, far) == (socket_of[1], towards[1])
        and near_host[:size] == _packed(socket_of[0], found_family)
        and far_host[:size] == _packed(towards[0], found_family)
    )
    return int(user) if same else None


# ---------------------------------------------------------------- the kernel's tables of all sockets


def _look_in_tables(socket_of: Address, towards: Address) -> int | None:
    """Return the only socket with both ends; None where there are several, or none."""
    users = list(_rows(socket_of, towards))
    return users[0] if len(users) == 1 else None


def _rows(socket_of: Address, towards: Address) -> Iterator[int]:
    tables = [("/proc/net/tcp6", socket.AF_INET6)]
    if ":" not in socket_of[0]:
        tables.append(("/proc/net/tcp", socket.AF_INET))
    for table, family in tables:
        ends = [_row_name(address, family) for address in (socket_of, towards)]
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:  # no IPv6 here
            continue
        for line in lines:
            fields = line.split()
            if fields[1:3] == ends and int(fields[3], 16) == _ESTABLISHED:
                yield int(fields[7])


def _row_name(address: Address, family: int) -> str:
    words = struct.iter_unpack("=I", _packed(address[0], family))
    return "".join(f"{word:08X}" for (word,) in words) + f":{address[1]:04X}"
