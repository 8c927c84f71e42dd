#!/usr/bin/env python3
"""Asynchronous replies: pipelines, MULTI, CLIENT REPLY OFF, clients that disconnect, a shutdown and a reload, all while
Redis has not answered yet.

    async_test.py RATION

The test sends the same requests to a server with Redis and to a server with its limits in memory, with the same clock:
the replies are equal byte for byte (R9). RATION_TEST_SEED chooses the requests.
"""
import os
import random
import re
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import redis_kit
import serve

BINARY = sys.argv[1]
SEED = int(os.environ.get("RATION_TEST_SEED", "1"))
CLOCK = ["--manual-clock"]
SECRET = "secret"  # a GET with a cost needs one
POLICY = """
limits:
  - {name: user, key: user, rate: 5/s, burst: 7}
  - {name: path, match: {path: /slow}, rate: 3/s fixed_window}
  - {name: shadow, key: user, rate: 2/s, shadow: true}
  - {name: tank, match: {path: /tank}, key: [user, path], rate: 2/s sliding_window}
"""
PLAIN = "limits: [{name: user, key: user, rate: 1/day, burst: 1000}]\n"
LONG_MS = 20000  # a timeout that is never reached


# The same replies as in memory -----------------------------------------------------------------

def random_check(chance):
    argv = [chance.choice(("RATION.CHECK", "RATION.CHECK", "ration.check", "RATION.PEEK"))]
    if chance.random() < .3:
        argv += ["COST", chance.choice((0, 1, 2, 9, "x"))]
    argv += ["user", chance.choice("abc{}%")]
    if chance.random() < .5:
        argv += ["path", chance.choice(("/slow", "/tank", "/"))]
    return argv if chance.random() < .95 else argv[:-1]  # an attribute without a value


def random_throttle(chance):
    if chance.random() < .2:
        return ["GCRA", chance.choice("xyz"), 3, 1, 1]
    return ["CL.THROTTLE", chance.choice("xyz"), chance.choice((0, 3, 3, 3, "-1")), 1, 1,
            *chance.choice(((), (0,), (2,), ("many",)))]


def random_admin_op(chance):
    who = ["user", chance.choice("abc{}%")]
    kind = chance.random()
    if kind < .1:
        return ["DEL", *chance.choices("xyz", k=chance.choice((1, 3)))]
    if chance.random() < .5:
        who += ["path", chance.choice(("/slow", "/tank", "/"))]
    if kind < .3:
        return ["RATION.BLOCK", "MS", chance.choice((0, 1, 500, "x", 1 << 62)), *who]
    if kind < .6:
        return ["RATION.REFUND", *chance.choice(((), ("TOKENS", 2), ("TOKENS", 0))), *who]
    return ["RATION.RESET", *who[:chance.choice((2, 4, 4, 3))]]


OTHERS = (["PING"], ["PING", "word"], ["ECHO", "e"], ["NONSENSE", "a"], ["ECHO"], ["SELECT", "0"],
          ["CLIENT", "SETNAME", "n"], ["CLIENT", "GETNAME"], ["CONFIG", "GET", "save"])


def random_pipeline(chance, length):
    commands = []
    for _ in range(length):
        kind = chance.random()
        if kind < .4:
            commands.append(random_check(chance))
        elif kind < .48:
            commands.append(random_admin_op(chance))
        elif kind < .7:
            commands.append(random_throttle(chance))
        elif kind < .8:
            commands.append(chance.choice(OTHERS))
        elif kind < .84:
            commands.append(["RATION.CLOCK", "ADVANCE", chance.choice((0, 1, 10 ** 8, 333333333))])
        elif kind < .92:
            commands.append([chance.choice(("MULTI", "MULTI", "EXEC", "EXEC", "DISCARD"))])
        elif kind < .99:
            commands.append(["CLIENT", "REPLY", chance.choice(("OFF", "SKIP", "SKIP", "ON"))])
        else:
            commands.append(["RESET"])
    return commands


def exchange(server, commands, cuts):
    """The whole reply to commands that are sent in pieces, without waiting for replies."""
    sent = b"".join(serve.Resp.encode(*argv) for argv in commands)
    sent += serve.Resp.encode("CLIENT", "REPLY", "ON") + serve.Resp.encode("DISCARD") + serve.Resp.encode("QUIT")
    with socket.create_connection(("127.0.0.1", server.resp_port), timeout=serve.ANSWER_SECONDS) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        at = 0
        for cut in [*sorted(int(cut * len(sent)) for cut in cuts), len(sent)]:
            connection.sendall(sent[at:cut])
            at = cut
        return serve.read_to_end(connection)


