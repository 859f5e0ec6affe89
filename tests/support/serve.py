"""serve.py CLUSTER JOB INDEX: one task, until killed; says "serving" when it does."""

from __future__ import annotations

import ast
import sys

from dtfctl.runtime.train.server_lib import Server


def main() -> None:
    server = Server(ast.literal_eval(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    print("serving", flush=True)
    server.join()


if __name__ == "__main__":
    main()
