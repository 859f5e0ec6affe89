"""The agent's calls, for both sides; see messages/agent.py."""

from __future__ import annotations

from dtfctl.launcher.identity.certificates import Role
from dtfctl.launcher.messages.agent import (
    Applied,
    Certified,
    CertifyRequest,
    EchoReply,
    EchoRequest,
    FileList,
    FilePiece,
    KeepRequest,
    ListFilesRequest,
    Piece,
    PiecesRequest,
    ProbeReply,
    ProbeRequest,
    ReadFileRequest,
    ReadLogsReply,
    ReadLogsRequest,
    RecallReply,
    RecallRequest,
    RenewRequest,
    Script,
    SharedRequest,
    ShutdownRequest,
    WatchRequest,
)
from dtfctl.launcher.messages.commands import ExecInput, ExecOutput
from dtfctl.launcher.messages.files import (
    BlobHeld,
    BlobPiece,
    FetchRequest,
    FilePart,
    Stored,
    StoreInput,
)
from dtfctl.launcher.messages.looks import (
    Examination,
    ExamineRequest,
    Inspection,
    InspectRequest,
    Measured,
    MeasureRequest,
)
from dtfctl.launcher.messages.orders import HostOrders
from dtfctl.launcher.messages.reports import Report
from dtfctl.launcher.rpc.method import Method

SERVICE = "dtf.agent.Agent"
CONTROLLER: frozenset[Role] = frozenset({"controller"})

AGENT: frozenset[Role] = frozenset({"agent"})
KEEPERS: frozenset[Role] = frozenset({"agent", "controller"})
"""The roles that keep copies of jobs' folders."""

APPLY = Method(SERVICE, "Apply", HostOrders, Applied, CONTROLLER)
PUT_SCRIPT = Method(SERVICE, "PutScript", Script, Applied, CONTROLLER)
PUT_BLOB = Method(SERVICE, "PutBlob", BlobPiece, BlobHeld, CONTROLLER)
GET_BLOB = Method(SERVICE, "GetBlob", BlobPiece, BlobPiece, CONTROLLER)
EXAMINE = Method(SERVICE, "Examine", ExamineRequest, Examination, CONTROLLER)
WATCH = Method(SERVICE, "Watch", WatchRequest, Report, CONTROLLER, streams=True)
RENEW = Method(SERVICE, "Renew", RenewRequest, Applied, CONTROLLER)
KEEP = Method(SERVICE, "Keep", KeepRequest, Applied, CONTROLLER)
RECALL = Method(SERVICE, "Recall", RecallRequest, RecallReply, CONTROLLER)
PROBE = Method(SERVICE, "Probe", ProbeRequest, ProbeReply, CONTROLLER)
PROVE_SHARED = Method(SERVICE, "ProveShared", SharedRequest, ProbeReply, CONTROLLER)
READ_LOGS = Method(SERVICE, "ReadLogs", ReadLogsRequest, ReadLogsReply, CONTROLLER)
LIST_FILES = Method(SERVICE, "ListFiles", ListFilesRequest, FileList, KEEPERS)
READ_FILE = Method(SERVICE, "ReadFile", ReadFileRequest, FilePiece, KEEPERS)
SHUTDOWN = Method(SERVICE, "Shutdown", ShutdownRequest, Report, CONTROLLER)
CERTIFY = Method(SERVICE, "Certify", CertifyRequest, Certified, CONTROLLER)
EXEC = Method(SERVICE, "Exec", ExecInput, ExecOutput, CONTROLLER, talks=True)
FETCH = Method(SERVICE, "Fetch", FetchRequest, FilePart, CONTROLLER, streams=True)
STORE = Method(SERVICE, "Store", StoreInput, Stored, CONTROLLER, talks=True)
INSPECT = Method(SERVICE, "Inspect", InspectRequest, Inspection, CONTROLLER)
MEASURE = Method(SERVICE, "Measure", MeasureRequest, Measured, CONTROLLER)
ECHO = Method(SERVICE, "Echo", EchoRequest, EchoReply, AGENT)
PIECES = Method(SERVICE, "Pieces", PiecesRequest, Piece, AGENT, streams=True)