def differ(commands, got, wanted):
    at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    begin = max(at - 200, 0)
    return AssertionError(f"seed {SEED}: of {commands}\nRedis  ...{got[begin:at + 200]}\nmemory ...{wanted[begin:at + 200]}")


def test_R9_pipelines_as_in_memory():
    chance = random.Random(SEED)
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, POLICY, CLOCK + ["--threads", "2"], LONG_MS) as remote, \
            serve.Server(BINARY, policy=POLICY, options=CLOCK + ["--threads", "2"]) as memory:
        redis_kit.wait_well(remote, connections=4)
        count = 0
        for _ in range(150):
            commands = random_pipeline(chance, chance.choice((1, 5, 30, 200)))
            if chance.random() < .3:
                commands.insert(0, ["HELLO", "3", "SETNAME", "x"])
            if commands[0][0] == "HELLO":  # the reply to HELLO contains the connection's number
                commands.insert(0, ["CLIENT", "REPLY", "SKIP"])
            cuts = [chance.random() for _ in range(chance.choice((0, 1, 5)))]
            got, wanted = exchange(remote, commands, cuts), exchange(memory, commands, cuts)
            if got != wanted:
                raise differ(commands, got, wanted)
            count += len(commands)
        calls = redis.calls("evalsha", "eval")
        print(f"{count} commands, {calls} calls of the script")
        assert calls > count / 4


def http_request(chance):
    def attributes():
        return {"user": chance.choice("abc{}"), "path": chance.choice(("/slow", "/tank", "/"))}

    def one():
        if chance.random() < .3:
            return {"key": chance.choice("xyz"), "limit": "2/s burst 4", "cost": chance.choice((0, 1, 9))}
        return {"attributes": attributes(), "cost": chance.choice((0, 1, 1, 2, 9))}

    kind = chance.random()
    if kind < .4:
        query = "&".join(f"{name}={value.replace('{', '%7B').replace('}', '%7D')}" for name, value in attributes().items())
        query += chance.choice(("", "&cost=2", "&peek=true", "&cost=9", "&cost=-1"))
        return chance.choice(("GET", "GET", "HEAD")), "/v1/check?" + query, None
    path = chance.choice(("/v1/check", "/v1/check", "/v1/peek"))
    if kind < .45:
        return "POST", "/v1/refund", {"attributes": attributes(), "tokens": chance.choice((0, 1, 3))}
    if kind < .5:
        return "POST", "/v1/reset", {"attributes": attributes()}
    if kind < .53:
        return "POST", "/v1/block", {"attributes": {"user": chance.choice("abc")}, "ns": 10 ** 8}
    if kind < .75:
        return "POST", path, one()
    return "POST", path, {"checks": [one() for _ in range(chance.choice((1, 2, 30)))]}


def http_bytes(method, path, body):
    text = b"" if body is None else serve.json.dumps(body).encode()
    return (f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {SECRET}\r\nContent-Length: {len(text)}\r\n\r\n").encode() + text


def test_R9_http_as_in_memory():
    """Also HTTP pipelines, with requests that end the connection."""
    chance = random.Random(SEED)
    options = CLOCK + ["--threads", "2", "--admin-secret", SECRET]
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, POLICY, options, LONG_MS) as remote, \
            serve.Server(BINARY, policy=POLICY, options=options) as memory:
        redis_kit.wait_well(remote, connections=4)
        for _ in range(120):
            requests = [http_request(chance) for _ in range(chance.choice((1, 4, 12)))]
            sent = b"".join(http_bytes(*request) for request in requests)
            sent += b"GET /v1/check?user=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            answers = [re.sub(rb"(?im)^date: .*\r\n", b"", server.raw(server.http_port, sent))
                       for server in (remote, memory)]
            if answers[0] != answers[1]:
                raise differ(requests, *answers)
            advance = chance.choice((0, 0, 10 ** 8, 10 ** 9))
            for server in remote, memory:
                serve.expect(server.resp(password=SECRET).ask("RATION.CLOCK", "ADVANCE", advance), "OK")
        print(redis.calls("evalsha", "eval"), "calls of the script")


