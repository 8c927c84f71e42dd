#!/usr/bin/env python3
"""No file descriptors left, and more clients than allowed: the server does not spin, reports the refused clients, and
recovers.

    files_test.py RATION
"""
import resource
import socket
import time

import attack_kit as kit
import serve

CROWD = 200
CPU_SECONDS_MAX = 0.25 * (8 if kit.IS_SANITIZED else 1)


def limit_files(server, more):
    """Lets the server open only so many more files than it has open."""
    count = kit.file_count(server)
    hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (count + more, hard))


def healthy(server):
    return server.http("GET", "/healthz")[0] == 200


def is_healthy(server):
    try:
        return healthy(server)
    except OSError:
        return False
    except Exception as error:  # http.client reports a closed connection in several ways
        if type(error).__module__ == "http.client":
            return False
        raise


def exhaust(threads, is_fast=False):
    with kit.server(options=["--threads", str(threads)]) as server:
        assert healthy(server)
        limit_files(server, 10)
        cpu = kit.cpu_seconds(server)
        crowd = [kit.connect(server.http_port) for _ in range(CROWD)]
        # Accepted clients are served; the others are closed instead of left waiting.
        served = closed = 0
        for connection in crowd:
            try:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n")
                answer = connection.recv(4096)
            except ConnectionError:
                answer = b""
            served += answer.startswith(b"HTTP/1.1 200")
            closed += answer == b""
        serve.expect((served + closed, served > 0, closed > 0), (CROWD, True, True),
                     f"{served} served, {closed} closed")
        if not is_fast:  # while the connections are idle the server must sleep, too
            still = kit.cpu_seconds(server)
            time.sleep(0.5)
            spent = kit.cpu_seconds(server) - still
            assert spent < CPU_SECONDS_MAX / 2, f"{spent} s of CPU in half a second of waiting"
        kit.close_all(crowd)
        kit.wait_until(lambda: is_healthy(server), "it answers again")
        assert kit.metrics(server)['ration_connections_closed_total{reason="files"}'] > 0
        spent = kit.cpu_seconds(server) - cpu
        assert spent < 4 * CPU_SECONDS_MAX, f"{spent} s of CPU in all"


def test_no_files_left():
    exhaust(1)


def test_no_files_left_with_two_loops():
    """One loop must not take the descriptor that the other loop frees: the clients of that loop would wait for ever."""
    for _ in range(8):  # it is a race
        exhaust(2, is_fast=True)


def test_no_files_at_all():
    """Not even the spare descriptor can be reopened: the server stops accepting, and resumes when a descriptor is free."""
    with kit.server(options=["--threads", "1"]) as server:
        assert healthy(server)
        soft, hard = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, hard))
        crowd = [kit.connect(server.resp_port) for _ in range(50)]
        still = kit.cpu_seconds(server)
        time.sleep(0.5)
        spent = kit.cpu_seconds(server) - still
        assert spent < CPU_SECONDS_MAX, f"{spent} s of CPU in half a second"
        kit.close_all(crowd)
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        kit.wait_until(lambda: is_healthy(server), "it answers again")


def test_files_are_closed():
    with kit.server(options=["--threads", "2"]) as server:
        assert healthy(server)
        before = kit.file_count(server)
        for _ in range(3):
            crowd = [kit.connect(server.resp_port) for _ in range(300)]
            kit.wait_until(lambda: kit.file_count(server) >= before + 299, "all are accepted")
            kit.close_all(crowd)
            kit.wait_until(lambda: kit.file_count(server) <= before + 1, "file descriptors are closed")


def test_clients_above_connections_max_get_an_error():
    with kit.server(options=["--threads", "2", "--max-connections", "10"]) as server:
        crowd = [kit.connect(server.resp_port) for _ in range(10)]
        for connection in crowd:
            connection.sendall(b"PING\r\n")
            serve.expect(connection.recv(100), b"+PONG\r\n")
        for _ in range(20):
            with kit.connect(server.resp_port) as connection:
                serve.expect(serve.read_to_end(connection), b"-ERR max number of clients reached\r\n")
            with kit.connect(server.http_port) as connection:
                answers = kit.http_answers(serve.read_to_end(connection))
                serve.expect([(answer[0], answer[1].get("connection")) for answer in answers],
                             [(503, "close")])
        crowd.pop().close()
        kit.wait_until(lambda: is_healthy(server), "there is room for a connection again")
        kit.close_all(crowd)
        kit.wait_until(lambda: is_healthy(server) and kit.ended(server, "max_connections") >= 40,
                       "all are counted")


def test_clients_above_the_limit_of_an_address_get_an_error():
    """One address may open its share of connections; another address is still accepted."""
    with kit.server(options=["--threads", "2", "--max-connections-per-peer", "5"]) as server:
        crowd = [kit.connect(server.resp_port) for _ in range(5)]
        for connection in crowd:
            connection.sendall(b"PING\r\n")
            serve.expect(connection.recv(100), b"+PONG\r\n")
        for _ in range(10):
            with kit.connect(server.resp_port) as connection:
                serve.expect(serve.read_to_end(connection), b"-ERR max number of clients reached\r\n")
            with kit.connect(server.http_port) as connection:
                answers = kit.http_answers(serve.read_to_end(connection))
                serve.expect([answer[0] for answer in answers], [503])
        with kit.connect(server.resp_port, source="127.0.0.2") as other:
            other.sendall(b"PING\r\n")
            serve.expect(other.recv(100), b"+PONG\r\n")
        kit.close_all(crowd)
        kit.wait_until(lambda: is_healthy(server), "the address is accepted again")
        kit.wait_until(lambda: is_healthy(server) and kit.ended(server, "max_connections_per_peer") >= 20,
                       "all are counted")


def test_a_refused_client_that_has_already_sent_gets_the_error():
    """The client reads the error even if it sent a request before it was refused."""
    with kit.server(options=["--threads", "1", "--max-connections", "1"]) as server:
        with kit.connect(server.resp_port) as first:
            first.sendall(b"PING\r\n")
            serve.expect(first.recv(100), b"+PONG\r\n")
            for _ in range(20):
                with socket.socket() as connection:
                    connection.settimeout(kit.WAIT_SECONDS)
                    connection.connect(("127.0.0.1", server.resp_port))
                    try:
                        connection.sendall(b"PING\r\n" * 100)
                    except ConnectionError:
                        pass
                    serve.expect(serve.read_to_end(connection),
                                 b"-ERR max number of clients reached\r\n")


serve.run()
