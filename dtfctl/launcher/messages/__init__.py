"""What the launcher's processes say to each other, each message once: a frozen value that `codec.py` packs.

    controller.py   command line to controller
    agent.py        controller to agent, and agents to each other
    commands.py     commands on hosts, both ways through the controller
    files.py        files and folders, both ways through the controller
    looks.py        what doctor, submit and top ask of hosts, both ways through the controller
    orders.py       what the controller wants of a host
    reports.py      what an agent tells of its host
    *_calls.py      which message is asked for by which call, and by whom
    deltas.py       orders and reports that carry only what changed

A new field needs a default that means what was so without it. A default never changes: it is not sent.
"""
