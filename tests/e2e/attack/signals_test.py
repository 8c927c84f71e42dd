#!/usr/bin/env python3
"""Signals under load: continuous reloads, and the shutdown. No request is lost, decided twice or answered in part, and
the decisions are in the saved state.

    signals_test.py RATION
"""
import signal
import socket
import threading

import attack_kit as kit
import serve

RELOADS = 100
CLIENTS = 4
BURST = 20000
PER_CLIENT = 10000

# One token in six minutes: none is refilled while a test runs.
KEPT = f"  - {{name: kept, key: user, rate: 10/h, burst: {BURST}}}\n"
POLICIES = ["limits:\n" + KEPT,
            "limits:\n  - {name: before, rate: 1000000/s, burst: 1000000}\n" + KEPT,
            "limits:\n" + KEPT + "".join(
                f"  - {{name: more{number}, key: ip, rate: 1000000/s, burst: 1000000, max_keys: 1000}}\n"
                for number in range(8))]


class Load(threading.Thread):
    """Sends checks of one user in pipelines until the test or the server closes the connection. Counts complete replies;
    an incomplete last reply is in rest."""

    def __init__(self, port, user, depth=16, most=None):
        super().__init__(daemon=True)
        self.client = serve.Resp(port)
        self.batch = [["RATION.CHECK", "user", user]] * depth
        self.most = most
        self.allowed = self.denied = self.sent = 0
        self.errors = []
        self.rest = b""
        self.is_reported = False

    def run(self):
        try:
            while not self.is_reported and (self.most is None or self.sent < self.most):
                self.client.socket.sendall(b"".join(self.client.encode(*words) for words in self.batch))
                self.sent += len(self.batch)
                for _ in self.batch:
                    self.count(self.client.read())
        except (serve.Closed, ConnectionError):
            self.rest = self.client.buffer
        except Exception as error:  # raised by the test
            self.errors.append(repr(error))

    def count(self, answer):
        if isinstance(answer, serve.RespError):
            self.errors.append(answer.text)
        elif serve.pairs(answer)[b"verdict"] == b"allow":
            self.allowed += 1
        else:
            self.denied += 1


def reload(server, number):
    server.write_policy(POLICIES[number % len(POLICIES)])
    before = len(server.lines)
    server.process.send_signal(signal.SIGHUP)
    server.wait_line(r"reloaded the policy", first=before)


def test_a_hundred_reloads():
    """A hundred reloads, each of another policy, under load: exactly the burst is admitted, without an error."""
    with kit.server(POLICIES[0], ["--manual-clock", "--threads", "2"]) as server:
        for number in range(6):
            reload(server, number)  # memory that is allocated once for all policies exists now
        loads = [Load(server.resp_port, "x", most=PER_CLIENT) for _ in range(CLIENTS)]
        before = kit.memory_bytes(server)
        for load in loads:
            load.start()
        for number in range(RELOADS):
            reload(server, number)
        for load in loads:
            load.join(120)
            serve.expect((load.is_alive(), load.errors[:3], load.rest), (False, [], b""))
        allowed = sum(load.allowed for load in loads)
        serve.expect((allowed, sum(load.denied for load in loads)),
                     (BURST, CLIENTS * PER_CLIENT - BURST), "allowed and denied")
        grown = kit.memory_bytes(server) - before
        assert grown < 16 * kit.MIB * kit.MEMORY_FACTOR, f"{grown} bytes more after {RELOADS} reloads"
        serve.expect(kit.metrics(server)['ration_reloads_total{result="done"}'], RELOADS + 6)


