"""Why a job waits, in Slurm's word for it, and what its owner can do where waiting alone will not help."""

from __future__ import annotations

LIMIT = "yours are said by: sacctmgr show assoc user=$USER format=account,qos,grptres,maxjobs,maxtres"
ADVICE = {
    "Assoc": f"a limit of your account is reached; {LIMIT}",
    "QOS": "a limit of the QOS is reached; `slurm: {qos: NAME}` names another; they are said by: sacctmgr show qos",
    "InvalidAccount": f"Slurm knows no such account: `slurm: {{account: NAME}}`; {LIMIT}",
    "InvalidQOS": f"Slurm knows no such QOS: `slurm: {{qos: NAME}}`; {LIMIT}",
    "PartitionTimeLimit": "the partition allows less: `slurm: {time: 1h}`; limits are said by: sinfo -o '%P %l'",
    "PartitionNodeLimit": "the partition has fewer nodes: `slurm: {nodes: 2}`; what there is says: sinfo",
    "PartitionConfig": "the partition has no such nodes; what there is says: sinfo -N -l",
    "PartitionDown": "the partition is closed: `slurm: {partition: NAME}`; what there is says: sinfo",
    "PartitionInactive": "the partition is closed: `slurm: {partition: NAME}`; what there is says: sinfo",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved; why says: sinfo -R",
    "Nodes required for job": "why says: sinfo -R",
    "BadConstraints": "no node has all that is asked for: change `slurm`; what there is says: sinfo -N -l",
    "DependencyNeverSatisfied": "it waits for a job that has failed: change `slurm: {extra: [--dependency=...]}`",
    "Reservation": "the reservation has not begun, or is not yours; what there is says: scontrol show reservation",
    "JobHeldUser": "it was held; let it go: scontrol release JOB",
    "JobHeldAdmin": "an administrator of the Slurm cluster holds it: ask there",
    "JobHoldMaxRequeue": "it was requeued too often; let it go: scontrol release JOB",
    "launch failed": "it could not be begun on its nodes, and is held; let it go: scontrol release JOB",
    "Licenses": "its licenses are in use; they are said by: scontrol show licenses",
}
"""What to do, by how the word begins."""


def explained(reason: str, job: str) -> str:
    """Add what can be done; nothing where it is only to wait (Resources, Priority, BeginTime).

    >>> explained("JobHeldUser", "17")
    'JobHeldUser: it was held; let it go: scontrol release 17'
    >>> explained("Resources", "17")
    'Resources'
    """
    for begin, advice in ADVICE.items():
        if reason.startswith(begin):
            return f"{reason}: {advice.replace('JOB', job)}"
    return reason