def test_an_answer_too_large():
    """A reply that is too large is replaced by an error that says so, as in memory."""
    body = {"checks": [{"attributes": {"user": "a", "path": "/tank"}}] * 60}
    options = CLOCK + ["--max-output", "4096"]
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, POLICY, options, LONG_MS) as remote, \
            serve.Server(BINARY, policy=POLICY, options=options) as memory:
        redis_kit.wait_well(remote)
        sent = http_bytes("POST", "/v1/check", body) + \
            b"GET /v1/check?user=a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        answers = [re.sub(rb"(?im)^date: .*\r\n", b"", server.raw(server.http_port, sent))
                   for server in (remote, memory)]
        assert answers[1].startswith(b"HTTP/1.1 500"), answers[1][:200]
        serve.expect(answers[0][:500], answers[1][:500])
        commands = [["RATION.CHECK", "user", "a", "path", "/tank"]] * 60
        serve.expect(exchange(remote, commands, []), exchange(memory, commands, []), "by RESP")


# While replies are pending ---------------------------------------------------------------------

class StalledRedis:
    """A server and a proxy that withholds the replies of Redis until the test opens it."""

    def __init__(self, policy=PLAIN, options=(), deadline_ms=LONG_MS):
        self.redis = redis_kit.Redis()
        self.proxy = redis_kit.Proxy(self.redis)
        self.server = redis_kit.serve_with(BINARY, self.proxy.url, policy, list(options), deadline_ms)

    def __enter__(self):
        redis_kit.wait_well(self.server, connections=4)
        self.proxy.is_open.clear()
        return self

    def __exit__(self, *failure):
        try:
            self.proxy.is_open.set()
            self.server.__exit__(*failure)
        finally:
            self.proxy.close()
            self.redis.kill()

    def wait_called(self, user, count=1):
        """Waits until Redis has been called: its reply is then in the proxy."""
        deadline = time.monotonic() + serve.ANSWER_SECONDS
        while self.proxy.calls_of(user) < count:
            assert time.monotonic() < deadline, f"there was no call for {user}"
            time.sleep(.002)


def check(user):
    return ("RATION.CHECK", "user", user)


def is_by_redis(answer):
    return not isinstance(answer, serve.RespError) and not redis_kit.is_degraded(answer)


def test_replies_keep_order_behind_a_pending_one():
    """Requests that arrive while a reply is pending are answered after it; other clients do not wait."""
    with StalledRedis(options=["--threads", "1"]) as stalled:
        client, other = stalled.server.resp(), stalled.server.resp()
        client.send(*check("a"))
        stalled.wait_called("a")
        for argv in ("PING",), check("b"), ("ECHO", "e"), ("MULTI",), check("c"), ("PING",), ("EXEC",), ("PING", "z"):
            client.send(*argv)
        serve.expect(other.ask("PING"), "PONG", "another client")
        client.socket.settimeout(.2)
        try:
            raise AssertionError(f"before Redis answered: {client.read()}")
        except TimeoutError:
            client.socket.settimeout(serve.ANSWER_SECONDS)
        stalled.proxy.is_open.set()
        answers = [client.read() for _ in range(9)]
        serve.expect([answers[i] for i in (1, 3, 4, 5, 6, 8)], ["PONG", b"e", "OK", "QUEUED", "QUEUED", b"z"])
        executed = answers[7]
        serve.expect(executed[1], "PONG", "in EXEC")
        assert all(map(is_by_redis, (answers[0], answers[2], executed[0]))), answers


def test_suppressed_replies_of_pending_checks():
    with StalledRedis(options=["--threads", "1"]) as stalled:
        client = stalled.server.resp()
        for argv in (("CLIENT", "REPLY", "OFF"), check("a"), check("a"), ("CLIENT", "REPLY", "ON"), check("b"),
                      ("CLIENT", "REPLY", "SKIP"), check("b"), ("PING", "end")):
            client.send(*argv)
        stalled.wait_called("a")
        stalled.proxy.is_open.set()
        serve.expect(client.read(), "OK", "CLIENT REPLY ON")
        serve.expect(serve.pairs(client.read())[b"remaining"], 999)
        serve.expect(client.read(), b"end")
        serve.expect([serve.pairs(client.ask(*check(user)))[b"remaining"] for user in "ab"], [997, 997],
                     "checks without a reply are charged")


def disconnect(connection, is_reset):
    if is_reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    connection.close()


