"""Where the processes of a job run."""

from __future__ import annotations

from pathlib import Path

from dtfctl.launcher.agent.start.launch import working_folder
from dtfctl.launcher.agent.units.host_units import HostUnits


def test_a_job_never_runs_among_the_agents_own_files(state: HostUnits, tmp_path: Path) -> None:
    """A program that writes `state.json` would have destroyed what the agent goes by."""
    context = state.context(state.folder)
    assert working_folder(context, str(tmp_path)) == tmp_path, "where the host has the submitter's folder"
    for elsewhere in ("", str(tmp_path / "not-here")):
        folder = working_folder(context, elsewhere)
        assert folder != context.agent_folder
        assert list(folder.iterdir()) == []