def test_a_storm_of_signals():
    """Signals arrive faster than reloads finish: reloads run one after the other, and the last policy is in force."""
    with kit.server(POLICIES[0], ["--manual-clock", "--threads", "2"]) as server:
        load = Load(server.resp_port, "x")
        load.start()
        for number in range(300):
            if number % 10 == 0:
                server.write_policy(POLICIES[number // 10 % 3])
            server.process.send_signal(signal.SIGHUP)
        server.write_policy("limits: [{name: last, rate: 1/h, burst: 1}]")
        server.process.send_signal(signal.SIGHUP)
        kit.wait_until(lambda: b"last" in repr(server.http("GET", "/v1/limits")[2]).encode(),
                       "the last policy is in force")
        load.is_reported = True
        load.join(30)
        serve.expect((load.errors[:3], load.rest), ([], b""))


def test_a_broken_policy_changes_nothing():
    with kit.server(POLICIES[0], ["--manual-clock"]) as server:
        load = Load(server.resp_port, "x", most=2000)
        load.start()
        for number in range(20):
            server.write_policy(("limits: [{name: a, rate: 0/s}]", "limits: [", "\0", "a" * 1000)[number % 4])
            before = len(server.lines)
            server.process.send_signal(signal.SIGHUP)
            server.wait_line(r"the policy was not reloaded", first=before)
        load.join(60)
        serve.expect((load.errors[:3], load.allowed), ([], 2000))
        serve.expect(kit.metrics(server)['ration_reloads_total{result="refused"}'], 20)


def test_shutdown_under_load():
    """Every reply is complete; every answered request was decided once, and is in the saved state."""
    for turn in range(3):
        options = ["--threads", "2", "--state", "state", "--shutdown-timeout", "5s"]
        with kit.server(POLICIES[0], options) as server:
            loads = [Load(server.resp_port, f"user{number}", depth=1 + 63 * (number % 2))
                     for number in range(6)]
            for load in loads:
                load.start()
            kit.wait_until(lambda: all(load.allowed > 100 for load in loads), "all are at work")
            server.process.send_signal(signal.SIGTERM)
            serve.expect(server.process.wait(30), 0, "status")
            for load in loads:
                load.join(30)
                serve.expect((load.errors[:3], load.rest[:100]), ([], b""), "an incomplete reply")
            server.reader.join()
            server.process.stdout.close()
            server.start()
            for number, load in enumerate(loads):
                body = {"attributes": {"user": f"user{number}"}}
                left = server.http("POST", "/v1/peek", body)[2]["remaining"]
                decided = BURST - left
                answered = min(load.allowed, BURST)
                assert answered <= decided <= load.sent, \
                    f"{answered} answered, {decided} decided, {load.sent} sent (turn {turn})"


class Pipeliner:
    """A client that always has far more requests pending than the kernel buffers, and does not read until read() is
    called."""

    def __init__(self, port, request):
        self.connection = kit.connect(port, receive_bytes=16384)
        self.request = request
        self.said = None
        self.writer = threading.Thread(target=self.write, daemon=True)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.writer.start()

    def write(self):
        try:
            for _ in range(1000):
                self.connection.sendall(self.request * 64)
        except OSError:  # closed by either side
            pass

    def read(self):
        self.said = serve.read_to_end(self.connection)
        kit.reset(self.connection)


def test_shutdown_sends_no_incomplete_replies_to_slow_readers():
    """Unread requests in a socket that the server closes must not discard replies that the client has not read yet."""
    word = b"a" * 1017
    resp = b"ECHO " + word + b"\r\n"  # a loop reads 64 of these at once
    http = b"GET /healthz HTTP/1.1\r\nHost: h\r\nX-Long: " + b"a" * 980 + b"\r\n\r\n"
    serve.expect((len(resp), len(http)), (1024, 1024))
    for request in (resp, http):
        with kit.server(options=["--threads", "1", "--linger-timeout", "1s"]) as server:
            port = server.http_port if request is http else server.resp_port
            clients = [Pipeliner(port, request) for _ in range(4)]
            kit.wait_until(lambda: kit.metrics(server)["ration_sent_bytes_total"] > 2 * kit.MIB,
                           "answers wait to be read")
            server.process.send_signal(signal.SIGTERM)
            server.wait_line("shutting down:")
            for client in clients:
                client.reader.start()
            for client in clients:
                client.reader.join(kit.WAIT_SECONDS)
                assert client.said, "nothing was answered"
                if request is http:
                    answers = kit.http_answers(client.said)
                    serve.expect({answer[0] for answer in answers}, {200})
                else:
                    one = b"$1017\r\n" + word + b"\r\n"
                    serve.expect(len(client.said) % len(one), 0, "bytes of half an answer")
                    assert client.said == one * (len(client.said) // len(one))
            serve.expect(server.process.wait(30), 0)


def test_a_second_signal_shuts_down_at_once():
    """Whichever loop has the last connection, and however many signals arrive: the state is saved."""
    options = ["--threads", "2", "--state", "state", "--shutdown-timeout", "60s", "--header-timeout", "60s"]
    for _ in range(8):  # the system chooses the loop
        with kit.server(POLICIES[0], options) as server:
            slow = kit.connect(server.http_port)
            slow.sendall(b"GET / HT")
            kit.wait_until(lambda: kit.metrics(server)["ration_connections"] == 2, "it is there")
            server.process.send_signal(signal.SIGTERM)
            server.wait_line("shutting down:")
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                server.process.send_signal(number)
            serve.expect(server.process.wait(20), 0)
            server.wait_line("saved the state")
            slow.close()


def test_every_signal_at_once():
    """Reloads and the shutdown, with slow clients, resets and new clients: the server exits with status 0."""
    with kit.server(POLICIES[0], ["--threads", "2", "--shutdown-timeout", "500ms"]) as server:
        loads = [Load(server.resp_port, "x") for _ in range(2)]
        slow = [kit.connect(server.http_port) for _ in range(50)]
        for load in loads:
            load.start()
        for number, connection in enumerate(slow):
            connection.sendall(b"POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"[:20 + number])
            server.process.send_signal(signal.SIGHUP)
            if number % 3 == 0:
                kit.reset(connection)
        server.process.send_signal(signal.SIGPIPE)
        server.process.send_signal(signal.SIGTERM)
        for _ in range(20):
            try:
                socket.create_connection(("127.0.0.1", server.resp_port), timeout=1).close()
            except OSError:
                break
        serve.expect(server.process.wait(30), 0)
        for load in loads:
            load.join(30)
            serve.expect((load.errors[:3], load.rest[:100]), ([], b""))
        kit.close_all(slow)


serve.run()
