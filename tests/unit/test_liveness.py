"""The page about liveness has the numbers of the code."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtfctl.health.monitor import HealthLimits
from dtfctl.launcher.agent import lease
from dtfctl.launcher.controller.hosts import agent_link
from dtfctl.launcher.operator import controller_client
from dtfctl.launcher.providers import login
from dtfctl.launcher.spec.model import Health
from dtfctl.launcher.system import pulse
from dtfctl.net import keepalive, pings
from dtfctl.runtime.services import pulse as serving, reach
from dtfctl.runtime.services.grpc_tools import CHANNEL_OPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "liveness.md").read_text()
LIMITS = HealthLimits()
GRPC = dict(CHANNEL_OPTIONS)

SAID = {
    "beats": f"every {LIMITS.beat_s:g} s; silence of {LIMITS.pause_s:g} s forgiven, then suspect at phi "
    f"{LIMITS.suspect_phi:g}, down at phi {LIMITS.down_phi:g} or after {LIMITS.down_after_s:g} s; up to "
    f"{LIMITS.busy_limit_s:g} s while its CPU time grows",
    "serving": f"gRPC every {serving.GRPC_EVERY_S:g} s",
    "progress": f"{LIMITS.progress_s:g} s (`health.progress`), {LIMITS.startup_s:g} s before its first step",
    "pulse": f"every {pulse.OFTEN_S:g} s; an agent that reported is looked at after {agent_link.SILENT_S:g} s "
    f"(a new one after {agent_link.MUTE_S:g} s) and hangs after {pulse.AGENT_HANGS_S:g} s; a controller is looked at "
    f"after {controller_client.ANSWERS_S[0]:g} s, and hangs after {pulse.HANGS_S:g} s",
    "lease": f"renewed every {agent_link.RENEW_S:g} s, lasts {Health().lease:g} s (`health.lease`); "
    f"{lease.ASK_BEFORE_S:g} s before its end",
    "reach": f"its own counter stands still for {reach.QUIET_S:g} s | {reach.ANSWER_S:g} s for an answer",
    "pings": f"a ping after {pings.PING_S:g} s without anything else; silent for {pings.SILENT_TICKS} ticks of "
    f"{pings.TICK_S:g} s in which it listened itself; on a channel {GRPC['grpc.keepalive_timeout_ms'] / 1000:g} s "
    "without an answer",
    "TCP keepalive": f"after {keepalive.IDLE_S} s, every {keepalive.EVERY_S} s, {keepalive.MISSES} misses; what is "
    f"sent and not taken for {pings.SILENT_S} s",
    "SSH keepalive": f"every {login.KEEPALIVE_S:g} s, {login.KEEPALIVE_MISSES} misses",
}


@pytest.mark.parametrize("mechanism", SAID)
def test_the_page_has_the_numbers_of_the_code(mechanism: str) -> None:
    (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| {mechanism} |"))
    assert SAID[mechanism] in row


def test_each_place_it_names_is_there() -> None:
    rows = [line.split("|") for line in PAGE.splitlines() if line.startswith("| ") and "`" in line]
    package = Path(__file__).parents[2] / "dtfctl"
    for row in rows:
        for place in row[7].replace("`", "").split(","):
            found = [at for at in ("", "launcher/", "runtime/") if (package / at / place.strip()).exists()]
            assert found, place


def test_grpc_pings_as_often_as_all_others() -> None:
    assert GRPC["grpc.keepalive_time_ms"] == pings.PING_S * 1000
    assert GRPC["grpc.keepalive_time_ms"] + GRPC["grpc.keepalive_timeout_ms"] == pings.SILENT_S * 1000
