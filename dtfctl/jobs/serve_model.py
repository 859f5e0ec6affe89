"""Serve a model on the tasks of a job: what `dtfctl serve` submits."""

import sys

from dtfctl.serve.program import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
