"""The controller's calls, for both sides; see messages/controller.py."""

from __future__ import annotations

from dtfctl.launcher.identity.certificates import Role
from dtfctl.launcher.messages.commands import ExecInput, ExecOutput
from dtfctl.launcher.messages.controller import (
    ApplyReply,
    ApplyRequest,
    CancelRequest,
    CertificatesReply,
    CertificatesRequest,
    DesireHostsReply,
    DesireHostsRequest,
    DesireReply,
    DesireRequest,
    DownReply,
    DownRequest,
    EventsReply,
    EventsRequest,
    JobsReply,
    JobsRequest,
    LogsReply,
    LogsRequest,
    Nothing,
    ScaleRequest,
    SpecReply,
    StatusReply,
    StatusRequest,
    SubmitReply,
    SubmitRequest,
)
from dtfctl.launcher.messages.dashboard import DashboardClosed, DashboardReply, DashboardRequest, StudyToShow
from dtfctl.launcher.messages.files import (
    BlobHeld,
    BlobPiece,
    FetchRequest,
    FilePart,
    Stored,
    StoreInput,
)
from dtfctl.launcher.messages.looks import Examination, ExamineRequest, Inspection, InspectRequest, MeasureRequest
from dtfctl.launcher.model import ControllerStatus, LinkStatus
from dtfctl.launcher.rpc.method import Method

SERVICE = "dtf.controller.Controller"
CLI: frozenset[Role] = frozenset({"cli"})

PING = Method(SERVICE, "Ping", Nothing, ControllerStatus, CLI)
APPLY = Method(SERVICE, "Apply", ApplyRequest, ApplyReply, CLI, is_operation=True)
STATUS = Method(SERVICE, "Status", StatusRequest, StatusReply, CLI)
SUBMIT = Method(SERVICE, "Submit", SubmitRequest, SubmitReply, CLI, is_operation=True)
JOBS = Method(SERVICE, "Jobs", JobsRequest, JobsReply, CLI)
CANCEL = Method(SERVICE, "Cancel", CancelRequest, JobsReply, CLI, is_operation=True)
DESIRE = Method(SERVICE, "Desire", DesireRequest, DesireReply, CLI, is_operation=True)
SCALE = Method(SERVICE, "Scale", ScaleRequest, ApplyReply, CLI, is_operation=True)
DESIRE_HOSTS = Method(SERVICE, "DesireHosts", DesireHostsRequest, DesireHostsReply, CLI, is_operation=True)
READ_LOGS = Method(SERVICE, "ReadLogs", LogsRequest, LogsReply, CLI)
EVENTS = Method(SERVICE, "Events", EventsRequest, EventsReply, CLI)
OPEN_DASHBOARD = Method(SERVICE, "OpenDashboard", DashboardRequest, DashboardReply, CLI)
CLOSE_DASHBOARD = Method(SERVICE, "CloseDashboard", Nothing, DashboardClosed, CLI)
SHOW_STUDY = Method(SERVICE, "ShowStudy", StudyToShow, Nothing, CLI)
CERTIFICATES = Method(SERVICE, "Certificates", CertificatesRequest, CertificatesReply, CLI)
DOWN = Method(SERVICE, "Down", DownRequest, DownReply, CLI, is_operation=True)

READ_SPEC = Method(SERVICE, "ReadSpec", Nothing, SpecReply, CLI)
EXEC = Method(SERVICE, "Exec", ExecInput, ExecOutput, CLI, talks=True)
FETCH = Method(SERVICE, "Fetch", FetchRequest, FilePart, CLI, streams=True)
STORE = Method(SERVICE, "Store", StoreInput, Stored, CLI, talks=True)
EXAMINE = Method(SERVICE, "Examine", ExamineRequest, Examination, CLI)
PUT_BLOB = Method(SERVICE, "PutBlob", BlobPiece, BlobHeld, CLI)
INSPECT = Method(SERVICE, "Inspect", InspectRequest, Inspection, CLI)
MEASURE = Method(SERVICE, "Measure", MeasureRequest, LinkStatus, CLI)
