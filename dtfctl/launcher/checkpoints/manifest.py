"""What is in a job's checkpoint folder, as values: which version of a file is newer, and what makes a checkpoint whole.

Clocks of hosts differ, so versions are counts: who changes a file gives it a higher number than any it has heard of.
A file that was deleted is remembered, so that nobody brings it back.

>>> old = Entry("model-1.index", version=1, sha256="a"); new = Entry("model-1.index", version=2, deleted=True)
>>> is_newer(new, old), is_newer(old, new), is_newer(old, None)
(True, False, True)
>>> own = {"m-1.data-00000-of-00002": Entry("m-1.data-00000-of-00002", version=1)}
>>> is_complete("m-1.index", own), is_complete("weights.pt", own)
(False, True)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from dtfctl.values import value

DATA = re.compile(r"(?s)(.*)\.data-\d{5}-of-(\d{5})")
STATE = "checkpoint"
BESIDE = (".meta", ".pbtxt", ".json")
"""What lies beside checkpoints and is none."""
MOST_NAMED = 8
MOST_FILES = 10_000
LONGEST_PATH = 1000


@value
class Entry:
    """A file of the folder, whole, or that it is gone."""

    path: str
    """Relative, with `/`."""
    version: int = 0
    size: int = 0
    sha256: str = ""
    mtime_ns: int = 0
    deleted: bool = False


def is_replicated(path: str) -> bool:
    """Whether a file is part of what is kept: no hidden or unfinished one, and no log for TensorBoard."""
    *folders, name = path.split("/")
    if any(folder.startswith(".") or "_temp_" in folder for folder in folders):
        return False
    unfinished = name.startswith(".") or name.endswith((".tmp", ".part")) or ".tempstate" in name
    return not unfinished and not name.startswith("events.out.tfevents.")


def is_allowed(entry: Entry) -> bool:
    """Whether what another host says can be the name of a file in the folder."""
    parts = entry.path.split("/")
    fits = len(entry.path) <= LONGEST_PATH and all(part not in ("", ".", "..") for part in parts)
    return fits and "\0" not in entry.path and entry.size >= 0 and is_replicated(entry.path)


def is_newer(entry: Entry, known: Entry | None) -> bool:
    """Whether `entry` takes the place of what is known of its path; all hosts come to the same conclusion."""
    if known is None:
        return True
    return (entry.version, entry.sha256) > (known.version, known.sha256)


def prefix_of_data(path: str) -> tuple[str, int] | None:
    """The checkpoint that a data file is of, and how many it has."""
    found = DATA.fullmatch(path)
    return None if found is None else (found[1], int(found[2]))


def is_data_of(path: str, index: str) -> bool:
    """Whether `path` is of the checkpoint whose index is `index`."""
    data = prefix_of_data(path)
    return data is not None and f"{data[0]}.index" == index


def is_complete(path: str, own: Mapping[str, Entry]) -> bool:
    """Whether `path` may appear: an index says that its checkpoint is whole, so all its data are there before."""
    if not path.endswith(".index"):
        return True
    prefix = path.removesuffix(".index")
    counts: dict[int, int] = {}
    for other, entry in own.items():
        data = None if entry.deleted else prefix_of_data(other)
        if data is not None and data[0] == prefix:
            counts[data[1]] = counts.get(data[1], 0) + 1
    return not counts or any(there == count for count, there in counts.items())


def to_take(own: Mapping[str, Entry], theirs: Iterable[Entry], busy: Collection[str]) -> list[Entry]:
    """What another host has that is newer, in the order in which to take it. `busy`: what is being written here."""
    news = [e for e in theirs if is_allowed(e) and e.path not in busy and is_newer(e, own.get(e.path))]
    return sorted(news[:MOST_FILES], key=_turn)


def _turn(entry: Entry) -> tuple[int, str]:
    """Data, then what says that they are whole, then what names it the newest; and then what is gone."""
    if entry.deleted:
        return 4, entry.path
    if entry.path == STATE:
        return 3, entry.path
    if entry.path.endswith(".index"):
        return 2, entry.path
    return (0 if prefix_of_data(entry.path) else 1), entry.path


def goes_with(path: str, own: Mapping[str, Entry]) -> list[str]:
    """What is deleted with `path`: data and graph of a checkpoint whose index is."""
    if not path.endswith(".index"):
        return []
    prefix = path.removesuffix(".index")
    return [
        other
        for other, entry in own.items()
        if not entry.deleted and (other == f"{prefix}.meta" or (prefix_of_data(other) or ("",))[0] == prefix)
    ]


def listed(state: str) -> tuple[str, ...]:
    """The checkpoints that the text of TensorFlow's `checkpoint` file names, the newest last, without their folder.

    >>> listed('model_checkpoint_path: "/c/m-2"\\nall_model_checkpoint_paths: "/c/m-1"\\n')
    ('m-1', 'm-2')
    """
    found = re.findall(r'(?m)^\s*(all_model_checkpoint_paths|model_checkpoint_path):\s*"([^"\n]+)"', state)
    newest = [path for key, path in found if key == "model_checkpoint_path"]
    older = [path for key, path in found if key != "model_checkpoint_path" and path not in newest]
    return tuple(path.rpartition("/")[2] for path in [*older, *newest])


def whole(own: Mapping[str, Entry], named: Sequence[str] | None = None) -> tuple[str, ...]:
    """The newest checkpoints that are whole here, oldest first: prefixes of TensorFlow's, and names of other files.

    `named`: those that the folder's state lists. Of others nobody would go on: a later run has come by them.
    """
    live = {path: entry for path, entry in own.items() if not entry.deleted}
    prefixes = {data[0] for path in live if (data := prefix_of_data(path)) is not None}
    bundles, files = [], []
    for path, entry in live.items():
        prefix = path.removesuffix(".index")
        if path.endswith(".index") and prefix in prefixes:
            if is_complete(path, live) and (named is None or prefix in named):
                bundles.append((entry.mtime_ns if named is None else named.index(prefix), prefix))
        elif prefix_of_data(path) is None and path != STATE and not path.endswith(BESIDE):
            files.append((entry.mtime_ns, path))
    return tuple(name for _, name in [*sorted(files), *sorted(bundles)][-MOST_NAMED:])
