#!/usr/bin/env python3
"""Reloads over the Redis protocol and by a signal: their replies, and that no other client waits for them.

    resp_reload_test.py RATION
"""
import os
import re
import socket

from resp_kit import BINARY, MINUTE_NS, POLICY, decision
import serve
from serve import RespError, expect


def test_reload():
    first = "limits: [{name: a, key: user, rate: 1/min burst 5}, {name: b, key: user, rate: 1/min burst 9}]\n"
    with serve.Server(BINARY, http="none", policy=first, options=["--manual-clock"]) as server:
        client = server.resp(version=3)
        for _ in range(3):
            expect(client.ask("RATION.CHECK", "user", "u")[b"verdict"], b"allow")

        server.write_policy("limits:\n  - name: a\n    rate: 1/fortnight\n  - nam: b\n")
        answer = client.ask("RATION.RELOAD")
        text = r"ERR the policy was not reloaded: \S*policy\.yaml:3:\d+: .*policy\.yaml:4:5: .*nam"
        assert isinstance(answer, RespError) and re.match(text, answer.text), answer
        expect(client.ask("RATION.PEEK", "user", "u")[b"remaining"], 2, "a broken policy changed something")
        expect([limit[b"name"] for limit in client.ask("RATION.LIMITS")], [b"a", b"b"])

        os.unlink(server.policy_path)
        answer = client.ask("RATION.RELOAD")
        assert isinstance(answer, RespError) and "policy.yaml" in answer.text, answer

        server.write_policy("limits: [{name: a, key: user, rate: 1/min burst 4}, {name: c, key: user, rate: 1/s burst 100}]\n")
        changes = set(client.ask("RATION.RELOAD").decode().splitlines())
        expect(changes, {"limit a changed", "limit b removed", "limit c added"})
        expect(client.ask("RATION.PEEK", "user", "u"), decision("allow", "a", 4, 2, 0, 2 * MINUTE_NS))

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\n")
        expect(set(client.ask("RATION.RELOAD").decode().splitlines()), {"limit a reset", "limit c removed"})
        expect(client.ask("RATION.RELOAD"), b"nothing has changed")

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\nbanned: [{user: mallory}]\n")
        expect(client.ask("RATION.RELOAD"),
               b"limits are the same; what is exempt or banned, or the words of the file, have changed")
        server.write_policy("limits: [{name: a, match: {path: /x}, key: ip, rate: 1/min burst 4}]\nbanned: [{user: mallory}]\n")
        expect(client.ask("RATION.RELOAD"), b"limit a changed")
        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\n")
        expect(client.ask("RATION.RELOAD"), b"limit a changed")

        server.write_policy("limits: [{name: a, key: ip, rate: 1/min burst 4}]\nserver: {deny_status: 403}\n")
        expect(client.ask("RATION.RELOAD"), b"setting deny-status has changed; it needs a restart")


class SlowPolicy:
    """A policy that takes as long to read as the test wants: a FIFO in place of its file."""

    def __init__(self, server, text):
        self.path, self.text = server.policy_path, text

    def __enter__(self):
        os.mkfifo(self.path + ".fifo")
        os.rename(self.path + ".fifo", self.path)
        return self

    def wait_reader(self):
        """Waits until the server has begun to read."""
        self.file = open(self.path, "w", encoding="utf-8")

    def finish(self):
        """The reader gets the text; a reader that opens the path again finds a regular file."""
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(self.text)
        os.rename(self.path + ".new", self.path)
        self.file.write(self.text)
        self.file.close()

    def __exit__(self, *_):
        pass


def test_a_slow_reload_delays_no_other_client():
    """One loop, and a reload that waits for its file: other clients are answered meanwhile, and later requests of the
    same client are answered after the reload."""
    policy = "limits: [{name: a, key: user, rate: 1/min burst 5}]\n"
    with serve.Server(BINARY, policy=policy, options=["--manual-clock", "--threads", "1"]) as server:
        client, other = server.resp(), server.resp()
        with SlowPolicy(server, policy.replace("burst 5", "burst 7")) as slow:
            client.socket.sendall(b"".join(client.encode(*words) for words in (("PING", "before"), ("RATION.RELOAD",), ("PING", "after"))))
            expect(client.read(), b"before")
            slow.wait_reader()
            expect(other.ask("PING"), "PONG", "while a reload waits")
            expect(server.http("GET", "/healthz")[0], 200)
            slow.finish()
            expect(client.read(), b"limit a changed")
            expect(client.read(), b"after")
        # HTTP: a connection with Connection: close is closed after the response.
        with SlowPolicy(server, policy) as slow:
            raw = b"POST /v1/reload HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
                connection.sendall(raw)
                slow.wait_reader()
                expect(other.ask("PING"), "PONG", "while a reload waits")
                slow.finish()
                answer = serve.read_to_end(connection)
            expect(answer.count(b"HTTP/1.1 200"), 1, answer)
            assert b'"limit a changed"' in answer, answer
        # A client that disconnects meanwhile gets no reply, and does no harm.
        with SlowPolicy(server, policy.replace("burst 5", "burst 8")) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            client.close()
            slow.finish()
        server.wait_line("limit a changed", first=0)
        # CLIENT REPLY OFF also suppresses asynchronous replies; and MULTI cannot queue a reload.
        quiet = server.resp()
        quiet.send("CLIENT", "REPLY", "SKIP")
        quiet.send("RATION.RELOAD")
        expect(quiet.ask("PING"), "PONG")
        quiet.ask("MULTI")
        expect(quiet.ask("RATION.RELOAD"), RespError("ERR RATION.RELOAD cannot be queued by MULTI"))
        expect(quiet.ask("EXEC"), RespError("EXECABORT Transaction discarded because of previous errors."))


