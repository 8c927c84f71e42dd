#!/usr/bin/env python3
"""Redis in trouble (R12): each fault with each on_backend_error, over each protocol.

    fault_test.py RATION

While the fault lasts each answer comes within the deadline and is the stated one:

    local   allowed as far as this node's share goes, then denied; degraded
    allow   allowed, degraded
    deny    503 with a problem in JSON, and an error by RESP: never 429, never a denial

Nothing is asked twice, and when the fault has ended Redis decides again in the stated time.
"""
import contextlib
import os
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import redis_kit
import serve

BINARY = sys.argv[1]
BURST, NODES = 8, 4
SHARE = BURST // NODES
POLICY = "limits:\n" + "".join(
    f"  - {{name: {kind}, match: {{path: /{kind}}}, key: user, rate: 1/day, burst: {BURST}, on_backend_error: {kind}}}\n"
    for kind in ("local", "allow", "deny"))
NOBODY = ("user", "nobody", "path", "/local")
LATEST_SECONDS = (redis_kit.DEADLINE_MS + 5) / 1000
HANGS_SECONDS = 5
ATTEMPTS = 5  # at a measurement that others on the machine can spoil


class Asker:
    """Asks a server, each way alike: ask() answers (verdict or None for an error, is degraded)."""

    def __init__(self, server):
        self.server = server
        self.resp2, self.resp3 = server.resp(), server.resp(version=3)
        self.web = server.http_connection()
        self.slowest = 0

    def ask(self, way, kind, user):
        began = time.monotonic()
        answer = getattr(self, way)(f"/{kind}", user)
        self.slowest = max(self.slowest, time.monotonic() - began)
        return answer

    def resp(self, path, user, client=None):
        answer = (client or self.resp2).ask("RATION.CHECK", "user", user, "path", path)
        if isinstance(answer, serve.RespError):
            assert "Redis" in answer.text, answer
            return None, True
        answer = serve.pairs(answer)
        return answer[b"verdict"].decode(), answer[b"degraded"] == 1

    def resp_3(self, path, user):
        return self.resp(path, user, self.resp3)

    def of_http(self, answer, denied_status):
        status, headers, body = answer
        if status == 503:
            serve.expect(headers["Content-Type"], "application/problem+json")
            serve.expect(body["status"], 503)
            serve.expect(body["type"].partition("#")[2], "temporary-reduced-capacity")
            assert "Redis" in body["detail"], body
            return None, True
        serve.expect(status, 200 if body["allowed"] else denied_status, f"status of {body}")
        return body["verdict"], body.get("degraded", False)

    def post(self, path, user):
        return self.of_http(self.server.http("POST", "/v1/check", {"attributes": {"user": user, "path": path}},
                                             connection=self.web), 200)

    def get(self, path, user):
        status, headers, body = self.server.http("GET", f"/v1/check?user={user}&path={path}", connection=self.web)
        if status == 429:  # it has a problem for a body, which does not say whether it is degraded
            return "deny", True
        return self.of_http((status, headers, body), None)


WAYS = ("resp", "resp_3", "post", "get")


def check_outage(asker, tag):
    """Everything once, by users that nobody has asked for."""
    for way in WAYS:
        user = f"{tag}-{way}"
        serve.expect([asker.ask(way, "local", user) for _ in range(SHARE + 2)],
                     [("allow", True)] * SHARE + [("deny", True)] * 2, f"local by {way}")
        serve.expect([asker.ask(way, "allow", user) for _ in range(BURST + 2)], [("allow", True)] * (BURST + 2),
                     f"allow by {way}")
        serve.expect([asker.ask(way, "deny", user) for _ in range(2)], [(None, True)] * 2, f"deny by {way}")
    limited = [asker.resp2.ask("CL.THROTTLE", tag, BURST - 1, 1, 86400)[0] for _ in range(SHARE + 1)]
    serve.expect(limited, [0] * SHARE + [1], "CL.THROTTLE")
    status, _, body = asker.server.http("POST", "/v1/check", {"checks": [
        {"attributes": {"user": tag, "path": path}} for path in ("/local", "/allow", "/deny")]})
    serve.expect(status, 200, body)
    serve.expect([result.get("degraded", "error" in result) for result in body["results"]], [True] * 3, "a batch")


