"""A server through an outage of Redis (R12): each mode with each on_redis_error, over each protocol.

    outage.check(BINARY, "OOM", redis.url, begin, end)

While it lasts each answer comes within the deadline and is the stated one. Not degraded, since Redis need not be
asked, are

    local-first   a key whose own bucket is above the threshold
    lease         a key with tokens of a lease, until they are spent or the lease ends

and all else is degraded, by on_redis_error:

    local   allowed as far as this node's share goes, then denied
    allow   allowed
    deny    503 with a problem in JSON, and an error by RESP: never 429, never a denial

When it is over Redis decides again in the stated time, and what was taken meanwhile is reported to it.
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
AT_HAND = {"strict": 0, "lease": 0, "local-first": BURST // 2}  # what a fresh key has without Redis
LIMITS = [(mode, kind) for mode in MODES for kind in KINDS]

# Limits for keys that have a lease when the outage begins: one that outlasts it, and one that ends in it.
BRIEF_SECONDS = .2
LEASES = {"lasting": "redis_mode: lease, lease: 60s", "brief": f"redis_mode: lease, lease: {BRIEF_SECONDS * 1000:.0f}ms"}
LEASES_BURST = 160
LEASE_MAX = LEASES_BURST // 4 // NODES  # too few to draw more of them ahead of need

# Tables are small: the first touch of a huge page, which the kernel clears, takes as long as many decisions.
POLICY = "limits:\n" + "".join(
    f"  - {{name: {mode}-{kind}, match: {{path: /{mode}-{kind}}}, key: user, max_keys: 1k, rate: 1/day, burst: {burst}, "
    f"on_redis_error: {kind}, {how}}}\n"
    for burst, modes in ((BURST, MODES), (LEASES_BURST, LEASES)) for mode, how in modes.items() for kind in KINDS)
NOBODY = ("user", "nobody", "path", "/strict-local")
OPTIONS = ["--threads", "1", "--node-count", str(NODES), "--inline-keys", "1k"]
LATEST_SECONDS = (redis_kit.DEADLINE_MS + 5) / 1000
HANGS_SECONDS = 5
ATTEMPTS = 5  # at a measurement that others on the machine can spoil


# Asking -----------------------------------------------------------------------------------------

def read_resp(answer):
    """(verdict or None for an error, is degraded), as all ways tell it."""
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


def words(mode, kind, user):
    return "RATION.CHECK", "user", user, "path", f"/{mode}-{kind}"


def waited_seconds(process_id):
    """How long the threads of a process were ready and a busy machine did not run them, if that is known."""
    waited_ns = 0
    for task in os.listdir(f"/proc/{process_id}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{process_id}/task/{task}/schedstat", encoding="ascii") as file:
            waited_ns += int(file.read().split()[1])
    return waited_ns / 1e9


class Asker:
    """Asks a server, each way alike, and knows how long the slowest answer took: without the time in which the machine
    ran others instead of the server or of who asks it."""

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

    def ask(self, way, mode, kind, user):
        return self.timed(getattr(self, way), mode, kind, user)

    def resp(self, mode, kind, user):
        return read_resp(self.resp2.ask(*words(mode, kind, user)))

    def resp_3(self, mode, kind, user):
        return read_resp(self.resp3.ask(*words(mode, kind, user)))

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

    def draw_lease(self, mode, kind, user):
        """Asks until there is a lease, and reports how many tokens are left of it: few, where Redis has many."""
        for _ in range(100):
            answer = self.resp2.ask(*words(mode, kind, user))
            if read_resp(answer) == ("allow", False) and 1 < serve.pairs(answer)[b"remaining"] <= LEASE_MAX:
                return serve.pairs(answer)[b"remaining"]
        raise AssertionError(f"no lease for {user} of {mode}: {answer}")


WAYS = ("resp", "resp_3", "post", "get")


# What is stated ---------------------------------------------------------------------------------

def fallback(kind):
    """Answers to one who asks again and again, and whom Redis should have answered."""
    return {"local": [("allow", True)] * SHARE + [("deny", True)] * 2,
            "allow": [("allow", True)] * (BURST + 2),
            "deny": [(None, True)] * 2}[kind]


def by_hand(count):
    return [("allow", False)] * count


def check_together(asker, user):
    """All limits in one pipeline, so that each meets the failure before Redis is given up."""
    asked, wanted = [], []
    for mode, kind in LIMITS:
        answers = by_hand(AT_HAND[mode]) + fallback(kind)[:1]
        wanted += [(mode, kind, *answer) for answer in answers]
        asked += [(mode, kind)] * len(answers)
    got = asker.pipeline([words(mode, kind, user) for mode, kind in asked])
    serve.expect([(*limit, *answer) for limit, answer in zip(asked, got)], wanted, "all in a pipeline")


def check_fresh(asker, tag):
    """All limits each way, by users that nobody has asked for."""
    for way in WAYS:
        for mode, kind in LIMITS:
            wanted = by_hand(AT_HAND[mode]) + fallback(kind)
            serve.expect([asker.ask(way, mode, kind, f"{tag}-{way}") for _ in wanted], wanted,
                         f"{mode}, {kind} by {way}")


def check_others(asker, tag):
    """A limit that comes with the request, and checks in one request."""
    limited = [asker.resp2.ask("CL.THROTTLE", tag, BURST - 1, 1, 10800)[0] for _ in range(SHARE + 1)]
    serve.expect(limited, [0] * SHARE + [1], "CL.THROTTLE")
    status, _, body = asker.server.http("POST", "/v1/check", {"checks": [
        {"attributes": {"user": tag, "path": f"/{mode}-{kind}"}} for mode, kind in LIMITS]})
    serve.expect(status, 200, body)
    serve.expect([result.get("degraded", "error" in result) for result in body["results"]],
                 [AT_HAND[mode] == 0 for mode, _ in LIMITS], "a batch")


def check_outage(asker, tag):
    check_together(asker, f"{tag}-together")
    check_fresh(asker, tag)
    check_others(asker, tag)


# What is at hand when it begins, and what is owed when it ends -------------------------------------

class Holders:
    """Keys with leases, and later with debts that were not reported to Redis."""

    def __init__(self, asker, tag):
        self.asker = asker
        self.tag = tag
        self.tokens = {kind: asker.draw_lease("lasting", kind, tag) for kind in KINDS}
        for kind in KINDS:
            asker.draw_lease("brief", kind, tag)
        self.ended = time.monotonic() + BRIEF_SECONDS

    def check_lasting(self):
        """What was drawn is spent, and then Redis is missed."""
        for way, (kind, count) in zip(WAYS, self.tokens.items()):
            wanted = by_hand(count) + fallback(kind)[:1]
            serve.expect([self.asker.ask(way, "lasting", kind, self.tag) for _ in wanted], wanted, f"a lease, {kind}")

    def check_brief(self):
        """Nothing of a lease is spent after its end."""
        time.sleep(max(self.ended - time.monotonic(), 0))
        for way, kind in zip(WAYS, KINDS):
            serve.expect([self.asker.ask(way, "brief", kind, self.tag)], fallback(kind)[:1], f"an ended lease, {kind}")

    def owe(self):
        """All that is at hand is taken, by some who then are silent and by some who miss Redis, too."""
        for attempt in range(ATTEMPTS):
            for kind in KINDS:
                taken = by_hand(AT_HAND["local-first"])
                for who, wanted in ("silent", taken), ("asking", taken + fallback(kind)[:1]):
                    user = f"{self.tag}-{who}{attempt}"
                    serve.expect([self.asker.ask("post", "local-first", kind, user) for _ in wanted], wanted,
                                 f"above the threshold, {kind}")

    def check_reported(self, attempt):
        """Redis knows of all that was taken. Of those who missed it, it may have been reported before and not answered."""
        for kind in KINDS:
            for who in "silent", "asking":
                answer = self.asker.resp2.ask(*words("local-first", kind, f"{self.tag}-{who}{attempt}"))
                assert read_resp(answer)[1] is False, f"Redis is well, and not asked: {answer}"
                reported = BURST - 1 - serve.pairs(answer)[b"remaining"]
                assert reported == AT_HAND["local-first"] or (who == "asking" and reported > AT_HAND["local-first"]), \
                    f"{reported} tokens were reported to Redis by a node that was {who}, {kind}"


# Outages ------------------------------------------------------------------------------------------

def measure(asker, name, begin, end):
    """An outage, and again until a measurement was not spoilt: all answers within the deadline and 5 ms. Each
    time Redis was well before, so that some are asked whom it does not answer. Returns the slowest answer and
    how long it took until Redis decided again."""
    for attempt in range(ATTEMPTS):
        holders = Holders(asker, f"{name}{attempt}")
        asker.slowest = 0
        begin()
        check_outage(asker, f"{name}{attempt}")
        holders.check_lasting()
        holders.owe()
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
    """Redis decides, unless it is late on a busy machine: then once more, by other users."""
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
        for way in WAYS:
            for mode, kind in LIMITS:
                user = f"{tag}{attempt}-{way}"
                serve.expect([asker.ask(way, mode, kind, user) for _ in range(BURST)], [("allow", False)] * BURST,
                             f"{mode}, {kind} by {way}, by Redis")
                got = asker.ask(way, mode, kind, user)
                serve.expect(got, ("deny", False), f"{mode}, {kind} by {way}, by Redis")

    retry(asker, check_attempt)


def tell(name, slowest, took):
    print(f"       {name:12} slowest answer {slowest * 1000:5.1f} ms, Redis decides again after {took:.2f} s")


def serve_on(binary, url, **more):
    return redis_kit.serve_with(binary, url, POLICY, OPTIONS, **more)


def check(binary, name, url, begin, end):
    """begin() and end() of an outage of the Redis that a server has found well."""
    with serve_on(binary, url) as server:
        redis_kit.wait_well(server, attributes=NOBODY)
        asker = Asker(server)
        check_well(asker, f"{name}-before")
        slowest, took = measure(asker, name, begin, end)
        check_well(asker, f"{name}-after")
        tell(name, slowest, took)


def check_from_the_start(binary, name, url, begin, end):
    """A server starts in an outage, decides, and finds Redis when it comes."""
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
            tell(name, slowest, took)
            return
    raise AssertionError(f"{name}: an answer took {slowest * 1000:.1f} ms, {ATTEMPTS} times")
