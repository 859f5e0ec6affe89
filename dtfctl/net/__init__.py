"""Sockets as launcher and runtime both use them: who may come in, whose process it is, how many may wait.

A process that listens does so through `listener.py`, or has a `gate.py` before it.

    owner.py         whose process is at the other end of a connection within this machine
    admission.py     how many may wait at a door before they have said who they are, and who goes first
    listener.py      takes connections at any number of sockets, by those rules
    gate.py          a listener before a server that takes connections by itself, as gRPC's does
    frames.py        byte streams back into frames, their lengths checked before there is memory for them
    pings.py         whether the other end of a connection still lives
    reasons.py       why a connection has ended, in words
    tls_socket.py    TLS on a socket that one thread reads while others write
    records.py       encrypted records, for what is long
    tls.py           who this process is in TLS, and whom it lets in
    unix.py          unix sockets at paths of any length
    keepalive.py     connections on which nothing is said, and whose other end is gone
    address.py       connect to where a process says that it is called
    descriptors.py   how many files a process may have open
"""
