"""Calls between the launcher's processes: command line, controller, agents. Mutual TLS, and messages in frames.

A call has a connection to itself, which the next one uses again; streams keep theirs until they end. So there is one
call on a wire at a time, an answer needs no number, and a slow reader holds up its own stream alone. Tasks, whose
protocol is TensorFlow's, talk gRPC; an agent would spend half of its start on importing that.

    method.py       what can be called, and by whom
    connection.py   frames of messages over TLS, and whether the other end lives
    server.py       serves handlers
    client.py       calls
"""
