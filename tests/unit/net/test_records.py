"""Encrypted records: what is changed, repeated, left out or forged is refused, and no nonce comes twice."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dtfctl.net import records
from dtfctl.net.records import (
    HEADER,
    HEADER_SIZE,
    LONG,
    LONGEST,
    OVERHEAD,
    SHORT,
    TAG_SIZE,
    Opener,
    RecordError,
    Records,
    Sealer,
    Secrets,
    derive,
)

SECRET = bytes(range(32))
VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "record_vectors.json").read_text())


def opened(opener: Opener, record: bytes) -> bytes:
    """What is in one record, by the way that long ones take."""
    ticket = opener.take(record[:HEADER_SIZE])
    place = bytearray(ticket.size)
    ticket.open_into(record[HEADER_SIZE:], place)
    return bytes(place)


def sealed(sealer: Sealer, kind: int, plaintext: bytes) -> bytes:
    ticket = sealer.take(kind, len(plaintext))
    place = bytearray(len(plaintext) + OVERHEAD)
    assert ticket.seal_into(plaintext, memoryview(place)) == len(place)
    return bytes(place)


# What is written ------------------------------------------------------------------------------------------------------


def hkdf(secret: bytes, salt: bytes, info: bytes, size: int) -> bytes:
    """RFC 5869, by hand."""
    return expand(hmac.digest(salt, secret, "sha256"), info, size)


def expand(key: bytes, info: bytes, size: int) -> bytes:
    made, block = b"", b""
    while len(made) < size:
        block = hmac.digest(key, block + info + bytes([len(made) // 32 + 1]), "sha256")
        made += block
    return made[:size]


def reference(secret: bytes, plaintexts: list[tuple[int, bytes]], records_a_key: int) -> list[bytes]:
    """The records of a direction as docs/security.md describes them."""
    made = []
    for counter, (kind, plaintext) in enumerate(plaintexts):
        if counter and counter % records_a_key == 0:
            secret = expand(secret, b"dtfctl records 1 next", 32)
        key, salt = expand(secret, b"dtfctl records 1 key", 32), expand(secret, b"dtfctl records 1 salt", 12)
        header = bytes([1, kind, 0, 0]) + len(plaintext).to_bytes(4, "little") + counter.to_bytes(8, "little")
        nonce = bytes(a ^ b for a, b in zip(salt, counter.to_bytes(12, "little"), strict=True))
        made.append(header + AESGCM(key).encrypt(nonce, plaintext, header))
    return made


def test_committed_vectors() -> None:
    shared, context = bytes.fromhex(VECTORS["shared"]), bytes.fromhex(VECTORS["context"])
    secrets = derive(shared, context)
    assert [secrets.of_client.hex(), secrets.of_server.hex()] == VECTORS["secrets"]
    salt = hashlib.sha256(b"dtfctl records 1 " + context).digest()
    assert hkdf(shared, salt, b"dtfctl records 1 secrets", 64) == secrets.of_client + secrets.of_server
    plaintexts = [(kind, bytes.fromhex(text)) for kind, text in VECTORS["plaintexts"]]
    for which, secret in (("client", secrets.of_client), ("server", secrets.of_server)):
        sealer = Sealer(secret, records_a_key=VECTORS["records_a_key"])
        opener = Opener(secret, records_a_key=VECTORS["records_a_key"])
        wanted = [bytes.fromhex(record) for record in VECTORS[which]]
        assert [sealed(sealer, kind, text) for kind, text in plaintexts] == wanted
        assert reference(secret, plaintexts, VECTORS["records_a_key"]) == wanted
        assert [opened(opener, record) for record in wanted] == [text for _, text in plaintexts]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 65_536, LONGEST])
def test_both_ways_of_sealing_and_opening_are_the_same(size: int) -> None:
    text = os.urandom(size)
    one, other = Sealer(SECRET), Sealer(SECRET)
    record = one.seal(SHORT, text)
    assert record == sealed(other, SHORT, text)
    assert opened(Opener(SECRET), record) == text
    assert Opener(SECRET).take(record[:HEADER_SIZE]).open(record[HEADER_SIZE:]) == text


def test_directions_and_connections_have_keys_of_their_own() -> None:
    secrets = derive(b"s" * 64, b"one")
    client, server = Records(secrets, is_client=True), Records(secrets, is_client=False)
    record = client.sealer.seal(SHORT, b"hello")
    assert opened(server.opener, record) == b"hello"
    with pytest.raises(RecordError, match="changed on its way"):
        opened(Records(secrets, is_client=True).opener, record)  # reflected to its sender
    for other in (derive(b"s" * 64, b"two"), derive(b"t" * 64, b"one")):
        assert {other.of_client, other.of_server}.isdisjoint({secrets.of_client, secrets.of_server})
    assert secrets.of_client != secrets.of_server
    assert "of_client" not in repr(secrets)


def test_sizes_and_types_that_no_record_has_are_not_sealed() -> None:
    sealer = Sealer(SECRET)
    for kind, size in ((SHORT, 0), (SHORT, LONGEST + 1), (0, 1), (200, 1)):
        with pytest.raises(ValueError, match="no record"):
            sealer.take(kind, size)
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer(b"short")


# What is refused ------------------------------------------------------------------------------------------------------

FIELDS = {"version": (0, 1), "type": (1, 2), "zero": (2, 4), "length": (4, 8), "counter": (8, 16)}


def test_every_flipped_bit_is_refused() -> None:
    """Of the header, the ciphertext and the tag, one at a time."""
    first, second = b"first", b"The second record, longer than a block of AES is."
    sealer = Sealer(SECRET)
    before, record = sealer.seal(SHORT, first), sealer.seal(LONG, second)
    for bit in range(8 * len(record)):
        changed = bytearray(record)
        changed[bit // 8] ^= 1 << bit % 8
        opener = Opener(SECRET)
        assert opened(opener, before) == first
        with pytest.raises(RecordError):
            ticket = opener.take(changed[:HEADER_SIZE])
            if ticket.size != len(second):  # it waits for another length, and gets whatever comes next
                ticket.open((bytes(changed[HEADER_SIZE:]) + bytes(LONGEST))[: ticket.size + TAG_SIZE])
            else:
                ticket.open_into(changed[HEADER_SIZE:], bytearray(ticket.size))
        with pytest.raises(RecordError):
            opener.take(record[:HEADER_SIZE])  # nothing is taken any more, not even the right one


@pytest.mark.parametrize("field", FIELDS)
def test_a_header_field_of_another_record_is_refused(field: str) -> None:
    """Both records are genuine; one has a part of the other's header."""
    sealer = Sealer(SECRET)
    first, second = sealer.seal(SHORT, b"one"), sealer.seal(LONG, b"three")
    begin, end = FIELDS[field]
    mixed = bytearray(first)
    # All genuine records have the same there.
    mixed[begin:end] = {"version": b"\x07", "zero": b"\x00\x09"}.get(field, second[begin:end])
    opener = Opener(SECRET)
    with pytest.raises(RecordError):
        ticket = opener.take(mixed[:HEADER_SIZE])
        ticket.open((bytes(mixed[HEADER_SIZE:]) + second)[: ticket.size + TAG_SIZE])


