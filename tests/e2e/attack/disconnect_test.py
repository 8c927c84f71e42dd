#!/usr/bin/env python3
"""Clients that leave in every way there is: half-open, reset, silent, at once, and by the thousand.

    disconnect_test.py RATION
"""
import socket

import attack_kit as kit
import serve

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
LEAVERS = 10000


def is_quiet(server):
    return kit.metrics(server)["ration_connections"] == 1


def test_a_client_that_only_stops_sending_gets_its_answers():
    """shutdown(SHUT_WR) behind a request, or many: all are answered, then the server closes."""
    with kit.server() as server:
        serve.expect(server.raw(server.resp_port, b"PING\r\n" * 20000, is_ended=True),
                     b"+PONG\r\n" * 20000)
        answers = kit.ask_http(server.http_port, HEALTH * 2000, is_ended=True)
        serve.expect([answer[0] for answer in answers], [200] * 2000)


def test_answers_that_wait_are_sent_to_one_who_stopped_sending():
    """Of every amount: more than the systems in between keep, a little more, and less."""
    with kit.server(options=["--threads", "1"]) as server:
        one = server.raw(server.resp_port, b"COMMAND\r\n", is_ended=True)
        most = 4 * kit.MIB // len(one)
        counts = range(most // 4, most, most // 40)
        clients = [kit.connect(server.resp_port, receive_bytes=4096) for _ in counts]
        for client, count in zip(clients, counts):
            client.sendall(b"COMMAND\r\n" * count)
            client.shutdown(socket.SHUT_WR)
        sent = 0
        while sent < kit.metrics(server)["ration_sent_bytes_total"] - 100000:
            sent = kit.metrics(server)["ration_sent_bytes_total"]
        for client, count in zip(clients, counts):
            serve.expect(len(serve.read_to_end(client)), count * len(one), f"bytes of {count} answers")
            client.close()


def test_half_a_request_and_the_end():
    """Nothing is decided and nothing is said: there is nobody to wait for."""
    policy = "limits: [{name: a, key: user, rate: 1/s, burst: 10}]"
    with kit.server(policy, ["--manual-clock"]) as server:
        for half in (b"*3\r\n$12\r\nRATION.CHECK\r\n$4\r\nuser\r\n$1\r\n", b"RATION.CHECK user x"):
            serve.expect(server.raw(server.resp_port, half, is_ended=True), b"")
        body = b'{"attributes":{"user":"x"}}'
        for half in (b"GET /v1/check?user=x HTTP/1.1\r\nHost: h\r\n",
                     b"POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
                     b"Content-Length: %d\r\n\r\n" % (len(body) + 1) + body):
            serve.expect(server.raw(server.http_port, half, is_ended=True), b"")
        left = server.http("POST", "/v1/peek", {"attributes": {"user": "x"}})[2]["remaining"]
        serve.expect(left, 10, "tokens left")
        kit.wait_until(lambda: is_quiet(server), "all are gone")


def test_reset_in_the_middle_of_an_answer():
    with kit.server(options=["--threads", "1"]) as server:
        before = kit.file_count(server)
        for port, request in ((server.http_port, b"GET /openapi.yaml HTTP/1.1\r\nHost: h\r\n\r\n" * 200),
                              (server.resp_port, b"COMMAND\r\n" * 500)):
            for _ in range(50):
                connection = kit.connect(port, receive_bytes=4096)
                connection.sendall(request)
                connection.recv(100)
                kit.reset(connection)
        kit.wait_until(lambda: is_quiet(server), "all are gone")
        kit.wait_until(lambda: kit.file_count(server) <= before + 1, "files are given back")
        assert kit.ended(server, "reset") > 0
        serve.expect(server.resp().ask("PING"), "PONG")


def test_reset_at_once():
    """Before the server has accepted, or just after."""
    with kit.server(options=["--threads", "2"]) as server:
        for _ in range(500):
            kit.reset(kit.connect(server.resp_port))
            connection = kit.connect(server.http_port)
            connection.sendall(HEALTH[:10])
            kit.reset(connection)
        kit.wait_until(lambda: is_quiet(server), "all are gone")


def test_connect_and_leave():
    with kit.server(options=["--threads", "1"]) as server:
        for _ in range(LEAVERS // 10):
            kit.connect(server.resp_port).close()
        kit.wait_until(lambda: is_quiet(server), "the first are gone")
        before, files = kit.memory_bytes(server), kit.file_count(server)
        for number in range(LEAVERS):
            connection = socket.create_connection(
                ("127.0.0.1", server.resp_port if number % 2 else server.http_port))
            if number % 3 == 0:
                connection.send(b"GET")
            if number % 2:
                kit.reset(connection)  # leaves no TIME_WAIT behind for thousands of ports
            else:
                connection.close()
        kit.wait_until(lambda: is_quiet(server), "all are gone")
        grown = kit.memory_bytes(server) - before
        assert grown < 2 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"
        assert kit.file_count(server) <= files + 1, "files are lost"


def test_half_open_connections_are_forgotten_at_their_deadline():
    """Peers that never speak again, as after a crash or a cable that was pulled."""
    options = ["--threads", "1", "--resp-idle-timeout", "200ms", "--http-idle-timeout", "200ms"]
    with kit.server(options=options) as server:
        silent = [kit.connect(port) for port in (server.http_port, server.resp_port) * 50]
        kit.wait_until(lambda: is_quiet(server), "the silent are closed")
        kit.close_all(silent)


serve.run()
