"""AES-256-GCM records: what two processes that share fresh secrets say to each other over a plain socket.

`ssl` moves 16 KB at a call and holds the interpreter's lock while it encrypts; these records are as long as 1 MB, are
encrypted and decrypted without the lock, by any thread, and from where the bytes are to where they are used.
docs/security.md ("Encrypted records") has the design and why it holds.

A record is a header of 16 bytes (version, type, zero, length, counter; all of it authenticated), that many bytes of
ciphertext, and a tag of 16. Each direction of each connection has keys of its own, and counts its records from 0: the
nonce is the direction's salt XOR the counter. What does not come in order and unchanged ends the direction.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import TypeAlias

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from dtfctl.errors import Signal
from dtfctl.values import field, value

VERSION = 1
HEADER = struct.Struct("<BBHIQ")
HEADER_SIZE = HEADER.size
TAG_SIZE = 16
OVERHEAD = HEADER_SIZE + TAG_SIZE
# Of the plaintext of one record.
LONGEST = 1 << 20
SECRET_SIZE = 32
CONFIRM, SHORT, LONG = 1, 2, 3
LANES = 8
"""Types: the first record of each direction; a stream of short messages; and the first of `LANES` streams of long ones,
of which each overtakes those behind it."""
KINDS = frozenset({CONFIRM, SHORT, *range(LONG, LONG + LANES)})
# A key encrypts no more than this: 2^32 blocks, where AES differs from a random function by 2^-65 at most.
BYTES_A_KEY = 1 << 36
RECORDS_A_KEY = 1 << 24
_LAST = (1 << 64) - 1
_LABEL = b"dtfctl records 1 "

Buffer: TypeAlias = bytes | bytearray | memoryview


FORKED = "An encrypted connection does not outlive a fork: the child needs one of its own"


class RecordError(Signal):
    """What came is not what the peer sent next, or no further record may be made. The connection must end."""


_forks = 0


def _forked() -> None:
    global _forks
    _forks += 1


# The process id tells a fork too, where the C library made it; it could come again in a grandchild, this does not.
os.register_at_fork(after_in_child=_forked)


@value
class Secrets:
    """The secrets of one connection, one for each direction."""

    of_client: bytes = field(repr=False)
    of_server: bytes = field(repr=False)


def derive(shared: bytes, context: bytes) -> Secrets:
    """Make a connection's secrets.

    Args:
        shared: what only the two ends know, at least 256 bits of it fresh from each.
        context: all that both must agree on: who they are, and what for.
    """
    salt = hashlib.sha256(_LABEL + context).digest()
    made = HKDF(SHA256(), 2 * SECRET_SIZE, salt, _LABEL + b"secrets").derive(shared)
    return Secrets(made[:SECRET_SIZE], made[SECRET_SIZE:])


def _expand(secret: bytes, what: bytes, size: int) -> bytes:
    return HKDFExpand(SHA256(), size, _LABEL + what).derive(secret)


class _Direction:
    """Keys and counter of one direction; calls must be in the order of the records.

    Args:
        bytes_a_key, records_a_key: after how much the next key is made; both ends must have the same.
    """

    def __init__(self, secret: bytes, bytes_a_key: int = BYTES_A_KEY, records_a_key: int = RECORDS_A_KEY) -> None:
        if len(secret) != SECRET_SIZE:
            raise ValueError(f"a secret has {SECRET_SIZE} bytes, not {len(secret)}")
        self._bytes_a_key, self._records_a_key = bytes_a_key, records_a_key
        self._process, self._generation = os.getpid(), _forks
        self._counter = 0
        self._error = ""
        self._take_key(secret)

    def _take_key(self, secret: bytes) -> None:
        self._cipher = AESGCM(_expand(secret, b"key", 32))
        self._salt = int.from_bytes(_expand(secret, b"salt", 12), "little")
        self._next_secret = _expand(secret, b"next", SECRET_SIZE)
        self._bytes = self._records = 0

    def _refuse(self) -> RecordError:
        """Say why nothing more may be done."""
        if self._error:
            return RecordError(self._error)
        # The parent goes on with the same keys and counters.
        return self.spoil(FORKED)

    @property
    def is_of_a_fork(self) -> bool:
        """Whether this process is a child of the one whose connection it is."""
        return self._process != os.getpid() or self._generation != _forks

    def spoil(self, why: str) -> RecordError:
        """Let nothing more be done; the error to raise."""
        self._error = self._error or why
        return RecordError(why)

    def _step(self, size: int) -> tuple[AESGCM, bytes]:
        """Make the cipher and nonce of the next record, which has that much plaintext."""
        counter = self._counter
        if counter >= _LAST:
            raise self.spoil("A connection has used all of its record numbers")
        if self._bytes + size > self._bytes_a_key or self._records >= self._records_a_key:
            self._take_key(self._next_secret)
        self._counter = counter + 1
        self._bytes += size
        self._records += 1
        return self._cipher, (self._salt ^ counter).to_bytes(12, "little")


class Ticket:
    """The right to encrypt or decrypt one record, once; any thread may use it.

    Attributes:
        kind: of the record.
        size: of its plaintext.
        header: its first bytes.
    """

    __slots__ = ("_cipher", "_nonce", "_owner", "header", "kind", "size")

    def __init__(self, owner: _Direction, cipher: AESGCM, nonce: bytes, kind: int, size: int, header: bytes) -> None:
        self._owner = owner
        self._cipher: AESGCM | None = cipher
        self._nonce = nonce
        self.kind = kind
        self.size = size
        self.header = header

    def _use(self) -> AESGCM:
        cipher, self._cipher = self._cipher, None
        if cipher is None:
            raise RecordError("A record's number is used twice")
        if self._owner.is_of_a_fork:
            raise RecordError(FORKED)
        return cipher

    def seal_into(self, plaintext: Buffer, place: memoryview) -> int:
        """Write the whole record to the beginning of `place`; its length. The interpreter's lock is let go meanwhile.

        Raises:
            RecordError: the ticket was used.
        """
        end = HEADER_SIZE + self.size + TAG_SIZE
        cipher = self._use()
        place[:HEADER_SIZE] = self.header
        cipher.encrypt_into(self._nonce, plaintext, self.header, place[HEADER_SIZE:end])
        return end

    def open_into(self, sealed: Buffer, place: Buffer) -> None:
        """Decrypt ciphertext and tag. What is in `place` is worth nothing if this raises.

        Raises:
            RecordError: it is not what the peer encrypted.
        """
        try:
            self._use().decrypt_into(self._nonce, sealed, self.header, place)
        except InvalidTag:
            raise self._owner.spoil(_FORGED) from None

    def open(self, sealed: Buffer) -> bytes:
        """Decrypt ciphertext and tag.

        Raises:
            RecordError: it is not what the peer encrypted.
        """
        try:
            return self._use().decrypt(self._nonce, sealed, self.header)
        except InvalidTag:
            raise self._owner.spoil(_FORGED) from None


_FORGED = "An encrypted record was changed on its way, or is not from the peer"


class Sealer(_Direction):
    """Encrypts one direction. Records must be sent in the order in which they were sealed or their tickets taken."""

    def take(self, kind: int, size: int) -> Ticket:
        """Take the next record's ticket.

        Raises:
            RecordError: this is a fork of the process that made the connection, or there is no number left.
        """
        header, cipher, nonce = self._begin(kind, size)
        return Ticket(self, cipher, nonce, kind, size, header)

    def seal(self, kind: int, plaintext: Buffer) -> bytes:
        """Seal a few bytes as the next record.

        Raises:
            RecordError: as of `take`.
        """
        header, cipher, nonce = self._begin(kind, len(plaintext))
        return header + cipher.encrypt(nonce, plaintext, header)

    def _begin(self, kind: int, size: int) -> tuple[bytes, AESGCM, bytes]:
        if self._error or self._process != os.getpid() or self._generation != _forks:
            raise self._refuse()
        if not 0 < size <= LONGEST or kind not in KINDS:
            raise ValueError(f"no record of kind {kind} has {size} bytes")
        header = HEADER.pack(VERSION, kind, 0, size, self._counter)
        cipher, nonce = self._step(size)
        return header, cipher, nonce


class Opener(_Direction):
    """Decrypts the other direction."""

    def take(self, buffer: Buffer, at: int = 0) -> Ticket:
        """Take the ticket of the record whose header is there; nothing in it is authentic before it was opened.

        Raises:
            RecordError: it is not what must come next.
        """
        if self._error or self._process != os.getpid() or self._generation != _forks:
            raise self._refuse()
        version, kind, zero, size, counter = HEADER.unpack_from(buffer, at)
        if version != VERSION or zero or kind not in KINDS:
            raise self.spoil("What came is no encrypted record of this version")
        if not 0 < size <= LONGEST:
            raise self.spoil(f"An encrypted record says that it has {size} bytes; 1 to {LONGEST} are possible")
        if counter != self._counter:
            raise self.spoil(
                f"An encrypted record has number {counter}, and {self._counter} must come next: "
                "records were repeated, left out or put in another order"
            )
        cipher, nonce = self._step(size)
        return Ticket(self, cipher, nonce, kind, size, bytes(buffer[at : at + HEADER_SIZE]))


class Records:
    """Both directions of a connection, as one end has them.

    Args:
        is_client: of the two ends the one that connected.
    """

    def __init__(self, secrets: Secrets, is_client: bool) -> None:
        mine, theirs = secrets.of_client, secrets.of_server
        if not is_client:
            mine, theirs = theirs, mine
        self.sealer = Sealer(mine)
        self.opener = Opener(theirs)
