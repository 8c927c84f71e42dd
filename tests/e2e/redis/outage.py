"""A server through an outage of Redis (R12): each mode with each on_redis_error, over each protocol.

    outage.check(BINARY, "OOM", redis.url, begin, end)

During the outage each reply arrives within the timeout and is the documented one. Two kinds of keys are not marked
degraded, because the node may decide them without Redis:

    local-first   a key whose local bucket is above the threshold
    lease         a key with tokens of a lease, until they are spent or the lease ends

All other replies are marked degraded and follow on_redis_error:

    local   allowed up to this node's share, then denied
    allow   allowed
    deny    503 with a JSON problem, or a RESP error: never 429, never a denial

After the outage Redis decides again within the documented time, and the node reports to it what was taken meanwhile.
"""
import contextlib
import os
import time

import redis_kit
import serve

BURST, NODES = 8, 4
SHARE = BURST // NODES
KINDS = ("local", "allow", "deny")
MODES = {"strict": "redis_mode: strict", "lease": "redis_mode: lease", "local-first": "redis_mode: local_first, threshold: 50"}
LOCAL_TOKENS = {"strict": 0, "lease": 0, "local-first": BURST // 2}  # tokens that a new key has without Redis
LIMITS = [(mode, kind) for mode in MODES for kind in KINDS]

# Limits for keys that have a lease when the outage begins: one lease outlasts the outage, one ends during it.
BRIEF_SECONDS = .2
LEASES = {"lasting": "redis_mode: lease, lease: 60s", "brief": f"redis_mode: lease, lease: {BRIEF_SECONDS * 1000:.0f}ms"}
LEASES_BURST = 160
LEASE_MAX = LEASES_BURST // 4 // NODES  # so few that the node acquires no further lease ahead of need

# Tables are small: the first touch of a huge page, which the kernel clears, takes as long as many decisions.
POLICY = "limits:\n" + "".join(
    f"  - {{name: {mode}-{kind}, match: {{path: /{mode}-{kind}}}, key: user, max_keys: 1k, rate: 1/day, burst: {burst}, "
    f"on_redis_error: {kind}, {how}}}\n"
    for burst, modes in ((BURST, MODES), (LEASES_BURST, LEASES)) for mode, how in modes.items() for kind in KINDS)
NOBODY = ("user", "nobody", "path", "/strict-local")
OPTIONS = ["--threads", "1", "--node-count", str(NODES), "--inline-keys", "1k"]
LATEST_SECONDS = (redis_kit.DEADLINE_MS + 5) / 1000
HANGS_SECONDS = 5
ATTEMPTS = 5  # for a measurement that other processes on the machine can disturb


# Asking -----------------------------------------------------------------------------------------

def read_resp(answer):
    """(verdict, or None for an error; is degraded), in the form that all protocols use here."""
    if isinstance(answer, serve.RespError):
        assert "Redis" in answer.text, answer
        return None, True
    answer = serve.pairs(answer)
    return answer[b"verdict"].decode(), answer[b"degraded"] == 1


def read_http(answer, denied_status):
    status, headers, body = answer
    if status == 503:
        serve.expect(headers["Content-Type"], "application/problem+json")
        serve.expect(body["status"], 503)
        serve.expect(body["type"].partition("#")[2], "temporary-reduced-capacity")
        assert "Redis" in body["detail"], body
        return None, True
    serve.expect(status, 200 if body["allowed"] else denied_status, f"status of {body}")
    return body["verdict"], body.get("degraded", False)


def check_command(mode, kind, user):
    return "RATION.CHECK", "user", user, "path", f"/{mode}-{kind}"


def waited_seconds(process_id):
    """How long the threads of a process were ready but not scheduled, if the kernel reports it."""
    waited_ns = 0
    for task in os.listdir(f"/proc/{process_id}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{process_id}/task/{task}/schedstat", encoding="ascii") as file:
            waited_ns += int(file.read().split()[1])
    return waited_ns / 1e9


class Asker:
    """Sends requests to a server over every protocol, and measures the slowest reply, without the time in which the
    machine ran other processes instead of the server or this test."""

    def __init__(self, server):
        self.server = server
        self.resp2, self.resp3 = server.resp(), server.resp(version=3)
        self.web = server.http_connection()
        self.slowest = 0

    def waited(self):
        return waited_seconds(self.server.process.pid) + waited_seconds("self")

    def timed(self, ask, *arguments):
        waited, began = self.waited(), time.monotonic()
        answer = ask(*arguments)
        took = time.monotonic() - began
        self.slowest = max(self.slowest, took - (self.waited() - waited))
        return answer

    def ask(self, protocol, mode, kind, user):
        return self.timed(getattr(self, protocol), mode, kind, user)

    def resp(self, mode, kind, user):
        return read_resp(self.resp2.ask(*check_command(mode, kind, user)))

    def resp_3(self, mode, kind, user):
        return read_resp(self.resp3.ask(*check_command(mode, kind, user)))

    def post(self, mode, kind, user):
        attributes = {"user": user, "path": f"/{mode}-{kind}"}
        return read_http(self.server.http("POST", "/v1/check", {"attributes": attributes}, connection=self.web), 200)

    def get(self, mode, kind, user):
        answer = self.server.http("GET", f"/v1/check?user={user}&path=/{mode}-{kind}", connection=self.web)
        if answer[0] == 429:
            serve.expect(answer[1]["Content-Type"], "application/problem+json")
            return "deny", answer[2].get("degraded", False)
        return read_http(answer, None)

    def pipeline(self, commands):
        return [read_resp(answer) for answer in self.timed(self.resp2.pipeline, commands)]

    def acquire_lease(self, mode, kind, user):
        """Sends checks until the node has a lease; returns how many tokens are left in it: few, although Redis has many."""
        for _ in range(100):
            answer = self.resp2.ask(*check_command(mode, kind, user))
            if read_resp(answer) == ("allow", False) and 1 < serve.pairs(answer)[b"remaining"] <= LEASE_MAX:
                return serve.pairs(answer)[b"remaining"]
        raise AssertionError(f"no lease for {user} of {mode}: {answer}")


PROTOCOLS = ("resp", "resp_3", "post", "get")


# The documented replies --------------------------------------------------------------------------

def fallback(kind):
    """The replies to repeated checks of one key that Redis should have decided."""
    return {"local": [("allow", True)] * SHARE + [("deny", True)] * 2,
            "allow": [("allow", True)] * (BURST + 2),
            "deny": [(None, True)] * 2}[kind]


def local_answers(count):
    return [("allow", False)] * count


def check_together(asker, user):
    """All limits in one pipeline, so that each meets the failure before the node stops calling Redis."""
    asked, wanted = [], []
    for mode, kind in LIMITS:
        answers = local_answers(LOCAL_TOKENS[mode]) + fallback(kind)[:1]
        wanted += [(mode, kind, *answer) for answer in answers]
        asked += [(mode, kind)] * len(answers)
    got = asker.pipeline([check_command(mode, kind, user) for mode, kind in asked])
    serve.expect([(*limit, *answer) for limit, answer in zip(asked, got)], wanted, "all in a pipeline")


def check_fresh(asker, tag):
    """All limits over each protocol, with new users."""
    for protocol in PROTOCOLS:
        for mode, kind in LIMITS:
            wanted = local_answers(LOCAL_TOKENS[mode]) + fallback(kind)
            serve.expect([asker.ask(protocol, mode, kind, f"{tag}-{protocol}") for _ in wanted], wanted,
                         f"{mode}, {kind} by {protocol}")


def check_others(asker, tag):
    """An inline limit, and several checks in one request."""
    limited = [asker.resp2.ask("CL.THROTTLE", tag, BURST - 1, 1, 10800)[0] for _ in range(SHARE + 1)]
    serve.expect(limited, [0] * SHARE + [1], "CL.THROTTLE")
    status, _, body = asker.server.http("POST", "/v1/check", {"checks": [
        {"attributes": {"user": tag, "path": f"/{mode}-{kind}"}} for mode, kind in LIMITS]})
    serve.expect(status, 200, body)
    serve.expect([result.get("degraded", "error" in result) for result in body["results"]],
                 [LOCAL_TOKENS[mode] == 0 for mode, _ in LIMITS], "a batch")


def check_outage(asker, tag):
    check_together(asker, f"{tag}-together")
    check_fresh(asker, tag)
    check_others(asker, tag)


# Leases when the outage begins, and unreported use when it ends ------------------------------------

class Holders:
    """Keys with leases, and later with use that was not reported to Redis."""

    def __init__(self, asker, tag):
        self.asker = asker
        self.tag = tag
        self.tokens = {kind: asker.acquire_lease("lasting", kind, tag) for kind in KINDS}
        for kind in KINDS:
            asker.acquire_lease("brief", kind, tag)
        self.ended = time.monotonic() + BRIEF_SECONDS

    def check_lasting(self):
        """The tokens of the lease are spent, then the fallback decides."""
        for protocol, (kind, count) in zip(PROTOCOLS, self.tokens.items()):
            wanted = local_answers(count) + fallback(kind)[:1]
            serve.expect([self.asker.ask(protocol, "lasting", kind, self.tag) for _ in wanted], wanted, f"a lease, {kind}")

    def check_brief(self):
        """No token of a lease is spent after its end."""
        time.sleep(max(self.ended - time.monotonic(), 0))
        for protocol, kind in zip(PROTOCOLS, KINDS):
            serve.expect([self.asker.ask(protocol, "brief", kind, self.tag)], fallback(kind)[:1], f"an ended lease, {kind}")

    def spend_all(self):
        """Spends all local tokens; some keys then send no further request, others continue and meet the fallback."""
        for attempt in range(ATTEMPTS):
            for kind in KINDS:
                taken = local_answers(LOCAL_TOKENS["local-first"])
                for who, wanted in ("silent", taken), ("asking", taken + fallback(kind)[:1]):
                    user = f"{self.tag}-{who}{attempt}"
                    serve.expect([self.asker.ask("post", "local-first", kind, user) for _ in wanted], wanted,
                                 f"above the threshold, {kind}")

    def check_reported(self, attempt):
        """Redis knows all tokens that were taken. Use of the keys that continued may have been reported in an earlier call
        without a reply."""
        for kind in KINDS:
            for who in "silent", "asking":
                answer = self.asker.resp2.ask(*check_command("local-first", kind, f"{self.tag}-{who}{attempt}"))
                assert read_resp(answer)[1] is False, f"Redis is available, and not called: {answer}"
                reported = BURST - 1 - serve.pairs(answer)[b"remaining"]
                assert reported == LOCAL_TOKENS["local-first"] or (who == "asking" and reported > LOCAL_TOKENS["local-first"]), \
                    f"{reported} tokens were reported to Redis by a node that was {who}, {kind}"


# Outages ------------------------------------------------------------------------------------------

def measure(asker, name, begin, end):
    """Runs an outage, and repeats it until a measurement was not disturbed: all replies within the timeout and 5 ms. Redis
    is available before each, so that some calls are sent and not answered. Returns the time of the slowest reply and
    the time until Redis decided again."""
    for attempt in range(ATTEMPTS):
        holders = Holders(asker, f"{name}{attempt}")
        asker.slowest = 0
        begin()
        check_outage(asker, f"{name}{attempt}")
        holders.check_lasting()
        holders.spend_all()
        holders.check_brief()
        slowest = asker.slowest
        end()
        took = redis_kit.wait_well(asker.server, attributes=NOBODY)
        retry(asker, holders.check_reported)
        assert slowest < HANGS_SECONDS, f"{name}: an answer took {slowest:.3f} s"
        if slowest <= LATEST_SECONDS:
            return slowest, took
    raise AssertionError(f"{name}: an answer took {slowest * 1000:.1f} ms, {ATTEMPTS} times")


def retry(asker, check_attempt):
    """Redis decides. If it is late on a busy machine, tries once more with other users."""
    for attempt in range(ATTEMPTS):
        try:
            check_attempt(attempt)
            return
        except AssertionError:
            if attempt == ATTEMPTS - 1:
                raise
            redis_kit.wait_well(asker.server, attributes=NOBODY)


def check_well(asker, tag):
    def check_attempt(attempt):
        for protocol in PROTOCOLS:
            for mode, kind in LIMITS:
                user = f"{tag}{attempt}-{protocol}"
                serve.expect([asker.ask(protocol, mode, kind, user) for _ in range(BURST)], [("allow", False)] * BURST,
                             f"{mode}, {kind} by {protocol}, by Redis")
                got = asker.ask(protocol, mode, kind, user)
                serve.expect(got, ("deny", False), f"{mode}, {kind} by {protocol}, by Redis")

    retry(asker, check_attempt)


def print_result(name, slowest, took):
    print(f"       {name:12} slowest answer {slowest * 1000:5.1f} ms, Redis decides again after {took:.2f} s")


def serve_on(binary, url, **more):
    return redis_kit.serve_with(binary, url, POLICY, OPTIONS, **more)


def check(binary, name, url, begin, end):
    """An outage, from begin() to end(), of a Redis to which the server was connected."""
    with serve_on(binary, url) as server:
        redis_kit.wait_well(server, attributes=NOBODY)
        asker = Asker(server)
        check_well(asker, f"{name}-before")
        slowest, took = measure(asker, name, begin, end)
        check_well(asker, f"{name}-after")
        print_result(name, slowest, took)


def check_from_the_start(binary, name, url, begin, end):
    """A server starts during an outage, decides, and connects when Redis recovers."""
    for _ in range(ATTEMPTS):
        begin()
        with serve_on(binary, url) as server:
            asker = Asker(server)
            check_outage(asker, name)
            slowest = asker.slowest
            end()
            took = redis_kit.wait_well(server, attributes=NOBODY)
            check_well(asker, f"{name}-after")
        if slowest <= LATEST_SECONDS:
            print_result(name, slowest, took)
            return
    raise AssertionError(f"{name}: an answer took {slowest * 1000:.1f} ms, {ATTEMPTS} times")
