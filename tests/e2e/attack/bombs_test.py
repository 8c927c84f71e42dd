#!/usr/bin/env python3
"""Announced lengths and endless input: memory grows with the bytes received, never with an announced length, and every
input has a bound at which the client gets an error and the connection is closed.

    bombs_test.py RATION
"""
import json
import re
import time

import attack_kit as kit
import serve

BOMBS = 200  # connections at once, each with the same bomb
GROWN_MAX = 4 * kit.MIB * kit.MEMORY_FACTOR  # for all of them


def grows_little(server, sent, port, stays_open):
    """Checks the memory of all bombs together, while the server waits for the rest (stays_open) or after it has closed."""
    warm = [kit.connect(port) for _ in range(BOMBS)]
    kit.close_all(warm)
    kit.wait_until(lambda: kit.metrics(server)["ration_connections"] == 1, "warm connections closed")
    before = kit.memory_bytes(server)
    received = kit.metrics(server)["ration_received_bytes_total"]
    bombs = [kit.connect(port) for _ in range(BOMBS)]
    for bomb in bombs:
        bomb.sendall(sent)
    kit.wait_until(lambda: kit.metrics(server)["ration_received_bytes_total"] - received
                   >= BOMBS * len(sent), "all bombs received")
    if stays_open:
        serve.expect(kit.metrics(server)["ration_connections"], BOMBS + 1, "connections that wait")
    else:
        for bomb in bombs:
            serve.read_to_end(bomb)
    grown = kit.memory_bytes(server) - before
    kit.close_all(bombs)
    if grown > GROWN_MAX:
        raise AssertionError(f"{sent[:60]!r}: {grown >> 10} KiB more for {BOMBS} bombs")


def test_resp_lengths_cost_no_memory():
    with kit.server(options=["--threads", "1"]) as server:
        for sent, stays_open in ((b"*1024\r\n", True), (b"*2\r\n$4\r\nECHO\r\n$65536\r\n", True),
                              (b"*1000000000\r\n", False), (b"*2\r\n$536870912\r\n", False),
                              (b"*1\r\n$1073741824\r\n", False), (b"*9223372036854775807\r\n", False)):
            grows_little(server, sent, server.resp_port, stays_open)


def test_resp_errors_are_reported_then_closed():
    rows = ((b"*1000000000\r\n", "invalid multibulk length"),
            (b"*1025\r\n", "invalid multibulk length"),
            (b"*99999999999999999999999\r\n", "invalid multibulk length"),
            (b"*2\r\n$536870912\r\n", "invalid bulk length"),
            (b"*1\r\n$-2\r\n", "invalid bulk length"),
            (b"*1\r\n*1\r\n" * 50, "expected '$', got '*'"),
            (b"PING " + b"a " * 40000, "too big inline request"),
            (b"a" * 70000, "too big inline request"),
            (b'PING "' + b"\\\\" * 20 + b"\r\n", "unbalanced quotes in request"),
            (b"*1\r\n$4\r\nPINGxx", "expected CRLF behind bulk"))
    with kit.server() as server:
        for sent, reason in rows:
            got = server.raw(server.resp_port, b"PING\r\n" + sent + b"\r\nPING\r\n")
            serve.expect(got, b"+PONG\r\n-ERR Protocol error: %s\r\n" % reason.encode(), sent[:40])


def test_a_request_of_many_arguments_is_bounded_as_a_whole():
    part = b"$60000\r\n" + b"a" * 60000 + b"\r\n"
    with kit.server(options=["--threads", "1", "--linger-timeout", "200ms"]) as server:
        before = kit.memory_bytes(server)
        with kit.connect(server.resp_port) as connection:
            connection.sendall(b"*1024\r\n")
            sent = 0
            try:
                while sent < 64 * kit.MIB:  # would be 61 MB
                    connection.sendall(part)
                    sent += len(part)
            except ConnectionError:
                pass
            try:
                answer = serve.read_to_end(connection)
            except ConnectionError:
                answer = b""
        assert sent < 16 * kit.MIB, f"{sent} bytes were taken"
        assert answer in (b"", b"-ERR Protocol error: too big request\r\n"), answer[:100]
        grown = kit.memory_bytes(server) - before
        assert grown < 8 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"