def test_a_slow_reload_and_the_shutdown():
    """Waiting connections are closed at the drain timeout; the server waits for the reload that has begun."""
    with serve.Server(BINARY, policy=POLICY, options=["--manual-clock", "--shutdown-timeout", "1ms"]) as server:
        client = server.resp()
        with SlowPolicy(server, POLICY) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            server.process.terminate()
            assert client.is_closed()
            slow.finish()


def flush_over_http(server):
    """Sends POST /v1/reset of all inline keys; the connection closes after the response."""
    body = b'{"inline": true}'
    connection = socket.create_connection(("127.0.0.1", server.http_port), timeout=30)
    connection.sendall(b"POST /v1/reset HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                       b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    return connection


def test_flushes_delay_no_other_client():
    """One loop; flushes wait for their thread, which a reload keeps busy. Other clients are answered meanwhile. Then
    each flush is answered, and the requests after it find all inline keys full."""
    policy = "limits: [{name: a, key: user, rate: 1/min burst 5}]\n"
    allowed, denied = [0, 1, 0, -1, 60], [1, 1, 0, 60, 60]
    take, take_queued = (("CL.THROTTLE", key, 0, 1, 60) for key in "kq")
    with serve.Server(BINARY, policy=policy, options=["--manual-clock", "--threads", "1"]) as server:
        other = server.resp()
        pipelined, queued, leaving = server.resp(), server.resp(), server.resp()
        with SlowPolicy(server, policy.replace("burst 5", "burst 7")) as slow:
            reloading = server.resp()
            reloading.send("RATION.RELOAD")
            slow.wait_reader()
            for words in (take, ("RATION.FLUSH", "INLINE"), take, ("RATION.FLUSH", "INLINE"), take):
                pipelined.send(*words)
            expect(pipelined.read(), allowed)
            for words in (("MULTI",), ("RATION.FLUSH", "INLINE"), take_queued, ("RATION.FLUSH", "INLINE"), take_queued,
                          ("EXEC",)):
                queued.send(*words)
            for reply in ["OK"] + 4 * ["QUEUED"]:
                expect(queued.read(), reply)
            over_http = flush_over_http(server)
            leaving.send("RATION.FLUSH", "INLINE")
            for _ in range(3):
                expect(other.ask(*take), denied, "nothing is cleared yet, and the loop serves others")
            expect(server.http("GET", "/healthz")[0], 200)
            leaving.close()
            slow.finish()
            for reply in ("OK", allowed, "OK", allowed):
                expect(pipelined.read(), reply)
            expect(queued.read(), ["OK", allowed, "OK", allowed])
            answer = serve.read_to_end(over_http)
            over_http.close()
            assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b'{"changed":1}'), answer
        other.send("CLIENT", "REPLY", "SKIP")
        other.send("RATION.FLUSH", "INLINE")
        expect(other.ask(*take), allowed, "the reply to the flush is suppressed")
        # More flushes than the flush counter of a slot has values: each one clears nevertheless.
        for _ in range(10):
            expect(other.ask("RATION.FLUSH", "INLINE"), "OK")
            expect(other.ask(*take), allowed)
            expect(other.ask(*take), denied)


def test_flushes_and_the_shutdown():
    """Clients that wait for a flush are disconnected at the drain timeout, and the flush does no harm."""
    with serve.Server(BINARY, policy=POLICY, options=["--manual-clock", "--shutdown-timeout", "1ms"]) as server:
        client, flushing = server.resp(), server.resp()
        with SlowPolicy(server, POLICY) as slow:
            client.send("RATION.RELOAD")
            slow.wait_reader()
            flushing.send("RATION.FLUSH", "INLINE")
            over_http = flush_over_http(server)
            server.process.terminate()
            assert client.is_closed() and flushing.is_closed()
            serve.read_to_end(over_http)
            over_http.close()
            slow.finish()


def test_reload_by_a_signal():
    """SIGHUP has the same effect as RATION.RELOAD; the log reports the same."""
    with serve.Server(BINARY, http="none", policy="limits: [{name: a, key: user, rate: 1/min burst 5}]\n",
                      options=["--manual-clock"]) as server:
        client = server.resp(version=3)
        client.ask("RATION.CHECK", "user", "u")
        seen = len(server.lines)
        server.write_policy("limits: [{name: a, key: user, rate: 1/min burst 3}]\n")
        server.process.send_signal(1)
        server.wait_line("reloaded the policy", first=seen)
        expect("limit a changed" in server.output(), True, "the log reports")
        expect(client.ask("RATION.PEEK", "user", "u")[b"burst"], 3)
        seen = len(server.lines)
        server.write_policy("limits: [{name: a, key: user, rate: nonsense}]\n")
        server.process.send_signal(1)
        server.wait_line("the previous policy stays in force", first=seen)
        expect(client.ask("RATION.PEEK", "user", "u")[b"burst"], 3)


if __name__ == "__main__":
    serve.run()
