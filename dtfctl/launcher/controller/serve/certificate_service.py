"""The controller's call about certificates: which there are and when they end, and new ones on demand."""

from __future__ import annotations

import time

from dtfctl.launcher.controller.hosts.certify import own_ends, renew_own
from dtfctl.launcher.controller.loop import ControllerLoop
from dtfctl.launcher.messages.controller import CertificatesReply, CertificatesRequest
from dtfctl.launcher.messages.controller_calls import CERTIFICATES
from dtfctl.launcher.model import CertificateStatus
from dtfctl.launcher.rpc.method import Handler, Method

RENEW_S = 20.0
"""The seconds for all hosts together."""


class CertificateService:
    """Handlers; each runs in a thread of the server."""

    def __init__(self, engine: ControllerLoop) -> None:
        self._engine = engine

    def handlers(self) -> dict[Method, Handler]:  # type: ignore[type-arg]
        return {CERTIFICATES: self.certificates}

    def certificates(self, request: CertificatesRequest) -> CertificatesReply:
        found: list[CertificateStatus] = []
        problems = self._renew() if request.renew else {}
        for name, until in own_ends(self._engine.paths).items():
            found.append(CertificateStatus(name, "", until))
        hosts = self._engine.read(lambda: dict(self._engine.hosts.all))
        for host, known in sorted(hosts.items()):
            held = known.link.certificates.held()
            held.pop("ca", None)
            problem = problems.get(host, "")
            for name, until in sorted(held.items()):
                found.append(CertificateStatus(name, host, until, problem))
            if not held:
                found.append(CertificateStatus("", host, 0.0, problem or "its agent has not said which it has"))
        return CertificatesReply(tuple(found))

    def _renew(self) -> dict[str, str]:
        """Replace all of them; by host, why that was not possible."""
        engine = self._engine
        own = renew_own(engine.paths, engine.hosts.lifetime_s(), time.time(), all_of_them=True)
        engine.call(lambda: engine.store.add_event("controller.certified", "controller", f"new: {', '.join(own)}"))
        hosts = engine.read(lambda: dict(engine.hosts.all))
        asked = {name: host.link.renew_certificates() for name, host in hosts.items()}
        deadline = time.monotonic() + RENEW_S
        return {
            name: "not renewed: its agent does not answer; it is tried again"
            for name, number in asked.items()
            if not hosts[name].link.certificates.wait_renewed(number, max(0.0, deadline - time.monotonic()))
        }
