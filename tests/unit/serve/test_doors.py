"""Who is let in where a model is served: by certificates on the network, and bodies that are packed."""

from __future__ import annotations

import gzip
import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

from dtfctl.launcher.identity.certificates import Authority, TlsFiles, ensure_authority, ensure_certificate
from dtfctl.protocol import serving_pb2 as messages
from dtfctl.runtime.framework.tensor_codec import decode_tensor, encode_tensor
from dtfctl.serve import web
from dtfctl.serve.calls import PREDICTION
from dtfctl.serve.door import Door, identity_of
from tests.unit.serve.test_served import TOKEN, Served, serving, write

NAME = "serve.lab.dtfctl"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    ensure_authority(folder / "own", "lab")
    ensure_certificate(folder / "own", "lab", "serve-client")
    ensure_authority(folder / "other", "lab")
    ensure_certificate(folder / "other", "lab", "serve-client")
    return folder


@pytest.fixture(scope="module")
def served(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    own = certificates / "own"
    made = Authority(own, "lab").issue("serve")
    text = json.dumps({"ca": (own / "ca.pem").read_text(), "cert": made.cert.decode(), "key": made.key.decode()})
    model = write(tmp_path_factory.mktemp("models") / "m", 2.0)
    with serving(model, door=Door("0.0.0.0", identity=identity_of(text))) as found:
        yield found


def ask(served: Served, context: ssl.SSLContext) -> Any:
    connection = http.client.HTTPSConnection("127.0.0.1", served.rest, timeout=60, context=context)
    try:
        connection.request("POST", "/v1/models/m:predict", '{"instances": [[1, 2]]}')
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_who_has_a_certificate_for_clients_of_models_is_answered_without_a_token(
    served: Served, certificates: Path
) -> None:
    files = TlsFiles.of(certificates / "own", "serve-client")
    assert ask(served, files.identity().client_context()) == {"predictions": [[2.0, 4.0]]}
    credentials = grpc.ssl_channel_credentials(*(path.read_bytes() for path in (files.ca, files.key, files.cert)))
    request = messages.PredictRequest(model_spec=messages.ModelSpec(name="m"))
    request.inputs["x"].CopyFrom(encode_tensor(np.array([[1, 2]], np.float32)))
    options = (("grpc.ssl_target_name_override", NAME),)
    with grpc.secure_channel(f"127.0.0.1:{served.grpc}", credentials, options) as channel:
        method = channel.unary_unary(
            f"/{PREDICTION}/Predict", messages.PredictRequest.SerializeToString, messages.PredictResponse.FromString
        )
        assert decode_tensor(method(request, timeout=60).outputs["y"]).tolist() == [[2, 4]]


def test_nobody_else_is_answered(served: Served, certificates: Path) -> None:
    own = certificates / "own"
    nobody = ssl.create_default_context(cafile=own / "ca.pem")
    other = TlsFiles.of(certificates / "other", "serve-client")
    stranger = ssl.create_default_context(cafile=own / "ca.pem")
    stranger.load_cert_chain(other.cert, other.key)
    for context in (nobody, stranger, other.identity().client_context()):
        with pytest.raises(OSError):
            ask(served, context)
    plain = http.client.HTTPConnection("127.0.0.1", served.rest, timeout=60)
    with pytest.raises((OSError, http.client.HTTPException)):
        plain.request("GET", "/healthz", headers={"Authorization": f"Bearer {TOKEN}"})
        plain.getresponse()
    plain.close()
    for credentials in (
        None,
        grpc.ssl_channel_credentials((own / "ca.pem").read_bytes()),
        grpc.ssl_channel_credentials((own / "ca.pem").read_bytes(), other.key.read_bytes(), other.cert.read_bytes()),
    ):
        address, options = f"127.0.0.1:{served.grpc}", (("grpc.ssl_target_name_override", NAME),)
        made = grpc.secure_channel(address, credentials, options) if credentials else grpc.insecure_channel(address)
        with made as channel, pytest.raises(grpc.RpcError) as error:
            channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=60)
        assert error.value.code() is grpc.StatusCode.UNAVAILABLE


def test_packed_bodies_are_read_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "MOST_BODY", 1 << 16)
    body = b'{"instances": [[1, 2]]}'
    with serving(write(tmp_path / "m", 2.0)) as served:

        def send(content: bytes, coding: str) -> tuple[int, Any]:
            connection = http.client.HTTPConnection("127.0.0.1", served.rest, timeout=60)
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Encoding": coding}
            connection.request("POST", "/v1/models/m:predict", content, headers)
            reply = connection.getresponse()
            found = json.loads(reply.read())
            connection.close()
            return reply.status, found

        assert send(gzip.compress(body), "gzip") == (200, {"predictions": [[2.0, 4.0]]})
        assert send(body, "identity")[0] == 200
        for content in (b"", body, gzip.compress(body)[:-3], gzip.compress(body) + b"x"):
            assert send(content, "gzip")[0] == 400
        assert send(gzip.compress(b" " * (1 << 20)), "gzip")[0] == 413
        assert send(body, "br")[0] == 415
