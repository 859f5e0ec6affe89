"""Where a served model listens, and to whom: loopback and a token, or any address and certificates."""

from __future__ import annotations

import hmac
import json
import os
from pathlib import Path

from dtfctl.net.tls import Identity
from dtfctl.values import value

LOOPBACK = "127.0.0.1"


@value
class Door:
    """Lets in who says the token, from processes of this user; with an identity, whoever has a certificate instead.

    A certificate has to be of the authority of the identity, which makes them for clients of models and nobody else.
    """

    address: str = LOOPBACK
    token: str = ""
    identity: Identity | None = None

    def knows(self, authorization: bytes) -> bool:
        """Tell whether a request may be answered, by what it says of its sender."""
        if self.identity is not None:
            return True  # without a certificate nothing came so far
        return hmac.compare_digest(authorization, f"Bearer {self.token}".encode())


def identity_of(text: str) -> Identity:
    """Make the identity that is in a text: a JSON object with `ca`, `cert` and `key` in PEM. No file has the key.

    Raises:
        ValueError, KeyError: the text is none.
    """
    found = json.loads(text)
    return Identity(*(_held(name, str(found[name])) for name in ("ca", "cert", "key")))


def _held(name: str, content: str) -> Path:
    descriptor = os.memfd_create(name)
    with os.fdopen(os.dup(descriptor), "w") as out:
        out.write(content)
    return Path(f"/proc/self/fd/{descriptor}")