def test_records_repeated_left_out_or_in_another_order_are_refused() -> None:
    sealer = Sealer(SECRET)
    made = [sealer.seal(SHORT, bytes([i])) for i in range(4)]
    for right, wrong in (([0], 0), ([], 1), ([0], 2), ([0, 1], 0), ([0, 1], 3)):
        opener = Opener(SECRET)
        assert [opened(opener, made[number]) for number in right] == [bytes([number]) for number in right]
        with pytest.raises(RecordError, match="repeated, left out or put in another order"):
            opened(opener, made[wrong])


def test_a_record_under_another_counter_is_refused() -> None:
    """A repeated record whose header says the number that must come next."""
    sealer, opener = Sealer(SECRET), Opener(SECRET)
    first = sealer.seal(SHORT, b"pay")
    assert opened(opener, first) == b"pay"
    version, kind, zero, size, counter = HEADER.unpack(first[:HEADER_SIZE])
    again = HEADER.pack(version, kind, zero, size, counter + 1) + first[HEADER_SIZE:]
    with pytest.raises(RecordError, match="changed on its way"):
        opened(opener, again)


def test_a_length_out_of_range_is_refused_before_memory_is_reserved() -> None:
    for size in (0, LONGEST + 1, (1 << 32) - 1):
        with pytest.raises(RecordError, match="bytes"):
            Opener(SECRET).take(HEADER.pack(1, SHORT, 0, size, 0))


