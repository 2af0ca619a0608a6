# SPDX-License-Identifier: BSD-2-Clause
"""
A strict receiver of profiles, for the published protocols of Pyroscope (api/push/v1/push.proto) and Parca
(parca/profilestore/v1alpha1/profilestore.proto): rejects unknown members and requires those that the protocols require.
"""
import base64
import gzip
import http.server
import json
import re
import ssl
import threading
import uuid

PATHS = {"pyroscope": "/push.v1.PusherService/Push", "parca": "/api/profiles/writeraw"}


class Invalid(Exception):
    pass


def members(value, *names):
    """Returns the members of a message, after checking that it has exactly these members."""
    if not isinstance(value, dict) or sorted(value) != sorted(names):
        raise Invalid(f"{value if not isinstance(value, dict) else sorted(value)} instead of {names}")
    return [value[name] for name in names]


def one(values):
    if not isinstance(values, list) or len(values) != 1:
        raise Invalid("not one element")
    return values[0]


def labels_of(pairs):
    labels = {}
    for pair in pairs:
        name, value = members(pair, "name", "value")
        if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", name) or not value or len(value.encode()) > 2048 or name in labels:
            raise Invalid(f"label {name!r}: {value!r}")
        labels[name] = value
    if not {"__name__", "service_name"} <= set(labels) or len(labels) > 30:
        raise Invalid(f"labels {labels}")
    return labels


class Push:
    """The content of one request."""

    def __init__(self, engine, body):
        if engine == "pyroscope":
            (series,) = members(json.loads(body), "series")
            pairs, samples = members(one(series), "labels", "samples")
            raw, self.id = members(one(samples), "rawProfile", "ID")
            if uuid.UUID(self.id).version != 4 or str(uuid.UUID(self.id)) != self.id:
                raise Invalid("ID")
        else:
            series, normalized = members(json.loads(body), "series", "normalized")
            labels, samples = members(one(series), "labels", "samples")
            (pairs,) = members(labels, "labels")
            (raw,) = members(one(samples), "rawProfile")
            if normalized is not True:
                raise Invalid("normalized")
        self.labels = labels_of(pairs)
        self.profile = base64.b64decode(raw, validate=True)
        gzip.decompress(self.profile)


class Engine:
    """
    Engine("parca") serves until its `with` block ends. Each request uses up one of `answers`: a status with headers and
    body, or a function of the handler. When no answers remain, the engine accepts valid requests.
    """

    def __init__(self, kind, authorization=None, certificate=None, port=0):
        self.kind, self.authorization, self.path = kind, authorization, PATHS[kind]
        self.pushes, self.answers, self.requests, self.faults = [], [], [], []
        engine = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # send the answer as one packet: a second packet would wait for an acknowledgement

            def do_POST(self):
                engine.serve(self)

            def do_CONNECT(self):
                """Answers as a proxy that refuses a tunnel."""
                engine.requests.append((f"CONNECT {self.path}", dict(self.headers)))
                reply(self, 502, {}, b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.port = self.server.server_address[1]
        self.to = f"{kind}={'https' if certificate else 'http'}://localhost:{self.port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def serve(self, handler):
        self.requests.append((handler.path, dict(handler.headers)))
        if self.answers:
            answer = self.answers.pop(0)
            if callable(answer):
                answer(handler)
                return
            status, headers, text = answer
            handler.rfile.read(int(handler.headers["Content-Length"]))
        else:
            status, headers, text = self.accept(handler)
        reply(handler, status, headers, text)

    def accept(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        if self.authorization and handler.headers["Authorization"] != self.authorization:
            return 401, {}, b""
        try:
            if handler.path != self.path or handler.headers["Content-Type"] != "application/json":
                raise Invalid(f"{handler.path} {handler.headers['Content-Type']}")
            self.pushes.append(Push(self.kind, body))
        except (Invalid, ValueError) as fault:
            self.faults.append(repr(fault))
            return 400, {}, b"{}"
        return 200, {"Content-Type": "application/json"}, b"{}"


def reply(handler, status, headers, text):
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(text)))
    handler.end_headers()
    handler.wfile.write(text)