def test_clients_that_disconnect():
    """RESP and HTTP; single requests, batches and EXEC; FIN and RST; before the reply and at the same time."""
    batch = http_bytes("POST", "/v1/check", {"checks": [{"attributes": {"user": "left"}}] * 20})
    get = http_bytes("GET", "/v1/check?user=left", None)
    pipeline = b"".join(serve.Resp.encode(*check("left")) for _ in range(20))
    transaction = serve.Resp.encode("MULTI") + pipeline + serve.Resp.encode("EXEC") + pipeline
    silent = serve.Resp.encode("CLIENT", "REPLY", "OFF") + pipeline
    edits = serve.Resp.encode("RATION.REFUND", "user", "left") * 3 + serve.Resp.encode("RATION.RESET", "user", "left")
    refund = http_bytes("POST", "/v1/refund", {"attributes": {"user": "left"}, "tokens": 1})
    with StalledRedis(options=["--threads", "2"]) as stalled:
        for turn in range(4):
            stalled.proxy.is_open.clear()
            stalled.proxy.script_calls.clear()
            leaving = []
            for port, sent in ((stalled.server.http_port, batch), (stalled.server.http_port, get * 3),
                               (stalled.server.resp_port, pipeline), (stalled.server.resp_port, transaction),
                               (stalled.server.resp_port, silent), (stalled.server.resp_port, edits),
                               (stalled.server.http_port, refund * 2)):
                connection = socket.create_connection(("127.0.0.1", port))
                connection.sendall(sent)
                leaving.append(connection)
            stalled.wait_called("left")
            if turn % 2 == 1:
                stalled.proxy.is_open.set()
            for connection in leaving:
                disconnect(connection, is_reset=turn >= 2)
            stalled.proxy.is_open.set()
            for _ in range(4):
                answer = stalled.server.resp().ask(*check(f"stays{turn}"))
                assert is_by_redis(answer), answer


def test_clients_that_disconnect_before_a_timeout():
    """The timeout also ends the calls of clients that have disconnected."""
    with StalledRedis(options=["--threads", "1"], deadline_ms=100) as stalled:
        for sent, port in ((serve.Resp.encode(*check("gone")) * 5, stalled.server.resp_port),
                           (http_bytes("GET", "/v1/check?user=gone", None), stalled.server.http_port)):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(sent)
                stalled.wait_called("gone")
        answer = stalled.server.resp().ask(*check("stays"))
        assert redis_kit.is_degraded(answer), answer


def test_a_shutdown_waits_for_replies():
    """SIGTERM: the server waits for the replies of Redis to pending checks, and then exits with status 0."""
    with StalledRedis(options=["--threads", "2"]) as stalled:
        clients = [stalled.server.resp() for _ in range(6)]
        web = stalled.server.http_connection()
        for number, client in enumerate(clients):
            client.send(*check(f"u{number}"))
        web.request("GET", "/v1/check?user=web")
        admin = stalled.server.resp()
        admin.send("RATION.REFUND", "TOKENS", 1, "user", "changed")
        stalled.wait_called("changed")
        for number in range(len(clients)):
            stalled.wait_called(f"u{number}")
        stalled.wait_called("web")
        stalled.server.process.send_signal(signal.SIGTERM)
        stalled.server.wait_line("shutting down:")
        stalled.proxy.is_open.set()
        for client in clients:
            answer = client.read()
            assert is_by_redis(answer), answer
            assert client.is_closed()
        serve.expect(admin.read(), 1, "an admin operation")
        answer = web.getresponse()
        serve.expect((answer.status, answer.getheader("Connection")), (200, "close"))
        assert b"degraded" not in answer.read()
        serve.expect(stalled.server.process.wait(serve.STOP_SECONDS), 0, "status")


def test_a_shutdown_without_replies():
    """Redis does not reply: the fallback decides after the timeout, and the server exits."""
    with StalledRedis(options=["--threads", "2"], deadline_ms=300) as stalled:
        client = stalled.server.resp()
        client.send(*check("a"))
        stalled.wait_called("a")
        stalled.server.process.send_signal(signal.SIGTERM)
        answer = client.read()
        assert redis_kit.is_degraded(answer), answer
        serve.expect(stalled.server.process.wait(serve.STOP_SECONDS), 0, "status")