def measure_outage(asker, name, begin, end):
    """An outage, and again until a measurement was not spoilt: all answers within the deadline and 5 ms. Each
    time Redis was well before, so that some are asked whom it does not answer. Returns the slowest answer and
    how long it took until Redis decided again."""
    for attempt in range(ATTEMPTS):
        asker.slowest = 0
        begin()
        check_outage(asker, f"{name}{attempt}")
        slowest = asker.slowest
        end()
        took = redis_kit.wait_well(asker.server, attributes=NOBODY)
        assert slowest < HANGS_SECONDS, f"{name}: an answer took {slowest:.3f} s"
        if slowest <= LATEST_SECONDS:
            return slowest, took
    raise AssertionError(f"{name}: an answer took {slowest * 1000:.1f} ms, {ATTEMPTS} times")


def check_well(asker, tag):
    """Redis decides, unless it is late on a busy machine: then once more, by other users."""
    for attempt in range(ATTEMPTS):
        try:
            check_decisions(asker, f"{tag}{attempt}")
            return
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
            redis_kit.wait_well(asker.server, attributes=NOBODY)


def check_decisions(asker, tag):
    for way in WAYS:
        for kind in "local", "allow", "deny":
            user = f"{tag}-{way}"
            serve.expect([asker.ask(way, kind, user) for _ in range(BURST)], [("allow", False)] * BURST,
                         f"{kind} by {way}, by Redis")
            got = asker.ask(way, kind, user)
            serve.expect((got[0], got[1] and way != "get"), ("deny", False), f"{kind} by {way}, by Redis")


def check_fault(name, redis, way, begin, end):
    """begin() and end() of the fault. way is that to Redis, if there is one between."""
    url = way.url if way is not None else redis.url
    with redis_kit.serve_with(BINARY, url, POLICY, ["--threads", "1", "--nodes", str(NODES)]) as server:
        redis_kit.wait_well(server, attributes=NOBODY)
        asker = Asker(server)
        check_well(asker, f"{name}-before")
        slowest, took = measure_outage(asker, name, begin, end)
        check_well(asker, f"{name}-after")
        print(f"       {name:12} slowest answer {slowest * 1000:5.1f} ms, Redis decides again after {took:.2f} s")


@contextlib.contextmanager
def by_way():
    with redis_kit.Redis() as redis, redis_kit.Way(redis) as way:
        yield redis, way


def check_way(name, fault, greeting_fault=None, is_lost=False):
    """A fault on the way to Redis; is_lost: of connections that are made while it lasts."""
    with by_way() as (redis, way):
        def begin():
            way.fault, way.greeting_fault = fault, greeting_fault
            way.script_calls.clear()
            if is_lost:
                way.break_all()

        def end():
            assert is_lost or way.script_calls, "nobody met the fault"
            way.fault = way.greeting_fault = None

        check_fault(name, redis, way, begin, end)


# Faults of a real Redis -------------------------------------------------------------------------

def test_R12_refused():
    with redis_kit.Redis() as redis:
        def begin():
            redis.process.kill()
            redis.process.wait()

        check_fault("refused", redis, None, begin, redis.start)


def test_R12_refused_from_the_start():
    """A server starts without Redis, decides, and finds it when it comes."""
    with redis_kit.Redis() as redis:
        redis.process.kill()
        redis.process.wait()
        with redis_kit.serve_with(BINARY, redis.url, POLICY, ["--threads", "1", "--nodes", str(NODES)]) as server:
            asker = Asker(server)
            check_outage(asker, "absent")
            redis.start()
            redis_kit.wait_well(server, attributes=NOBODY)
            check_well(asker, "after")


def test_R12_black_hole():
    with redis_kit.Redis() as redis:
        check_fault("stopped", redis, None, lambda: redis.process.send_signal(signal.SIGSTOP),
                    lambda: redis.process.send_signal(signal.SIGCONT))


