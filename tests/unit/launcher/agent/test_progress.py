"""Progress files are written by users' scripts: what is no progress is skipped, what is a note is passed on."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.agent.units.progress import LONGEST_NOTE, MOST_NOTES, ProgressFile


def test_notes_are_given_once_and_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    file = ProgressFile(path)
    path.write_text('{"step": 1}\n{"note": "two\\nlines", "time": 1}\n{"note": 5}\nnonsense\n')
    assert file.poll()
    assert file.take_notes() == ["two lines"]
    assert file.take_notes() == []
    assert file.latest is not None
    assert (file.latest.step, file.bad_lines) == (1, 2)


def test_a_script_that_writes_notes_without_end_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    file = ProgressFile(path)
    path.write_text('{"note": "' + "x" * 1000 + '"}\n' * 1 + '{"note": "n"}\n' * 500)
    file.poll()
    notes = file.take_notes()
    assert len(notes) == MOST_NOTES
    assert len(notes[0]) == LONGEST_NOTE
