"""Which server serves calls is found out with what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dtfctl.runtime.services import call_server, call_servers
from dtfctl.runtime.services.call_server import CoreCallServer
from dtfctl.runtime.services.call_servers import chosen
from dtfctl.runtime.services.public_call_server import PublicCallServer


@pytest.fixture
def undecided(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    monkeypatch.delenv(call_servers.CHOICE, raising=False)
    chosen.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    chosen.cache_clear()


def test_a_version_that_was_tried_serves(undecided: pytest.MonkeyPatch) -> None:
    undecided.setattr(call_servers, "fault_of", lambda _: pytest.fail("it is tried again"))
    assert call_server.missing() == []
    assert chosen() is CoreCallServer


def test_a_core_that_lacks_something_does_not(undecided: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    undecided.setattr(call_server.cygrpc, "ReceiveMessageOperation", None)
    assert chosen() is PublicCallServer
    assert "it lacks ReceiveMessageOperation" in caplog.text


@pytest.mark.parametrize("part", ["request_call", "add_http2_port"])
def test_a_core_that_has_changed_does_not(
    undecided: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    """A version nobody has tried is tried by calls."""

    class Changed(call_server.cygrpc.Server):  # type: ignore[misc]
        pass

    def changed(self: Any, *_: Any) -> None:
        raise TypeError(f"{part}() takes another argument now")

    undecided.setattr(call_servers, "_version", lambda: (1, 999))
    assert chosen() is CoreCallServer, "it may work all the same"
    chosen.cache_clear()
    setattr(Changed, part, changed)
    undecided.setattr(call_server.cygrpc, "Server", Changed)
    assert chosen() is PublicCallServer
    assert f"{part}() takes another argument now" in caplog.text


def test_the_environment_may_choose(undecided: pytest.MonkeyPatch) -> None:
    for name, maker in (("core", CoreCallServer), ("public", PublicCallServer)):
        undecided.setenv(call_servers.CHOICE, name)
        chosen.cache_clear()
        assert chosen() is maker
    undecided.setenv(call_servers.CHOICE, "other")
    chosen.cache_clear()
    with pytest.raises(ValueError, match="DTF_CALL_SERVER is 'other'"):
        chosen()


@pytest.mark.slow
@pytest.mark.parametrize("module", ["dtfctl.plaintext_port", "dtfctl.runtime.services.server", "dtfctl.runtime.train"])
def test_grpc_is_told_who_reads_before_it_is_imported(module: str) -> None:
    """Said later, it has no effect."""
    program = (
        "import importlib, os, sys\n"
        "class Watch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'grpc': print(os.environ.get('GRPC_EXPERIMENTS'))\n"
        "sys.meta_path.insert(0, Watch())\n"
        "importlib.import_module(sys.argv[1])\n"
        "import grpc\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_EXPERIMENTS"}
    done = subprocess.run(
        [sys.executable, "-c", program, module], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["-event_engine_listener"]


@pytest.mark.nightly
def test_all_services_over_the_other_server() -> None:
    here = Path(__file__).parent
    environment = {k: v for k, v in os.environ.items() if k != "DTF_NIGHTLY"} | {call_servers.CHOICE: "public"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(here), f"--ignore={__file__}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=here.parents[2])
    assert done.returncode == 0, done.stdout[-6000:]