# No nonce twice -------------------------------------------------------------------------------------------------------


class Watch:
    """Stands for AESGCM, and remembers under which nonces each key encrypts."""

    seen: set[tuple[bytes, bytes]] = set()

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.cipher = AESGCM(key)

    def encrypt(self, nonce: bytes, data: bytes, header: bytes) -> bytes:
        assert (self.key, nonce) not in self.seen
        self.seen.add((self.key, nonce))
        return self.cipher.encrypt(nonce, data, header)


def test_no_nonce_comes_twice_and_keys_change_before_their_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "AESGCM", Watch)
    monkeypatch.setattr(Watch, "seen", set())
    sealer = Sealer(SECRET, bytes_a_key=100, records_a_key=7)
    made = [sealer.seal(SHORT, bytes(size)) for size in [1] * 20 + [40] * 10 + [100, 1, 100, 99, 2]]
    seen = Watch.seen
    monkeypatch.undo()
    opener = Opener(SECRET, bytes_a_key=100, records_a_key=7)
    for record in made:
        opened(opener, record)
    assert len(seen) == len(made)
    assert len({key for key, _ in seen}) >= 10


def test_keys_are_used_no_longer_than_they_may_be() -> None:
    for limits, sizes, keys in (
        ({"records_a_key": 3}, [1] * 7, 3),
        ({"bytes_a_key": 10}, [5, 5, 1, 9, 1], 3),
        ({"bytes_a_key": 10}, [10, 10, 10], 3),
    ):
        sealer, seen = Sealer(SECRET, **limits), set()
        for size in sizes:
            sealer.seal(SHORT, bytes(size))
            seen.add(sealer._salt)
        assert len(seen) == keys
    assert records.BYTES_A_KEY <= 1 << 36
    assert records.RECORDS_A_KEY <= 1 << 32


def test_a_ticket_is_good_for_one_record() -> None:
    sealer = Sealer(SECRET)
    ticket = sealer.take(SHORT, 3)
    place = memoryview(bytearray(100))
    ticket.seal_into(b"abc", place)
    with pytest.raises(RecordError, match="twice"):
        ticket.seal_into(b"abd", place)


def test_numbers_end_before_they_begin_again() -> None:
    sealer = Sealer(SECRET)
    sealer._counter = (1 << 64) - 2
    sealer.seal(SHORT, b"last")
    for _ in range(2):
        with pytest.raises(RecordError, match="all of its record numbers"):
            sealer.seal(SHORT, b"one too many")


def in_a_fork(function: Any) -> str:
    """What a function says in a child, which shares nothing else with this process."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(write, str(function()).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        text = said.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_fork_encrypts_nothing_and_its_parent_goes_on() -> None:
    sealer, opener = Sealer(SECRET), Opener(SECRET)
    ticket = sealer.take(SHORT, 1)

    def all_of_it() -> list[str]:
        place = memoryview(bytearray(100))
        said = []
        for attempt in (
            lambda: sealer.seal(SHORT, b"x"),
            lambda: ticket.seal_into(b"x", place),
            lambda: opener.take(HEADER.pack(1, SHORT, 0, 1, 0)),
        ):
            try:
                attempt()
                said.append("went")
            except RecordError as e:
                said.append("fork" if "fork" in str(e) else str(e))
        return said

    assert in_a_fork(all_of_it) == "['fork', 'fork', 'fork']"
    place = memoryview(bytearray(100))
    end = ticket.seal_into(b"y", place)
    assert opened(opener, bytes(place[:end])) == b"y"
    assert opened(opener, sealer.seal(SHORT, b"z")) == b"z"


def test_a_fork_of_a_fork_with_the_same_process_id_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Process ids come again; that there was a fork does not."""
    sealer = Sealer(SECRET)
    pid = os.getpid()

    def attempt() -> str:
        monkeypatch.setattr(records.os, "getpid", lambda: pid)
        try:
            sealer.seal(SHORT, b"x")
        except RecordError as e:
            return "fork" if "fork" in str(e) else str(e)
        return "went"

    assert in_a_fork(attempt) == "fork"


def test_secrets_are_values() -> None:
    assert derive(b"a" * 32, b"") == derive(b"a" * 32, b"")
    assert isinstance(derive(b"a" * 32, b""), Secrets)