def test_a_flush_is_refused():
    """Inline limits in Redis are not cleared: the errors of RESP, EXEC and HTTP say so, and say what to do."""
    reason = "inline limits are kept in Redis and are not cleared by this command: delete their keys in Redis"
    with redis_kit.Redis() as redis, redis_kit.serve_with(BINARY, redis.url, PLAIN, [], LONG_MS) as server:
        client = server.resp()
        error = serve.RespError("ERR " + reason)
        serve.expect(client.ask("RATION.FLUSH", "INLINE"), error)
        for argv, reply in ((("MULTI",), "OK"), (("RATION.FLUSH", "INLINE"), "QUEUED"), (("PING",), "QUEUED"),
                             (("EXEC",), [error, "PONG"])):
            serve.expect(client.ask(*argv), reply)
        status, _, body = server.http("POST", "/v1/reset", {"inline": True})
        serve.expect((status, body["detail"]), (400, reason))


def test_a_reload_while_replies_are_pending():
    """Pending checks are decided by the policy under which they were sent; later ones by the new policy."""
    with StalledRedis(options=["--threads", "2"]) as stalled:
        clients = [stalled.server.resp() for _ in range(4)]
        web = stalled.server.http_connection()
        for client in clients:
            client.send(*check("a"))
        web.request("GET", "/v1/check?user=a")
        stalled.wait_called("a", 5)
        stalled.server.write_policy("limits: [{name: other, key: user, rate: 1/day, burst: 5}]\n")
        control = stalled.server.resp()
        control.send("RATION.RELOAD")
        time.sleep(.1)  # the reload may wait for the replies, or not: both are allowed
        stalled.proxy.is_open.set()
        reloaded = control.read()
        assert not isinstance(reloaded, serve.RespError), reloaded
        answers = [serve.pairs(client.read()) for client in clients]
        serve.expect({answer[b"limit"] for answer in answers}, {b"user"})
        serve.expect(serve.json.loads(web.getresponse().read())["limit"], "user")
        for client in clients:
            answer = serve.pairs(client.ask(*check("a")))
            serve.expect((answer[b"limit"], answer[b"degraded"]), (b"other", 0))


def test_continuous_reloads():
    """Two loops, pipelines, and a policy that changes meanwhile."""
    chance = random.Random(SEED)
    with redis_kit.Redis() as redis, \
            redis_kit.serve_with(BINARY, redis.url, PLAIN, ["--threads", "2"], LONG_MS) as server:
        redis_kit.wait_well(server, connections=4)
        clients = [server.resp() for _ in range(8)]
        control = server.resp()
        for number in range(40):
            for client in clients:
                client.socket.sendall(serve.Resp.encode(*check(chance.choice("abc"))) * 20)
            server.write_policy(f"limits: [{{name: n{number % 3}, key: user, rate: 1/day, burst: {100 + number}}}]\n")
            control.send("RATION.RELOAD")
            for client in clients:
                answers = [client.read() for _ in range(20)]
                assert all(map(is_by_redis, answers)), answers
            assert isinstance(control.read(), bytes)


def test_replies_do_not_refill_a_local_bucket():
    """Concurrent calls with costs that Redis denies: each reply reports the bucket as it was at the call, and must not
    give back tokens that the node has admitted meanwhile."""
    burst, bound = 100, 100 + 75
    policy = f"limits: [{{name: l, key: user, rate: 1/h, burst: {burst}, cost: tokens, redis_mode: local_first}}]\n"

    def check(tokens):
        return "RATION.CHECK", "user", "u", "tokens", tokens

    def admitted(answers):
        return sum(serve.pairs(answer)[b"verdict"] == b"allow" for answer in answers)

    def space(answer, asked_at):
        time.sleep(.01)
        return answer

    with redis_kit.Redis() as redis, redis_kit.Proxy(redis) as proxy, \
            redis_kit.serve_with(BINARY, proxy.url, policy, ["--threads", "1"], LONG_MS) as server:
        redis_kit.wait_well(server)
        serve.expect(admitted([server.resp().ask(*check(30))]), 1)
        proxy.failure = space
        clients = [server.resp() for _ in range(10)]
        for client in clients:
            client.send(*check(80))
        total = 30
        for client in clients:
            serve.expect(admitted([client.read()]), 0, "80 of 70")
            total += admitted(client.pipeline([check(1)] * 45))
        total += admitted(clients[0].pipeline([check(1)] * 100))
        print(f"       admitted {total} of {burst}, and at most {bound}")
        assert burst <= total <= bound, total


serve.run()
