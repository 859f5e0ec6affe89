"""What is in a job's checkpoint folder, as values: which version of a file is newer, and what makes a checkpoint whole.

Clocks of hosts differ, so versions are counts: who changes a file gives it a higher number than any it has heard of,
of whatever file. A file that was deleted is remembered, so that nobody brings it back; of the oldest only a floor is:
what is not known and has no higher number was deleted.

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

from dtfctl.launcher.messages.agent import Entry

DATA = re.compile(r"(?s)(.*)\.data-\d{5}-of-(\d{5})")
STATE = "checkpoint"
BESIDE = (".meta", ".pbtxt", ".json")
"""What lies beside checkpoints and is none."""
MOST_NAMED = 8
MOST_FILES = 10_000
LONGEST_PATH = 1000
HIGHEST_VERSION = 2**53


def is_replicated(path: str) -> bool:
    """Tell whether a file is part of what is kept: no hidden or unfinished one, and no log for TensorBoard."""
    *folders, name = path.split("/")
    if any(folder.startswith(".") or "_temp_" in folder for folder in folders):
        return False
    unfinished = name.startswith(".") or name.endswith((".tmp", ".part")) or ".tempstate" in name
    return not unfinished and not name.startswith("events.out.tfevents.")


def is_allowed(entry: Entry) -> bool:
    """Tell whether what another host says can be the name of a file in the folder."""
    parts = entry.path.split("/")
    fits = len(entry.path) <= LONGEST_PATH and all(part not in ("", ".", "..") for part in parts)
    counts = entry.size >= 0 and 0 <= entry.version <= HIGHEST_VERSION
    return fits and counts and "\0" not in entry.path and is_replicated(entry.path)


def is_newer(entry: Entry, known: Entry | None) -> bool:
    """Tell whether `entry` takes the place of what is known of its path; all hosts come to the same conclusion."""
    if known is None:
        return True
    return (entry.version, entry.sha256) > (known.version, known.sha256)


def prefix_of_data(path: str) -> tuple[str, int] | None:
    """Return the checkpoint that a data file is of, and how many it has."""
    found = DATA.fullmatch(path)
    return None if found is None else (found[1], int(found[2]))


def checkpoint_of(path: str) -> str | None:
    """Return the prefix of TensorFlow's checkpoint that a file is a part of, its index, data or graph; None:
    it may be whole.

    >>> checkpoint_of("m-1.index"), checkpoint_of("m-1.data-00000-of-00002"), checkpoint_of("weights.pt")
    ('m-1', 'm-1', None)
    """
    for suffix in (".index", ".meta"):
        if path.endswith(suffix):
            return path.removesuffix(suffix)
    data = prefix_of_data(path)
    return None if data is None else data[0]


def is_complete(path: str, own: Mapping[str, Entry]) -> bool:
    """Tell whether `path` may appear: an index says that its checkpoint is whole, so all its data are there before."""
    if not path.endswith(".index"):
        return True
    prefix = path.removesuffix(".index")
    counts: dict[int, int] = {}
    for other, entry in own.items():
        data = None if entry.deleted else prefix_of_data(other)
        if data is not None and data[0] == prefix:
            counts[data[1]] = counts.get(data[1], 0) + 1
    return not counts or any(there == count for count, there in counts.items())


def to_take(own: Mapping[str, Entry], theirs: Iterable[Entry], busy: Collection[str], floor: int = 0) -> list[Entry]:
    """Return what another host has that is newer, in the order in which to take it. `busy`: what is being written here;
    `floor`: what is not in `own` and has no higher version was deleted, so long ago that it is not remembered."""
    news = []
    for entry in theirs:
        known = own.get(entry.path)
        was_deleted = known is None and entry.version <= floor
        if is_newer(entry, known) and entry.path not in busy and not was_deleted and is_allowed(entry):
            news.append(entry)
    return sorted(news[:MOST_FILES], key=_turn)


def _turn(entry: Entry) -> tuple[int, str]:
    """Order entries: data, then what says that they are whole, then what names it the newest, then what is gone."""
    if entry.deleted:
        return 4, entry.path
    if entry.path == STATE:
        return 3, entry.path
    if entry.path.endswith(".index"):
        return 2, entry.path
    return (0 if prefix_of_data(entry.path) else 1), entry.path


def goes_with(path: str, own: Mapping[str, Entry]) -> list[str]:
    """Return what is deleted with `path`: data and graph of a checkpoint whose index is."""
    if not path.endswith(".index"):
        return []
    prefix = path.removesuffix(".index")
    return [
        other
        for other, entry in own.items()
        if not entry.deleted and (other == f"{prefix}.meta" or (prefix_of_data(other) or ("",))[0] == prefix)
    ]


def listed(state: str) -> tuple[str, ...]:
    """Return the checkpoints that the text of TensorFlow's `checkpoint` file names, the newest last,
    without their folder.

    >>> listed('model_checkpoint_path: "/c/m-2"\\nall_model_checkpoint_paths: "/c/m-1"\\n')
    ('m-1', 'm-2')
    """
    found = re.findall(r'(?m)^\s*(all_model_checkpoint_paths|model_checkpoint_path):\s*"([^"\n]+)"', state)
    newest = [path for key, path in found if key == "model_checkpoint_path"]
    older = [path for key, path in found if key != "model_checkpoint_path" and path not in newest]
    return tuple(path.rpartition("/")[2] for path in [*older, *newest])


def whole(own: Mapping[str, Entry], named: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the newest checkpoints that are whole here, oldest first: prefixes of TensorFlow's,
    and names of other files.

    `named`: those that the folder's state lists. Of others nobody would go on: a later run has come by them.
    """
    bundles, files = all_whole(own, named)
    return (*files, *bundles)[-MOST_NAMED:]


def all_whole(own: Mapping[str, Entry], named: Sequence[str] | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return all that are whole: prefixes of TensorFlow's, and other files. Each file is looked at once."""
    parts: dict[str, dict[str, Entry]] = {}
    indexes: list[tuple[str, Entry]] = []
    files = []
    for path, entry in own.items():
        if entry.deleted:
            continue
        data = prefix_of_data(path)
        if data is not None:
            parts.setdefault(data[0], {})[path] = entry
        elif path.endswith(".index"):
            indexes.append((path, entry))
        elif path != STATE and not path.endswith(BESIDE):
            files.append((entry.mtime_ns, path))
    bundles = []
    place = None if named is None else {prefix: at for at, prefix in enumerate(named)}
    for path, entry in indexes:
        prefix = path.removesuffix(".index")
        if prefix not in parts:
            files.append((entry.mtime_ns, path))
        elif is_complete(path, parts[prefix]) and (place is None or prefix in place):
            bundles.append((entry.mtime_ns if place is None else place[prefix], prefix))
    return tuple(name for _, name in sorted(bundles)), tuple(name for _, name in sorted(files))


def must_stay(own: Mapping[str, Entry], deleted: Collection[str]) -> str | None:
    """Return the checkpoint that is not given up though others have `deleted` its files:
    without it none would be whole here.

    That happens when the newest one has been deleted, or lost with its writer, before all of it was here.
    """
    bundles, files = all_whole(own)
    if bundles:
        gone = {checkpoint_of(path) for path in deleted}
        return bundles[-1] if gone.issuperset(bundles) else None
    return files[-1] if files and set(files).issubset(deleted) else None