def test_R12_a_long_black_hole():
    """For 3 s: hardly anybody waits for the deadline, since nobody waits for a connection."""
    def measure():
        slow_count = count = slowest = 0
        with redis_kit.Redis() as redis, \
                redis_kit.serve_with(BINARY, redis.url, POLICY, ["--threads", "1"]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            asker = Asker(server)
            redis.process.send_signal(signal.SIGSTOP)
            end = time.monotonic() + 3
            while time.monotonic() < end:
                asker.slowest = 0
                serve.expect(asker.ask(WAYS[count % 4], "allow", f"u{count}"), ("allow", True))
                slowest = max(slowest, asker.slowest)
                slow_count += asker.slowest > redis_kit.DEADLINE_MS / 2000
                count += 1
                time.sleep(.002)
            redis.process.send_signal(signal.SIGCONT)
            took = redis_kit.wait_well(server, attributes=NOBODY)
        print(f"       of {count} answers {slow_count} came late, the last {slowest * 1000:.1f} ms; "
              f"Redis decides again after {took:.2f} s")
        assert count > 100 and slow_count <= count / 20
        return slowest

    took = best_of(2, measure)
    assert took <= LATEST_SECONDS, f"{took * 1000:.1f} ms"


def test_R12_out_of_memory():
    with redis_kit.Redis() as redis:
        check_fault("OOM", redis, None, lambda: serve.expect(redis.ask("CONFIG", "SET", "maxmemory", "1"), "OK"),
                    lambda: serve.expect(redis.ask("CONFIG", "SET", "maxmemory", "0"), "OK"))


def check_replica(name, serves_stale):
    with redis_kit.Redis() as redis:
        def begin():
            redis.ask("CONFIG", "SET", "replica-serve-stale-data", serves_stale)
            serve.expect(redis.ask("REPLICAOF", "127.0.0.1", redis_kit.free_port()), "OK")

        check_fault(name, redis, None, begin, lambda: serve.expect(redis.ask("REPLICAOF", "NO", "ONE"), "OK"))


def test_R12_readonly():
    check_replica("READONLY", "yes")


def test_R12_masterdown():
    check_replica("MASTERDOWN", "no")


def test_R12_busy():
    """Another script that does not end: first nothing comes, then BUSY."""
    with redis_kit.Redis("--busy-reply-threshold", "1") as redis:
        client, other = redis.client(), redis.client()

        def begin():
            client.send("EVAL", "while true do end", 0)
            while other.ask("GET", "x") is None:
                pass

        def end():
            serve.expect(redis.ask("SCRIPT", "KILL"), "OK")
            assert "killed" in client.read().text

        check_fault("BUSY", redis, None, begin, end)


def test_R12_password_changed():
    with redis_kit.Redis() as redis:
        control = redis.client()

        def begin():
            serve.expect(control.ask("CONFIG", "SET", "requirepass", "another"), "OK")
            control.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

        def end():
            serve.expect(control.ask("CONFIG", "SET", "requirepass", ""), "OK")

        check_fault("NOAUTH", redis, None, begin, end)


def test_noscript_is_no_fault():
    """SCRIPT FLUSH between calls: the script is sent again, and nobody notices."""
    with by_way() as (redis, way), \
            redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1"], deadline_ms=5000) as server:
        redis_kit.wait_well(server, attributes=NOBODY)
        asker = Asker(server)
        for turn in range(6):
            serve.expect(redis.ask("SCRIPT", "FLUSH"), "OK")
            for kind in ("local", "allow", "deny"):
                serve.expect(asker.ask(WAYS[turn % 4], kind, f"u{turn}"), ("allow", False))
        way.script_calls.clear()
        serve.expect(redis.ask("SCRIPT", "FLUSH"), "OK")
        answers = asker.resp2.pipeline([("RATION.CHECK", "user", "many", "path", "/deny")] * (BURST + 4))
        serve.expect([(serve.pairs(answer)[b"verdict"], serve.pairs(answer)[b"degraded"]) for answer in answers],
                     [(b"allow", 0)] * BURST + [(b"deny", 0)] * 4, "a pipeline")
        serve.expect(redis.calls("eval") >= 1, True, "EVAL")


# Faults on the way ------------------------------------------------------------------------------

def test_R12_slow():
    check_way("slow", redis_kit.delay(.07))


def test_R12_always_slow():
    """A Redis that answers all, and always too late: not everybody waits for it."""
    for seconds in .03, .05, .2:
        with by_way() as (redis, way), \
                redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1"]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            way.fault = redis_kit.delay(seconds)
            asker = Asker(server)
            slow_count = count = 0
            end = time.monotonic() + 1
            while time.monotonic() < end:
                asker.slowest = 0
                serve.expect(asker.ask("resp", "allow", f"u{count}"), ("allow", True))
                slow_count += asker.slowest > redis_kit.DEADLINE_MS / 2000
                count += 1
                time.sleep(.001)
            print(f"       {seconds * 1000:.0f} ms each: of {count} answers {slow_count} waited for the deadline")
            assert slow_count < count / 4


def test_R12_silent():
    check_way("silent", redis_kit.silence)


def test_R12_cut_answers():
    check_way("cut", redis_kit.cut)


def test_R12_garbage():
    check_way("garbage", redis_kit.garbage)


def test_R12_loading():
    """By a connection that stays, and by those that are made."""
    loading = redis_kit.error("LOADING Redis is loading the dataset in memory")
    check_way("LOADING", loading)
    check_way("LOADING-anew", loading, loading, is_lost=True)


def test_R12_moved():
    check_way("MOVED", redis_kit.error("MOVED 866 127.0.0.1:6380"))


def test_R12_other_answers():
    """What is RESP, and no answer of the script."""
    for number, answer in enumerate((b"+OK\r\n", b":1\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"*3\r\n:1\r\n:1\r\n:1\r\n",
                                     b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", b"*4\r\n:-1\r\n:1\r\n:1\r\n$-1\r\n",
                                     b"*4\r\n:1\r\n:1000000000\r\n:1\r\n$-1\r\n", b"*4\r\n:1\r\n:1\r\n:0\r\n$-1\r\n",
                                     b"*4\r\n:1\r\n:1\r\n:1\r\n$3\r\n1 x\r\n",
                                     b"*5\r\n:1\r\n:1\r\n:1\r\n$-1\r\n$-1\r\n")):
        with by_way() as (redis, way), \
                redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1", "--nodes", str(NODES)]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            way.fault = lambda real, asked_at, answer=answer: answer
            asker = Asker(server)
            for kind, verdict in ("local", "allow"), ("allow", "allow"), ("deny", None):
                serve.expect(asker.ask("resp", kind, f"u{number}"), (verdict, True), f"{kind} after {answer}")


def test_R12_nothing_is_sent_twice():
    """Whoever was not answered may have been charged, and is not asked for again: not when it is late, nor when
    the connection is lost, nor when Redis is back."""
    for name, fault in (("silence", redis_kit.silence), ("delay", redis_kit.delay(.07)), ("cut", redis_kit.cut),
                        ("garbage", redis_kit.garbage), ("error", redis_kit.error("LOADING"))):
        with by_way() as (redis, way), \
                redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1"]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            asker = Asker(server)
            way.fault = fault
            users = [f"{name}{number}" for number in range(40)]
            for number, user in enumerate(users):
                serve.expect(asker.ask(WAYS[number % 4], "allow", user), ("allow", True))
            way.fault = None
            redis_kit.wait_well(server, attributes=NOBODY)
            calls = [way.calls_of(user) for user in users]
            serve.expect((max(calls), calls[0]), (1, 1), f"calls of the script with {name}, at most and for the first")
            buckets = redis.ask("KEYS", "*:allow")
            serve.expect(len(buckets), sum(calls), "who was sent, was charged")


def best_of(attempts, measure):
    """The least of what measure() tells, of so many attempts at most."""
    best = measure()
    for _ in range(attempts - 1):
        if best <= LATEST_SECONDS:
            break
        best = min(best, measure())
    return best


def test_R12_a_pipeline_is_late_once():
    """Many checks that Redis does not answer wait together, not one after the other."""
    def measure():
        with by_way() as (redis, way), \
                redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1"]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            way.fault = redis_kit.silence
            client = server.resp()
            began = time.monotonic()
            answers = client.pipeline([("RATION.CHECK", "user", "u", "path", "/allow")] * 50)
            took = time.monotonic() - began
            assert all(map(redis_kit.is_degraded, answers))
            return took

    took = best_of(ATTEMPTS, measure)
    assert took <= LATEST_SECONDS, f"{took * 1000:.1f} ms"


def test_R12_noscript_and_then_nothing():
    """Both calls together have one deadline."""
    def late_noscript(answer, asked_at):
        if answer.startswith(b"-NOSCRIPT"):
            time.sleep(.012)
            return answer
        return b""

    def measure():
        with by_way() as (redis, way), \
                redis_kit.serve_with(BINARY, way.url, POLICY, ["--threads", "1"]) as server:
            redis_kit.wait_well(server, attributes=NOBODY)
            serve.expect(redis.ask("SCRIPT", "FLUSH"), "OK")
            way.fault = late_noscript
            asker = Asker(server)
            serve.expect(asker.ask("resp", "deny", "u"), (None, True))
            return asker.slowest

    took = best_of(ATTEMPTS, measure)
    assert took <= LATEST_SECONDS, f"{took * 1000:.1f} ms"


serve.run()
