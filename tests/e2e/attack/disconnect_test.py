#!/usr/bin/env python3
"""Clients that disconnect in every way: half-open, with a reset, silently, immediately, and by the thousand.

    disconnect_test.py RATION
"""
import socket

import attack_kit as kit
import serve

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
LEAVERS = 10000


def is_quiet(server):
    return kit.metrics(server)["ration_connections"] == 1


def test_a_client_that_only_stops_sending_gets_its_replies():
    """shutdown(SHUT_WR) after one or many requests: the server answers all of them, then closes."""
    with kit.server() as server:
        serve.expect(server.raw(server.resp_port, b"PING\r\n" * 20000, is_ended=True),
                     b"+PONG\r\n" * 20000)
        answers = kit.ask_http(server.http_port, HEALTH * 2000, is_ended=True)
        serve.expect([answer[0] for answer in answers], [200] * 2000)


def test_buffered_replies_are_sent_to_a_client_that_stopped_sending():
    """In different amounts: less than the kernel buffers, a little more, and much more."""
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


def test_half_a_request_gets_no_reply():
    """The server decides nothing and sends nothing, because the client has closed."""
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


def test_reset_in_the_middle_of_a_reply():
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
        kit.wait_until(lambda: kit.file_count(server) <= before + 1, "file descriptors are closed")
        assert kit.ended(server, "reset") > 0
        serve.expect(server.resp().ask("PING"), "PONG")


def test_reset_immediately():
    """Before the server has accepted the connection, or just after."""
    with kit.server(options=["--threads", "2"]) as server:
        for _ in range(500):
            kit.reset(kit.connect(server.resp_port))
            connection = kit.connect(server.http_port)
            connection.sendall(HEALTH[:10])
            kit.reset(connection)
        kit.wait_until(lambda: is_quiet(server), "all are gone")


def test_connect_and_disconnect():
    with kit.server(options=["--threads", "1"]) as server:
        for _ in range(LEAVERS // 10):
            kit.connect(server.resp_port).close()
        kit.wait_until(lambda: is_quiet(server), "the first connections are closed")
        before, files = kit.memory_bytes(server), kit.file_count(server)
        for number in range(LEAVERS):
            connection = socket.create_connection(
                ("127.0.0.1", server.resp_port if number % 2 else server.http_port))
            if number % 3 == 0:
                connection.send(b"GET")
            if number % 2:
                kit.reset(connection)  # so that thousands of ports are not left in TIME_WAIT
            else:
                connection.close()
        kit.wait_until(lambda: is_quiet(server), "all are gone")
        grown = kit.memory_bytes(server) - before
        assert grown < 2 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more"
        assert kit.file_count(server) <= files + 1, "file descriptors leak"


def test_half_open_connections_are_closed_at_their_timeout():
    """Peers that never send again, as after a crash or with a cable unplugged."""
    options = ["--threads", "1", "--resp-idle-timeout", "200ms", "--http-idle-timeout", "200ms"]
    with kit.server(options=options) as server:
        silent = [kit.connect(port) for port in (server.http_port, server.resp_port) * 50]
        kit.wait_until(lambda: is_quiet(server), "the silent connections are closed")
        kit.close_all(silent)


serve.run()