def test_http_lengths_cost_no_memory():
    head = b"POST /v1/check HTTP/1.1\r\nHost: h\r\n"
    with kit.server(options=["--threads", "1"]) as server:
        for sent, stays_open in ((head + b"Content-Length: 1048576\r\n\r\n", True),
                              (head + b"Transfer-Encoding: chunked\r\n\r\n100000\r\n", True),
                              (head + b"Content-Length: 1073741824\r\n\r\n", False),
                              (head + b"Content-Length: 999999999999999\r\n\r\n", False)):
            grows_little(server, sent, server.http_port, stays_open)


def endless(server, begin, more, most):
    """The responses to an endless input; fails if the server accepted more than most bytes."""
    sent = 0
    with kit.connect(server.http_port) as connection:
        connection.sendall(begin)
        try:
            while sent < 4 * most:
                connection.sendall(more)
                sent += len(more)
        except ConnectionError:
            pass
        try:
            answers = kit.http_answers(serve.read_to_end(connection))
        except ConnectionError:  # the server reset the connection while data arrived; the response may be lost
            answers = []
    # the kernels on both sides buffer more than the server reads
    assert sent < most + 16 * kit.MIB, f"{sent} bytes were taken"
    return [answer[0] for answer in answers]


def test_endless_http_is_bounded():
    post = b"POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
    chunked = post + b"Transfer-Encoding: chunked\r\n\r\n"
    rows = (("headers", post, b"A: b\r\n" * 1000, 431),
            ("one header", post + b"A: ", b"b" * 10000, 431),
            ("path", b"GET /", b"a" * 10000, 414),
            ("chunk extensions", chunked, b"1;a=b\r\nx\r\n" * 1000, 413),
            ("one chunk extension", chunked + b"1;", b"a" * 10000, 400),
            ("chunks of one byte", chunked, b"1\r\nx\r\n" * 1000, 413),
            ("trailers", chunked + b"0\r\n", b"A: b\r\n" * 1000, 413),
            ("chunks", chunked, b"2710\r\n" + b"x" * 10000 + b"\r\n", 413))
    with kit.server(options=["--threads", "1", "--linger-timeout", "200ms"]) as server:
        before = kit.memory_bytes(server)
        for what, begin, more, status in rows:
            got = endless(server, begin, more, 4 * kit.MIB)
            assert got in ([], [status]), f"{what}: {got}"
        # Once more, without flooding: now the response must arrive.
        for what, begin, more, status in rows:
            size = 0x20000 if b"chunked" in begin else 0x4800
            if what == "chunks":
                size = 0x110000
            some = begin + more * (size // len(more) + 1)
            got = [answer[0] for answer in kit.ask_http(server.http_port, some)]
            assert got == [status], f"{what}: {got}"
        grown = kit.memory_bytes(server) - before
        assert grown < 8 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"


def test_ten_thousand_headers():
    for count, status in ((10000, 431), (65, 431), (60, 200)):
        sent = (b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n" +
                b"".join(b"A%d: b\r\n" % number for number in range(count)) + b"\r\n")
        with kit.server() as server:
            got = [answer[0] for answer in kit.ask_http(server.http_port, sent)]
            assert got == [status], f"{count}: {got}"


def test_json_bombs():
    bodies = (b"[" * 100000, b'{"a":' * 100000, b"{" + b'"attributes":{"a":"b"},' * 10000,
              json.dumps({"checks": [{"attributes": {}}] * 1001}).encode(),
              json.dumps({"attributes": {f"a{number}": "b" for number in range(65)}}).encode(),
              b'{"key":"a","limit":"' + b"9" * 100000 + b'"}', b'{"attributes":{"a":1e999}}',
              b'{"attributes":{"a":' + b"9" * 100000 + b"}}", b"\xff\xfe", b"\x00" * 1000, b"")
    with kit.server(options=["--threads", "1"]) as server:
        before = kit.memory_bytes(server)
        for body in bodies * 3:
            status, _, problem = server.http("POST", "/v1/check", body,
                                             {"Content-Type": "application/json"})
            serve.expect(status, 400, body[:40])
            assert len(problem["detail"]) < 1000, f"{len(problem['detail'])} bytes of detail"
        grown = kit.memory_bytes(server) - before
        assert grown < 16 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"


def never_read(server, port, request):
    """Pipelines requests and reads nothing until the server closes."""
    connection = kit.connect(port, receive_bytes=4096)
    batch = request * (65536 // len(request))
    sent = 0
    grown = 0
    before = kit.memory_bytes(server)

    def is_closed():
        nonlocal sent, grown
        for _ in range(16):
            taken = kit.send_some(connection, batch[sent % len(request):])
            sent += taken
            if not taken:
                break
        grown = max(grown, kit.memory_bytes(server) - before)
        return kit.metrics(server)["ration_connections"] == 1

    try:
        kit.wait_until(is_closed, "a client that never reads is closed")
    finally:
        connection.close()
    bound = (4 + 1 + 2) * kit.MIB * kit.MEMORY_FACTOR
    assert grown < bound, f"{grown} bytes more, {sent} sent"


def test_a_client_that_never_reads():
    """It uses memory up to max-output and is closed by the write timeout; another client continues."""
    with kit.server(options=["--threads", "1", "--write-timeout", "300ms",
                             "--max-output", str(2 * kit.MIB)]) as server:
        for port, request in ((server.resp_port, b"PING\r\n"),
                              (server.resp_port, b"ECHO " + b"a" * 30000 + b"\r\n"),
                              (server.resp_port, b"COMMAND\r\n"),
                              (server.resp_port, b"CL.THROTTLE k 1 1 1\r\n"),
                              (server.http_port, b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"),
                              (server.http_port, b"GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n")):
            already = kit.ended(server, "write_timeout") + kit.ended(server, "max_output")
            never_read(server, port, request)
            closed = kit.ended(server, "write_timeout") + kit.ended(server, "max_output")
            serve.expect(closed, already + 1, f"closed for not reading {request[:20]!r}")
            serve.expect(server.http("GET", "/healthz")[0], 200)


def test_other_clients_are_served_while_one_never_reads():
    with kit.server(options=["--threads", "1", "--write-timeout", "20s"]) as server:
        stuck = kit.connect(server.resp_port, receive_bytes=4096)
        while kit.send_some(stuck, b"ECHO " + b"a" * 30000 + b"\r\n"):
            pass
        beside = server.resp()
        for _ in range(1000):
            serve.expect(beside.ask("PING"), "PONG")
        stuck.close()


def test_a_client_that_never_reads_costs_no_processor_time():
    """The server waits for the client without polling it."""
    with kit.server(options=["--threads", "1", "--write-timeout", "20s"]) as server:
        for port, request in ((server.resp_port, b"COMMAND\r\n"), (server.resp_port, b"PING\r\n"),
                              (server.http_port, b"GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")):
            stuck = kit.connect(port, receive_bytes=4096)
            batch = request * (65536 // len(request))
            sent = 0

            def is_stuck():
                nonlocal sent
                before, began = kit.cpu_seconds(server), sent
                taken = 1
                while taken:
                    taken = kit.send_some(stuck, batch[sent % len(request):])
                    sent += taken
                time.sleep(0.2)
                return sent == began and kit.cpu_seconds(server) - before <= 0.03

            kit.wait_until(is_stuck, f"it waits for the client that does not read {request[:20]!r}", seconds=10)
            stuck.close()


def test_problems_do_not_echo_without_bound():
    """Text of the client in an error is bounded, and harmless to a terminal or a log."""
    with kit.server() as server:
        client = server.resp()
        answer = client.ask(b"\x1b[31m\r\n" + b"X" * 60000, b"\x00" * 1000, b"\r\n-ERR other")
        assert isinstance(answer, serve.RespError) and len(answer.text) < 600, len(answer.text)
        assert not re.search(r"[\x00-\x1f]", answer.text), answer.text
        serve.expect(client.ask("PING"), "PONG")


serve.run()
