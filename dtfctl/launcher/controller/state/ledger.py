"""What outlives a cluster: which ids its jobs have had, and where their checkpoints are.

The database goes with `down`; checkpoints stay. So a number that a job had is never given again, and `--resume` knows
the jobs of earlier clusters of this name.
"""

from __future__ import annotations

import logging
from pathlib import Path

from dtfctl.launcher.messages import codec
from dtfctl.launcher.system.files import write_whole
from dtfctl.values import field, value

log = logging.getLogger(__name__)

MOST_JOBS = 10_000
"""Ids of older ones are forgotten; the numbers are not."""


@value
class PastJob:
    """What is known of a job for good."""

    uid: str
    checkpoint_dir: str


@value
class Ledger:
    """All jobs that clusters of this name have had."""

    numbers: dict[str, int] = field(default_factory=dict)
    """The highest number that was given, by the job's name."""
    jobs: dict[str, PastJob] = field(default_factory=dict)

    def next_number(self, stem: str, taken: set[str]) -> int:
        """Choose a number that no job called `stem` has had."""
        number = self.numbers.get(stem, 0) + 1
        while f"{stem}-{number}" in taken or f"{stem}-{number}" in self.jobs:
            number += 1
        return number

    def with_job(self, job_id: str, job: PastJob) -> Ledger:
        """Add one more job."""
        jobs = dict(list({**self.jobs, job_id: job}.items())[-MOST_JOBS:])
        stem, _, number = job_id.rpartition("-")
        numbers = dict(self.numbers)
        if stem and number.isdecimal() and len(number) < 10:
            numbers[stem] = max(numbers.get(stem, 0), int(number))
        return Ledger(numbers, jobs)


def read(path: Path) -> Ledger:
    """Read what the file says; nothing when there is none."""
    try:
        return codec.decode(Ledger, path.read_text())
    except FileNotFoundError:
        return Ledger()
    except (ValueError, TypeError, AttributeError) as error:
        # Folders have uids of their own, so that a number given twice mixes nothing.
        log.warning("%s cannot be read, and begins anew: %s", path, error)
        return Ledger()


def write(path: Path, ledger: Ledger) -> None:
    """Write the ledger to its file. Raises NoSpace."""
    write_whole(path, codec.encode(ledger).encode())
