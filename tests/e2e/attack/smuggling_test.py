#!/usr/bin/env python3
"""Requests that two parsers could read differently, over a real socket: the server refuses each, closes the connection,
and serves nothing that follows - for single requests, byte by byte, and in the middle of a pipeline.

    smuggling_test.py RATION

The rows come from tests/unit/codec/http/http_smuggling_test.c: the server must not serve what the parser refuses.
"""
import ast
import os
import re
import socket

import attack_kit as kit
import serve

ROWS_PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "unit", "codec",
                         "http", "http_smuggling_test.c")
POLICY = "limits: [{name: victim, key: user, rate: 1000/s, burst: 1000}]"

# Served only if the server treats the bytes after a bad request as a request.
SMUGGLED = b"GET /v1/check?user=smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
GOOD = b"GET /v1/check?user=good HTTP/1.1\r\nHost: h\r\n\r\n"


def read_rows():
    """[(status, bytes)]: the string literals of the C source, except macros, are valid in Python."""
    with open(ROWS_PATH, encoding="ascii") as file:
        source = file.read()
    macros = {"H": '"Host: h\\r\\n"',
              "CHUNKED": '"POST / HTTP/1.1\\r\\n" "Host: h\\r\\n" "Transfer-Encoding: chunked\\r\\n\\r\\n"'}
    rows = []
    for status, text in re.findall(r"ROW\((\d+),\s*((?:\"(?:[^\"\\]|\\.)*\"|H|CHUNKED|\s)+)\)", source):
        pieces = re.findall(r"\"(?:[^\"\\]|\\.)*\"|CHUNKED|H", text)
        stream = b""
        for piece in pieces:
            for literal in re.findall(r"\"(?:[^\"\\]|\\.)*\"", macros.get(piece, piece)):
                stream += ast.literal_eval("b" + literal.replace("\\0", "\\x00"))
        rows.append((int(status), stream))
    return rows


ROWS = [row for row in read_rows() if row[0] != 0]


def peek_remaining(server, user):
    """The tokens that a user has left; a peek takes none."""
    return server.http("POST", "/v1/peek", {"attributes": {"user": user}})[2]["remaining"]


def check_row(status, answers, before=0):
    serve.expect([answer[0] for answer in answers], [200] * before + [status])
    serve.expect(answers[-1][1].get("connection"), "close")


def each_row(attack):
    assert len(ROWS) > 120, f"only {len(ROWS)} rows were read from {ROWS_PATH}"
    errors = []
    with kit.server(POLICY, ["--manual-clock"]) as server:
        for status, stream in ROWS:
            try:
                attack(server.http_port, status, stream)
            except (AssertionError, ConnectionError, socket.timeout) as error:
                errors.append(f"{stream!r}: {error}")
        serve.expect(peek_remaining(server, "smuggled"), 1000, "what was smuggled took tokens")
        good = peek_remaining(server, "good")
    if errors:
        raise AssertionError(f"{len(errors)} of {len(ROWS)} rows:\n" + "\n".join(errors))
    return 1000 - good


def test_each_form_is_refused_and_the_connection_closed():
    each_row(lambda port, status, stream: check_row(status, kit.ask_http(port, stream + SMUGGLED)))


def test_in_a_pipeline_only_what_came_before_is_served():
    def attack(port, status, stream):
        check_row(status, kit.ask_http(port, GOOD + GOOD + stream + SMUGGLED + SMUGGLED), before=2)

    serve.expect(each_row(attack), 2 * len(ROWS), "tokens that the requests before took")


def test_split_requests_are_refused_too():
    def attack(port, status, stream):
        whole = stream + SMUGGLED
        with kit.connect(port) as connection:
            connection.sendall(whole[:len(stream) // 2])
            connection.sendall(whole[len(stream) // 2:])
            check_row(status, kit.http_answers(serve.read_to_end(connection)))

    each_row(attack)


def test_the_body_of_a_get_is_not_a_request():
    body = SMUGGLED
    head = b"GET /v1/check?user=good HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(body)
    with kit.server(POLICY, ["--manual-clock"]) as server:
        serve.expect([answer[0] for answer in kit.ask_http(server.http_port, head + body)], [200])
        serve.expect(peek_remaining(server, "smuggled"), 1000)


def test_after_the_last_request_nothing_is_served():
    for last in (b"GET /healthz HTTP/1.0\r\n\r\n",
                 b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"):
        with kit.server(POLICY, ["--manual-clock"]) as server:
            serve.expect([answer[0] for answer in kit.ask_http(server.http_port, last + SMUGGLED)], [200])
            serve.expect(peek_remaining(server, "smuggled"), 1000)


def test_a_valid_body_that_looks_like_a_request_is_a_body():
    """The valid counterpart: a body that looks like a request is only a body."""
    body = SMUGGLED
    sent = (b"POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body + GOOD.replace(
                b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with kit.server(POLICY, ["--manual-clock"]) as server:
        serve.expect([answer[0] for answer in kit.ask_http(server.http_port, sent)], [400, 200])
        serve.expect((peek_remaining(server, "smuggled"), peek_remaining(server, "good")), (1000, 999))


serve.run()
