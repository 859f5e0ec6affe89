"""The agent's calls, for both sides; see protocol/agent.proto."""

from __future__ import annotations

from dtfctl.launcher.identity.certificates import Role
from dtfctl.launcher.rpc.method import Method
from dtfctl.protocol import agent_pb2 as pb

SERVICE = "dtf.agent.Agent"
CONTROLLER: frozenset[Role] = frozenset({"controller"})

AGENT: frozenset[Role] = frozenset({"agent"})

APPLY = Method(SERVICE, "Apply", pb.HostOrders, pb.Applied, CONTROLLER)
PUT_SCRIPT = Method(SERVICE, "PutScript", pb.Script, pb.Applied, CONTROLLER)
PUT_BLOB = Method(SERVICE, "PutBlob", pb.BlobPiece, pb.BlobHeld, CONTROLLER)
GET_BLOB = Method(SERVICE, "GetBlob", pb.BlobPiece, pb.BlobPiece, CONTROLLER)
EXAMINE = Method(SERVICE, "Examine", pb.ExamineRequest, pb.Examination, CONTROLLER)
WATCH = Method(SERVICE, "Watch", pb.WatchRequest, pb.Report, CONTROLLER, streams=True)
RENEW = Method(SERVICE, "Renew", pb.RenewRequest, pb.Applied, CONTROLLER)
KEEP = Method(SERVICE, "Keep", pb.KeepRequest, pb.Applied, CONTROLLER)
RECALL = Method(SERVICE, "Recall", pb.RecallRequest, pb.RecallReply, CONTROLLER)
PROBE = Method(SERVICE, "Probe", pb.ProbeRequest, pb.ProbeReply, CONTROLLER)
PROVE_SHARED = Method(SERVICE, "ProveShared", pb.SharedRequest, pb.ProbeReply, CONTROLLER)
READ_LOGS = Method(SERVICE, "ReadLogs", pb.ReadLogsRequest, pb.ReadLogsReply, CONTROLLER)
LIST_FILES = Method(SERVICE, "ListFiles", pb.ListFilesRequest, pb.FileList, AGENT)
READ_FILE = Method(SERVICE, "ReadFile", pb.ReadFileRequest, pb.FilePiece, AGENT)
SHUTDOWN = Method(SERVICE, "Shutdown", pb.ShutdownRequest, pb.Report, CONTROLLER)
CERTIFY = Method(SERVICE, "Certify", pb.CertifyRequest, pb.Certified, CONTROLLER)
EXEC = Method(SERVICE, "Exec", pb.ExecInput, pb.ExecOutput, CONTROLLER, talks=True)
FETCH = Method(SERVICE, "Fetch", pb.FetchRequest, pb.FilePart, CONTROLLER, streams=True)
STORE = Method(SERVICE, "Store", pb.StoreInput, pb.Stored, CONTROLLER, talks=True)
INSPECT = Method(SERVICE, "Inspect", pb.InspectRequest, pb.Inspection, CONTROLLER)
