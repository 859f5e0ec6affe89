"""Stock TensorFlow's answers about regular expressions: a file of cases in, a file of answers out.

A case is [op, pattern, rewrite, everywhere, text]; bytes are written as latin-1 text.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import tensorflow as tf


def answer(op: str, pattern: bytes, rewrite: bytes, everywhere: bool, text: bytes) -> str:
    # Messages repeat the pattern, and Python's wrapper can only show UTF-8.
    with tf.Graph().as_default(), tf.compat.v1.Session() as sess:
        fed = tf.constant([text])
        if op == "replace":
            got = tf.raw_ops.RegexReplace(
                input=fed, pattern=tf.constant(pattern), rewrite=tf.constant(rewrite), replace_global=everywhere
            )
        else:
            got = tf.raw_ops.RegexFullMatch(input=fed, pattern=tf.constant(pattern))
        try:
            value = sess.run(got)[0]
        except (tf.errors.InvalidArgumentError, ValueError):  # the client stumbles over patterns in messages
            return "InvalidArgument"
        return value.decode("latin-1") if isinstance(value, bytes) else str(bool(value))


cases = json.loads(Path(sys.argv[1]).read_text())
Path(sys.argv[2]).write_text(
    json.dumps(
        [answer(op, p.encode("latin-1"), r.encode("latin-1"), e, t.encode("latin-1")) for op, p, r, e, t in cases]
    )
)
