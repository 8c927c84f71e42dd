#!/usr/bin/env python3
"""One table of rows, the same results everywhere (R9): a server decides each row over each protocol like the library's
engine, to the nanosecond.

    rows_test.py RATION ROWS_SERVED_TEST [--redis] [--lie] FILE...

rows_served_test reads the rows and runs them on the engine; this program sends its lines to one server with a manual
clock. Each route has a key of its own, so that each one runs the whole sequence:

    resp      RATION.CHECK, RATION.PEEK      resp3     the same in RESP3
    http      POST /v1/check, /v1/peek       get       GET /v1/check, with the attributes in the query
    key       POST /v1/check with key and limit, for limits that may be inline
    throttle  CL.THROTTLE, for periods of whole seconds; gcra: GCRA, for any period

--lie adds a token to one reply; the test must notice it.

--redis puts a redis-server behind the server, which must decide every row: no reply may be degraded.
"""
import decimal
import os
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "redis")]
import redis_kit
import serve

INT64_MAX = (1 << 63) - 1
FOREVER = (1 << 64) - 1
NS_PER_S = 10 ** 9
CLOCK_MAX_NS = 544924752303423487  # RATION_LIMITER_TIME_MAX_NS
SECRET = "secret"  # a GET with a cost or a limit needs one
AUTHORIZATION = {"Authorization": f"Bearer {SECRET}"}

FIELDS = ("verdict", "remaining", "retry_after_ns", "reset_after_ns", "delay_ns")


def bounded(number):
    """A count, limited to what RESP can express."""
    return min(number, INT64_MAX)


