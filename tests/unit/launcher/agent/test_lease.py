"""What an agent takes for a sign of its controller: the open stream of reports before an answer to a knock."""

from __future__ import annotations

import socket
import ssl

import pytest

from dtfctl.launcher.agent.lease import is_forwarded, stream_says
from dtfctl.net.tls_socket import Echo, TlsSocket
from tests.support.waiting import eventually


def test_an_end_that_takes_what_is_sent_is_there_and_one_that_is_not_told_anything_is_not_known() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as near:
        far, _ = door.accept()
        with far:
            tls = TlsSocket(near, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), "x")
            near.sendall(b"x")
            fresh = tls.echo()
            assert fresh.repeats == 0
            assert stream_says(fresh, 3600.0) is True
            eventually(lambda: tls.echo().silence_s >= fresh.silence_s + 0.1)
            assert stream_says(Echo(0, 2.5), 3600.0) is None
        tls.close()
        assert stream_says(tls.echo(), 3600.0) is None


@pytest.mark.parametrize("lease_s", [0.5, 15.0, 3600.0])
def test_what_is_repeated_without_an_answer_says_that_the_host_is_cut_off(lease_s: float) -> None:
    assert stream_says(Echo(3, 0.1), lease_s) is False
    assert stream_says(Echo(1, 0.1), lease_s) is None
    assert stream_says(None, lease_s) is None


def test_a_short_lease_believes_no_older_answer_than_a_quarter_of_it() -> None:
    assert stream_says(Echo(0, 0.9), 2.0) is None
    assert stream_says(Echo(0, 0.4), 2.0) is True


def test_what_comes_from_this_host_itself_is_forwarded() -> None:
    assert is_forwarded("127.0.0.1:7", "10.0.0.7")
    assert is_forwarded("[fd00::7]:7", "fd00::7")
    assert not is_forwarded("10.0.0.2:7", "10.0.0.7")