class Rows:
    def __init__(self, server, is_lying):
        self.server = server
        self.is_lying = is_lying
        self.resp2 = server.resp(password=SECRET)
        self.resp3 = server.resp(version=3, password=SECRET)
        self.web = server.http_connection()
        self.limit_number = 0
        self.counts = {}

    # The policy --------------------------------------------------------------------------------

    def write_policy(self, text):
        self.server.write_policy(f'limits: [{{name: row{self.limit_number}, key: user, max_keys: 100, '
                                 f'rate: "{text}"}}]\n')
        answer = self.resp2.ask("RATION.RELOAD")
        if isinstance(answer, serve.RespError):
            raise AssertionError(f"{text}: {answer.text}")
        return answer.decode()

    def open(self, words, text):
        """A limit of a new name has new buckets."""
        self.set_clock(0)
        self.limit_number += 1
        self.key = f"key{self.limit_number}"
        is_plain, self.tokens, period_ns, self.burst = (int(word) for word in words)
        self.text = text
        self.period_s, rest = divmod(period_ns, NS_PER_S)
        # Inline limits have no refund, so those routes are dropped when they no longer have the engine's state.
        self.routes = {"resp", "resp3", "http", "get"}
        if is_plain:
            self.routes.add("key")
        self.period_text = in_seconds(period_ns)
        if is_plain and self.tokens <= INT64_MAX and self.burst <= INT64_MAX:
            self.routes |= {"gcra"} if rest else {"throttle", "gcra"}
        self.write_policy(text)
        return "same"

    def change(self, now, text):
        self.set_clock(now)
        changes = self.write_policy(text)
        self.routes -= {"key", "throttle", "gcra"}
        for route in sorted(self.routes):
            self.ask(route, False, 0)
        self.text = text
        return "same" if "changed" in changes or "reset" in changes or "nothing" in changes \
            else f"the reload said {changes!r}"

    def set_clock(self, now):
        """Sets the clock. A now beyond its end, which would be refused, counts as the end."""
        serve.expect(self.resp2.ask("RATION.CLOCK", "SET", min(now, CLOCK_MAX_NS)), "OK")

    # Decisions ---------------------------------------------------------------------------------

    def ask(self, route, is_peek, cost):
        """The five fields, or None if this route cannot send that request."""
        if route in ("resp", "resp3"):
            client = self.resp2 if route == "resp" else self.resp3
            answer = client.ask("RATION.PEEK" if is_peek else "RATION.CHECK", "COST", cost, "user", route)
            if isinstance(answer, serve.RespError):
                raise AssertionError(answer.text)
            answer = serve.pairs(answer)
            serve.expect(answer[b"degraded"], 0, "degraded")
            values = [answer[field.encode()] for field in FIELDS]
            return [values[0].decode(), *(FOREVER if value == -1 else value for value in values[1:])]
        if route in ("http", "key"):
            if cost > INT64_MAX:
                return None  # the server's JSON has no such number and refuses it: see http_test.py
            body = {"attributes": {"user": route}} if route == "http" else \
                {"key": self.key, "limit": self.text}
            status, _, answer = self.server.http("POST", "/v1/peek" if is_peek else "/v1/check",
                                                 dict(body, cost=cost), connection=self.web)
            serve.expect(status, 200, f"{route}: {answer}")
            return self.of_json(answer)
        if route == "get":
            return self.ask_get(is_peek, cost)
        return self.ask_throttle(route, is_peek, cost)

    def ask_get(self, is_peek, cost):
        """A denial is a 429 with rounded header fields, so the exact values are read by a peek, which the other routes
        prove correct."""
        query = urllib.parse.urlencode({"user": "get", "cost": cost, "peek": "true" if is_peek else "false"})
        status, headers, answer = self.server.http("GET", "/v1/check?" + query, headers=AUTHORIZATION,
                                                   connection=self.web)
        if status == 200:
            return self.of_json(answer)
        serve.expect(status, 429, f"GET: {answer}")
        if cost > INT64_MAX:
            return None
        reported = headers.get("Retry-After")
        peek = self.of_json(self.server.http("POST", "/v1/peek", {"attributes": {"user": "get"}, "cost": cost},
                                             connection=self.web)[2])
        serve.expect(reported, None if peek[2] == FOREVER else str(-(-peek[2] // NS_PER_S)), "Retry-After")
        return peek

    @staticmethod
    def of_json(answer):
        serve.expect(answer["allowed"], answer["verdict"] == "allow", "allowed")
        serve.expect(answer.get("degraded"), None, "degraded")
        return [FOREVER if answer[field] is None else answer[field] for field in FIELDS]

    def ask_throttle(self, route, is_peek, cost):
        """The reply has only whole seconds, a peek has cost 0, and GCRA takes at least 1."""
        if (is_peek and cost > 0) or cost > INT64_MAX or (route == "gcra" and cost == 0):
            return None
        name = self.key + route
        if route == "throttle":
            return self.resp2.ask("CL.THROTTLE", name, self.burst - 1, self.tokens, self.period_s, cost)
        return self.resp2.ask("GCRA", name, self.burst - 1, self.tokens, self.period_text, "TOKENS", cost)

    def wanted(self, route, decision):
        verdict, remaining, retry, reset, delay = decision
        if route in ("resp", "resp3"):
            return [verdict, *(number if number == FOREVER else bounded(number)
                               for number in (remaining, retry, reset, delay))]
        if route in ("throttle", "gcra"):
            wait = -1 if verdict != "deny" else -(-retry // NS_PER_S)
            return [int(verdict != "allow"), bounded(self.burst), bounded(remaining), wait, -(-reset // NS_PER_S)]
        return list(decision)

    def decide(self, is_peek, now, cost, decision):
        errors = []
        self.set_clock(now)
        for route in sorted(self.routes):
            got = self.ask(route, is_peek, cost)
            if got is None:
                if not is_peek and decision[0] == "allow":
                    self.routes.discard(route)  # this route was not charged what the others were
                continue
            if self.is_lying and route == "http" and not is_peek:
                got[1] += 1
            self.counts[route] = self.counts.get(route, 0) + 1
            wanted = self.wanted(route, decision)
            if got != wanted:
                errors.append(f"{route} answered {got}, and the engine {wanted}")
        return "; ".join(errors) or "same"

    # Changes -----------------------------------------------------------------------------------

    def admin_op(self, call, now, number):
        self.set_clock(now)
        for route in sorted(self.routes):
            if route in ("key", "throttle", "gcra"):
                self.routes.discard(route)
            elif route in ("resp", "resp3") and not (call == "block" and (number - now) % 10 ** 6):
                serve.expect(self.admin_op_over_resp(route, call, now, number), 1, call)
            else:
                self.admin_op_over_http(route, call, now, number)
        if call == "set" and number < self.burst:
            for route in sorted(self.routes):
                self.ask(route, False, self.burst - number)
        return "same"

    def admin_op_over_resp(self, route, call, now, number):
        words = {"refund": ("RATION.REFUND", "TOKENS", number), "set": ("RATION.RESET",),
                 "block": ("RATION.BLOCK", "MS", max(number - now, 0) // 10 ** 6)}[call]
        return self.resp3.ask(*words, "user", route)

    def admin_op_over_http(self, route, call, now, number):
        """RESP sends what JSON cannot express: a refund of 2^64 - 1."""
        if number > INT64_MAX or (call == "block" and number <= now):
            serve.expect(self.admin_op_over_resp(route, call, now, number), 1, call)
            return
        more = {"refund": {"tokens": number}, "set": {}, "block": {"ns": number - now}}[call]
        path = {"refund": "/v1/refund", "set": "/v1/reset", "block": "/v1/block"}[call]
        status, _, answer = self.server.http("POST", path, {"attributes": {"user": route}, **more},
                                             AUTHORIZATION, connection=self.web)
        serve.expect((status, answer), (200, {"changed": 1}), call)

    def answer(self, line):
        words = line.split(" ")
        if words[0] == "limit":
            return self.open(words[1:5], " ".join(words[5:]))
        if words[0] == "change":
            return self.change(int(words[1]), " ".join(words[2:]))
        if words[0] in ("take", "peek"):
            return self.decide(words[0] == "peek", int(words[1]), int(words[2]),
                               [words[3], *map(int, words[4:])])
        return self.admin_op(words[0], int(words[1]), int(words[2]))


def in_seconds(ns):
    """The exact value in seconds, without trailing zeros."""
    text = f"{decimal.Decimal(ns).scaleb(-9):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def put_rows(server, reader_command, is_lying):
    """Sends all rows to the server; returns the status of the program that reads them."""
    rows = Rows(server, is_lying)
    with subprocess.Popen(reader_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as reader:
        for line in reader.stdout:
            try:
                said = rows.answer(line.rstrip("\n"))
            except AssertionError as error:
                said = f"{line.rstrip()}: {error}"
            reader.stdin.write(said.replace("\n", " ") + "\n")
            reader.stdin.flush()
        reader.stdin.close()
    print("decisions compared:", " ".join(f"{route} {count}" for route, count in sorted(rows.counts.items())))
    return reader.returncode


def main():
    arguments = [argument for argument in sys.argv[1:] if argument not in ("--lie", "--redis")]
    is_lying = "--lie" in sys.argv
    policy = "limits: [{name: row0, key: user, rate: 1/s}]\n"
    options = ["--manual-clock", "--threads", "1", "--admin-secret", SECRET]
    if "--redis" in sys.argv:
        with redis_kit.Redis() as redis, \
                redis_kit.serve_with(arguments[0], redis.url, policy, options, deadline_ms=10000) as server:
            redis_kit.wait_well(server)
            status = put_rows(server, arguments[1:], is_lying)
            print("calls of the script:", redis.calls("evalsha", "eval"))
    else:
        with serve.Server(arguments[0], policy=policy, options=options) as server:
            status = put_rows(server, arguments[1:], is_lying)
    sys.exit(status)


main()
