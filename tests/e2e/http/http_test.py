#!/usr/bin/env python3
"""The HTTP API as docs/openapi.yaml describes it: the test provokes every path, method and status in the document,
checks that every body matches its schema, and that the server sends nothing that is not in the document.

    http_test.py RATION OPENAPI.YAML
"""
import json
import os
import re
import socket
import sys

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve
from serve import expect

BINARY, DOCUMENT = sys.argv[1:3]
TOKEN = "open sesame"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
JSON = {"Content-Type": "application/json"}
POLICY = """
limits:
  - {name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}
  - {name: window, match: {path: /window}, key: user, rate: 3/10s fixed_window}
  - {name: quiet, match: {path: /login}, key: ip, rate: 1/min, burst: 1, shadow: true}
  - {name: all, match: {path: {prefix: /}}, rate: 1000/s}
exempt: [{user: root}]
banned: [{user: mallory}]
"""
MINUTE_NS = 60 * 10 ** 9

# Statuses that a client cannot provoke: no memory, an unavailable store, a server that shuts down.
UNREACHABLE = {("/v1/check", "get", "503"), ("/v1/check", "post", "503"), ("/v1/peek", "post", "503"),
               ("/v1/refund", "post", "503"), ("/v1/reset", "post", "503"), ("/v1/block", "post", "503"),
               ("/readyz", "get", "503")}


def plain(node):
    """Translates OpenAPI 3.0's nullable to JSON Schema."""
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {name: plain(item) for name, item in node.items()}
    if node.pop("nullable", False):
        node["type"] = [node["type"], "null"]
    return node


class Api:
    """Sends requests to a server, and compares each response with the document."""
    with open(DOCUMENT, encoding="utf-8") as file:
        document = yaml.safe_load(file)
    schemas = plain(document["components"]["schemas"])
    seen = set()

    def __init__(self, server):
        self.server = server
        self.connection = server.http_connection()

    def resolve(self, node):
        while "$ref" in node:
            place = self.document
            for step in node["$ref"].removeprefix("#/").split("/"):
                place = place[step]
            node = place
        return node

    def check(self, method, target, status, headers, body):
        path = target.partition("?")[0]
        methods = self.document["paths"].get(path, {})
        described = methods.get("get" if method == "HEAD" else method.lower())
        if described is None:
            expect(status, 405 if methods else 404, f"{method} {target}")
            content = self.resolve({"$ref": "#/components/responses/Problem"})["content"]
        else:
            responses = described["responses"]
            assert str(status) in responses, f"{method} {target}: {status} is not in the document: {body}"
            self.seen.add((path, "get" if method == "HEAD" else method.lower(), str(status)))
            response = self.resolve(responses[str(status)])
            content = response["content"]
            for name, value in headers.items():
                if name.startswith(("RateLimit", "X-RateLimit", "Retry-", "WWW-")):
                    assert name in response.get("headers", {}), f"{target}: {status} has {name}, which is not in the document"
        expect(headers.get_all("Cache-Control"), ["no-store"], f"{method} {target}: Cache-Control of every answer")
        kind = headers["Content-Type"].partition(";")[0]
        assert kind in content, f"{method} {target}: {status} is {kind}"
        if method != "HEAD" and "json" in kind:
            schema = {"allOf": [plain(content[kind]["schema"])], "components": {"schemas": self.schemas}}
            for error in jsonschema.Draft7Validator(schema).iter_errors(body):
                raise AssertionError(f"{method} {target}: {json.dumps(body)}: {error.message}")
        if "problem" in kind and method != "HEAD":
            expect(body["status"], status, "the status of the problem")

    def ask(self, status, method, target, body=None, headers=None):
        """The body of a response that must have this status."""
        got, got_headers, got_body = self.server.http(method, target, body, headers, connection=self.connection)
        self.check(method, target, got, got_headers, got_body)
        expect(got, status, f"{method} {target}: {got_body}")
        self.headers = got_headers
        return got_body


def start(*options, policy=POLICY):
    return serve.Server(BINARY, policy=policy, options=["--manual-clock", *options])


def who(path="/login", ip="192.0.2.1", **more):
    return {"attributes": {"path": path, "ip": ip}, **more}


def test_an_empty_line_before_a_request_is_ignored():
    with start() as server:
        get = b"GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n"
        last = b"GET /healthz HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
        post = b"POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"attributes\":{}}\r\n"
        for stream, count in ((b"\r\n" + last, 1), (post + b"\r\n" + get + b"\r\n" + last, 3)):
            answer = server.raw(server.http_port, stream)
            expect(answer.count(b"HTTP/1.1 200 OK\r\n"), count, repr(answer))


def test_check_for_proxies():
    with start("--admin-secret", TOKEN) as server:
        api = Api(server)
        one = "/v1/check?path=/login&ip=192.0.2.1"
        for left in 2, 1, 0:
            answer = api.ask(200, "GET", one)
            expect((answer["limit"], answer["remaining"]), ("login", left))
            expect(api.headers["RateLimit-Policy"], '"login";q=3;w=180, "all";q=1000;w=1')
            expect(api.headers["RateLimit"], f'"login";r={left};t=60, "all";r={997 + left};t=1')
        answer = api.ask(429, "GET", one)
        expect((api.headers["Retry-After"], api.headers["Cache-Control"]), ("60", "no-store"))
        expect(answer["violated-policies"], ["login"])
        api.ask(429, "GET", one + "&cost=4", None, ADMIN)
        expect(api.headers["Retry-After"], None, "no wait helps")
        api.ask(403, "GET", "/v1/check?user=mallory&path=/login")
        expect(api.headers["Cache-Control"], "no-store", "a ban may end, too")
        expect(api.ask(200, "GET", "/v1/check?user=root&path=/login")["limit"], None)
        api.ask(403, "GET", one + "&deny_status=403")
        for query in ("cost=x", "cost=-1", "cost=18446744073709551616", "key=k", "limit=1/s", "key=k&limit=nonsense", "%zz", "deny_status=999",
                      "path=/login&ip=nobody", "path=/login&path=/login", "peek=perhaps", "key=k&limit=1/s&path=/", "=x",
                      "&".join(f"a{number}=x" for number in range(65))):
            answer = api.ask(400, "GET", "/v1/check?" + query)
            assert answer["detail"], query
        expect(api.ask(200, "GET", "/v1/check?key=k&limit=10/s+burst+20&cost=7", None, ADMIN)["remaining"], 13)
        expect(api.ask(200, "GET", "/v1/check?key=k&limit=10/s+burst+20&cost=9&peek=true", None, ADMIN)["remaining"], 13)
        # An inline limit has the same name in the headers and in the body.
        for text, name in ("1/h", "default"), ("1/h+name+mine", "mine"):
            answer = api.ask(200, "GET", f"/v1/check?key={name}&limit={text}", None, ADMIN)
            expect((answer["limit"], api.headers["RateLimit-Policy"]), (name, f'"{name}";q=1;w=3600'))
            expect(api.ask(429, "GET", f"/v1/check?key={name}&limit={text}", None, ADMIN)["violated-policies"], [name])
            answer = api.ask(200, "POST", "/v1/peek", {"key": name, "limit": text.replace("+", " ")})
            expect((answer["limit"], answer["limits"][0]["limit"]), (name, name))
        # HEAD decides like GET, and reports the decision in its headers.
        expect(api.ask(200, "HEAD", "/v1/check?path=/login&ip=192.0.2.2"), b"")
        expect(api.ask(200, "GET", "/v1/check?path=/login&ip=192.0.2.2")["remaining"], 1)
        api.ask(429, "HEAD", one)
        assert int(api.headers["Content-Length"]) > 0 and api.headers["Retry-After"] == "60"


def test_another_status_for_denials():
    """A setting may replace status 429; the served document then has the other status, too."""
    with start("--deny-status", "403") as server:
        for status in 200, 200, 200, 403:
            expect(server.http("GET", "/v1/check?path=/login&ip=192.0.2.1")[0], status)


def test_checks():
    with start() as server:
        api = Api(server)
        answer = api.ask(200, "POST", "/v1/check", who())
        expect([(limit["limit"], limit["remaining"], limit.get("shadow", False)) for limit in answer["limits"]],
               [("login", 2, False), ("quiet", 0, True), ("all", 999, False)])
        expect(api.ask(200, "POST", "/v1/check", who(cost=2))["remaining"], 0)
        denied = api.ask(200, "POST", "/v1/check", who())
        expect((denied["allowed"], denied["verdict"], denied["retry_after_ns"]), (False, "deny", MINUTE_NS))
        never = api.ask(200, "POST", "/v1/check", who(cost=4))
        expect((never["verdict"], never["retry_after_ns"]), ("never", None))
        banned = api.ask(200, "POST", "/v1/check", {"attributes": {"user": "mallory"}})
        expect((banned["allowed"], banned["banned"], banned["verdict"]), (False, True, "never"))
        expect(api.ask(200, "POST", "/v1/check", {"attributes": {"user": "root"}})["burst"], None)
        expect(api.ask(200, "POST", "/v1/check", who(ip="192.0.2.9", peek=True))["remaining"], 3)
        expect(api.ask(200, "POST", "/v1/peek", who(ip="192.0.2.9"))["remaining"], 3)
        expect(api.ask(200, "POST", "/v1/check", {"key": "k", "limit": {"tokens": 5, "period": "1s", "burst": 9}})["remaining"], 8)
        expect(api.ask(200, "POST", "/v1/peek", {"key": "k", "limit": "5/s burst 9"})["remaining"], 8)
        # Over both protocols the same key has the same bucket.
        expect(server.resp().ask("CL.THROTTLE", "k", 8, 5, 1), [0, 9, 7, -1, 1])


WRONG = [
    (b"", ""), (b"{", ""), (b"[]", ""), (b"1", ""), (b"{} x", ""), (b"\xff", ""),
    (b"{}", ""), (b'{"attributes": {}, "attributes": {}}', ""), (b'{"attributes": []}', "/attributes"),
    (b'{"attributes": {"a": null}}', "/attributes/a"), (b'{"attributes": {"a/b": {}}}', "/attributes/a~1b"),
    (b'{"attributes": {}, "cost": -1}', "/cost"), (b'{"attributes": {}, "cost": 1.5}', "/cost"), (b'{"attributes": {}, "cost": "1"}', "/cost"),
    (b'{"attributes": {}, "cost": 9223372036854775808}', ""), (b'{"attributes": {}, "coast": 1}', "/coast"),
    (b'{"key": "k"}', "/limit"), (b'{"limit": "1/s"}', None), (b'{"key": "k", "limit": "1/fortnight"}', "/limit"),
    (b'{"key": "k", "limit": "1/s", "attributes": {}}', None), (b'{"key": "k", "limit": {"tokens": 0, "period": 1}}', "/limit/tokens"),
    (b'{"key": "k", "limit": "5/s fixed_window"}', None),
    (b'{"checks": []}', "/checks"), (b'{"checks": [{"attributes": {}}, {}]}', "/checks/1"), (b'{"checks": {}}', "/checks"),
    (b'{"checks": [{"attributes": {}}], "cost": 1}', "/cost"), (b'{"checks": [{"attributes": {}}, {"attributes": {}, "cost": true}]}', "/checks/1/cost"),
    (json.dumps({"checks": [{"attributes": {}}] * 1001}).encode(), "/checks"),
    (json.dumps({"attributes": {f"a{number}": "x" for number in range(65)}}).encode(), "/attributes"),
    (b'{"attributes": {"path": "/login", "ip": "nobody"}}', None), (b"[" * 10000, ""),
    (json.dumps({"key": "k" * 65536, "limit": "1/s"}).encode(), None),
]


def test_bodies_that_are_wrong():
    """Each error has its position: a pointer into the body, or a line and a column."""
    with start() as server:
        api = Api(server)
        for body, pointer in WRONG:
            answer = api.ask(400, "POST", "/v1/check", body, JSON)
            assert answer["detail"], body
            if pointer is not None:
                expect(answer.get("pointer"), pointer, f"{body[:80]}: {answer['detail']}: the pointer")
        api.ask(400, "POST", "/v1/peek", {"attributes": {}, "peek": True})
        for kind in {}, {"Content-Type": "text/plain"}, {"Content-Type": "application/jsonx"}, {"Content-Type": "multipart/form-data"}:
            api.ask(415, "POST", "/v1/check", b'{"attributes": {}}', kind)
        api.ask(415, "POST", "/v1/peek", b'{"attributes": {}}', {"Content-Type": "text/plain"})
        for kind in "application/json; charset=utf-8", "Application/JSON", "application/json ;x=y":
            api.ask(200, "POST", "/v1/check", b'{"attributes": {}}', {"Content-Type": kind})
        expect(server.resp().ask("DBSIZE"), 0, "a wrong body was charged")


def test_batches():
    with start() as server:
        api = Api(server)
        answer = api.ask(200, "POST", "/v1/check", {"checks": [who(), who(cost=2), who(), {"key": "k", "limit": "1/s burst 5"}]})
        expect([result["remaining"] for result in answer["results"]], [2, 0, 0, 4])
        expect([result["allowed"] for result in answer["results"]], [True, True, False, True])
        # A check that cannot be decided does not affect the others.
        answer = api.ask(200, "POST", "/v1/check", {"checks": [who(ip="192.0.2.3"), who(ip="nobody"), who(ip="192.0.2.3")]})
        expect([result.get("remaining", "error" in result) for result in answer["results"]], [2, True, 1])
        answer = api.ask(200, "POST", "/v1/check", {"checks": [{"key": f"k{number % 10}", "limit": "1/s burst 50"} for number in range(1000)]})
        expect([result["allowed"] for result in answer["results"]], [True] * 500 + [False] * 500)
        answer = api.ask(200, "POST", "/v1/peek", {"checks": [who(), {"key": "k1", "limit": "1/s burst 50"}]})
        expect([result["remaining"] for result in answer["results"]], [0, 0])


def test_admin_operations():
    with start("--admin-secret", TOKEN) as server:
        api = Api(server)
        edits = {"/v1/refund": who(tokens=1), "/v1/reset": who(), "/v1/block": who(seconds=5), "/v1/reload": None}
        for path, body in edits.items():
            for header in {}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}, \
                    {"Authorization": f"Bearer {TOKEN} "[:-2]}, {"Authorization": f"Bearer {TOKEN}x"}:
                api.ask(401, "POST", path, body, header)
                assert api.headers["WWW-Authenticate"].startswith("Bearer"), path
        api.ask(401, "GET", "/v1/top")
        api.ask(200, "GET", "/v1/limits")  # routes that are not for admins need no token
        api.ask(200, "POST", "/v1/check", who(cost=3))
        expect(api.ask(200, "POST", "/v1/refund", who(tokens=2), ADMIN), {"changed": 3})
        expect(api.ask(200, "POST", "/v1/peek", who())["remaining"], 2)
        expect(api.ask(200, "POST", "/v1/reset", who(), {"Authorization": f"bearer {TOKEN}"}), {"changed": 2})
        expect(api.ask(200, "POST", "/v1/peek", who())["remaining"], 3)
        # Not the bucket of the shadow limit, which denies no request.
        expect(api.ask(200, "POST", "/v1/block", who(seconds=5), ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/check", who())["retry_after_ns"], 5 * 10 ** 9)
        expect(api.ask(200, "POST", "/v1/block", who(ns=5 * 10 ** 9 + 1), ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/check", who())["retry_after_ns"], 5 * 10 ** 9 + 1)
        for field, most in ("seconds", 730 * 86400), ("ns", 730 * 86400 * 10 ** 9):
            answer = api.ask(400, "POST", "/v1/block", who(**{field: most + 1}), ADMIN)
            expect((answer["detail"], answer["pointer"]),
                   ("a block lasts at most 730 days; ban a caller for longer in the policy", f"/{field}"))
        expect(api.ask(200, "POST", "/v1/check", who())["retry_after_ns"], 5 * 10 ** 9 + 1, "and blocks nobody")
        # Of one limit, if the request names it: then also of a limit without a key.
        expect(api.ask(200, "POST", "/v1/reset", who(limit="all"), ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/check", who())["retry_after_ns"], 5 * 10 ** 9 + 1, "login is as it was")
        expect(api.ask(200, "POST", "/v1/reset", who(limit="login"), ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/peek", who())["remaining"], 3)
        expect(api.ask(200, "POST", "/v1/block", who(limit="window", seconds=5), ADMIN), {"changed": 0}, "does not apply")
        for path, more in ("/v1/refund", {"tokens": 1}), ("/v1/reset", {}), ("/v1/block", {"seconds": 5}):
            answer = api.ask(404, "POST", path, who(limit="logn", **more), ADMIN)
            expect((answer["detail"], answer["pointer"]), ("there is no limit 'logn': did you mean login?", "/limit"))
        # Also of a window, which continues unchanged.
        window = {"attributes": {"path": "/window", "user": "u"}}
        api.ask(200, "POST", "/v1/check", dict(window, cost=2))
        expect(api.ask(200, "POST", "/v1/block", dict(window, ns=7), ADMIN), {"changed": 1})
        answer = api.ask(200, "POST", "/v1/check", window)
        expect((answer["verdict"], answer["limit"], answer["remaining"], answer["retry_after_ns"]), ("deny", "window", 0, 7))
        api.ask(200, "POST", "/v1/check", {"key": "k", "limit": "1/s"})
        # Tokens taken under an inline limit are refunded under the same limit.
        api.ask(200, "POST", "/v1/check", {"key": "r", "limit": "1/min burst 9", "cost": 7})
        expect(api.ask(200, "POST", "/v1/refund", {"key": "r", "limit": "1/min burst 9", "tokens": 3}, ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/peek", {"key": "r", "limit": "1/min burst 9"})["remaining"], 5)
        expect(api.ask(200, "POST", "/v1/reset", {"key": "k"}, ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/peek", {"key": "k", "limit": "1/s"})["remaining"], 1)
        expect(api.ask(200, "POST", "/v1/block", {"key": "k", "limit": "1/s", "seconds": 9}, ADMIN), {"changed": 1})
        expect(api.ask(200, "POST", "/v1/check", {"key": "k", "limit": "1/s"})["retry_after_ns"], 9 * 10 ** 9)
        for path, body in (("/v1/refund", who()), ("/v1/refund", who(tokens=0)), ("/v1/refund", who(ip="nobody", tokens=1)), ("/v1/reset", {}),
                           ("/v1/reset", who(ip="nobody")), ("/v1/block", who()), ("/v1/block", who(seconds=0)), ("/v1/block", who(seconds=1, ns=1)),
                           ("/v1/block", who(ip="nobody", ns=1)), ("/v1/block", who(seconds=504576001))):
            api.ask(400, "POST", path, body, ADMIN)
        for path in "/v1/refund", "/v1/reset", "/v1/block":
            api.ask(415, "POST", path, b"{}", {**ADMIN, "Content-Type": "text/plain"})


def test_secrets_and_pages():
    """Every documented 401 and 403: without the secret, and as a page of another site."""
    with start("--check-secret", "check", "--admin-secret", TOKEN) as server:
        api = Api(server)
        for path, methods in api.document["paths"].items():
            for method, described in methods.items():
                api.ask(403, method.upper(), path, None, {**ADMIN, "Sec-Fetch-Site": "cross-site"})
                if "401" in described["responses"]:
                    api.ask(401, method.upper(), path)


def test_a_shadow_is_not_blocked():
    with start("--admin-secret", TOKEN, policy="limits: [{name: quiet, key: ip, rate: 3/10s fixed_window, shadow: true}]\n") as server:
        expect(Api(server).ask(400, "POST", "/v1/block", who(seconds=1), ADMIN)["detail"],
               "None of the limits that apply can do this: shadow limits deny nobody.")


def test_top_keys():
    with start("--admin-secret", TOKEN) as server:
        api = Api(server)
        for number in range(1, 6):
            api.ask(200, "POST", "/v1/check", {"checks": [who(ip=f"192.0.2.{number}")] * (3 + 2 * number)})
        api.ask(200, "POST", "/v1/check", {"checks": [{"key": "k" * 100, "limit": "1/s"}] * 4})
        top = api.ask(200, "GET", "/v1/top?limit=login", None, ADMIN)
        expect([(key["key"], key["count"]) for key in top["keys"]], [(f"192.0.2.{number}", 2 * number) for number in range(5, 0, -1)])
        top = api.ask(200, "GET", "/v1/top?count=2&by=denied", None, ADMIN)
        expect([key["key"] for key in top["keys"]], ["192.0.2.5", "192.0.2.4"])
        top = api.ask(200, "GET", "/v1/top?limit=inline", None, ADMIN)
        expect([(key["key"], key["key_bytes"], key["count"]) for key in top["keys"]], [("k" * 64, 100, 3)])
        expect(api.ask(200, "GET", "/v1/top?by=cost", None, ADMIN)["by"], "cost")
        everything = "limits are login, window, quiet, all and inline"
        for name, reported in (("nobody", f"'nobody': {everything}"), ("logn", "'logn': did you mean login?"), ("", f"'': {everything}"),
                           ("login%00", "'login\\x00': did you mean login?"), ("x" * 64, f"'{'x' * 24}...': {everything}")):
            expect(api.ask(404, "GET", "/v1/top?limit=" + name, None, ADMIN)["detail"], f"there is no limit {reported}")
        for query in "by=weight", "count=", "count=0", "count=101", "count=1" + "0" * 20, "count=x", "count=5x", "what=ever", "%zz":
            api.ask(400, "GET", "/v1/top?" + query, None, ADMIN)


def test_reload():
    with start("--admin-secret", TOKEN) as server:
        api = Api(server)
        api.ask(200, "POST", "/v1/check", who(cost=2))
        expect(api.ask(200, "POST", "/v1/reload", None, ADMIN)["changes"], ["nothing has changed"])
        server.write_policy("limits:\n  - {name: login, key: ip, rate: 1/min, burst: 2}\n")
        answer = api.ask(200, "POST", "/v1/reload", None, ADMIN)
        expect((answer["limits"], set(answer["changes"])),
               (1, {"limit login changed", "limit window removed", "limit quiet removed", "limit all removed"}))
        expect(api.ask(200, "POST", "/v1/peek", who())["remaining"], 1, "the bucket is kept")
        server.write_policy("limits:\n  - {name: login, rate: 1/fortnight}\n  - {name: login, rate: 1/s}\n")
        answer = api.ask(422, "POST", "/v1/reload", None, ADMIN)
        assert re.search(r"policy\.yaml:2:\d+: .*\n.*policy\.yaml:3:\d+: ", answer["detail"]), answer
        expect(api.ask(200, "GET", "/v1/limits")["limits"][0]["burst"], 2)


def test_about_the_server():
    with start() as server:
        api = Api(server)
        expect([limit["name"] for limit in api.ask(200, "GET", "/v1/limits")["limits"]], ["login", "window", "quiet", "all"])
        # Both protocols report the same of a limit, except for fields that RESP does not have.
        api.ask(200, "POST", "/v1/check", {"checks": [who()] * 5 + [who(cost=4)]})
        listed = api.ask(200, "GET", "/v1/limits")["limits"]
        expect(listed[0], {"name": "login", "limit": "1/min burst 3", "match": "path is /login", "key": ["ip"], "shadow": False, "tokens": 1,
                           "period_ns": MINUTE_NS, "burst": 3, "keys_max": 1000000, "keys": 1, "allowed": 3, "denied": 2, "never": 1,
                           "near_limit": 1, "shadow_denied": 0, "overflow": 0})
        expect((listed[2]["shadow"], listed[2]["shadow_denied"] > 0), (True, True))
        reported = [serve.pairs(limit) for limit in server.resp().ask("RATION.LIMITS")]
        expect(repr(reported).replace("b'", "'"), repr([{**limit, "shadow": int(limit["shadow"])} for limit in listed]))
        expect(api.ask(200, "GET", "/healthz"), b"ok\n")
        expect(api.ask(200, "GET", "/readyz"), b"ready\n")
        assert b"\n# TYPE ration_" in api.ask(200, "GET", "/metrics")
        with open(DOCUMENT, "rb") as file:
            expect(api.ask(200, "GET", "/openapi.yaml") == file.read(), True, "the document that is served")
        for path in "/healthz", "/readyz", "/metrics", "/openapi.yaml", "/v1/limits":
            expect(api.ask(200, "HEAD", path), b"")
            assert int(api.headers["Content-Length"]) > 0, path
        expect(server.http("GET", "/")[0], 200)


def test_unknown_paths_and_methods():
    with start() as server:
        api = Api(server)
        for path in "/v1", "/v1/check/", "/V1/check", "/v2/check", "/v1/checks", "/%76%31/check%00", "/favicon.ico":
            api.ask(404, "GET", path)
        allowed = {"/v1/check": "GET, HEAD, POST", "/v1/peek": "POST", "/v1/limits": "GET, HEAD", "/v1/reload": "POST", "/metrics": "GET, HEAD"}
        for path, methods in allowed.items():
            for method in {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} - set(methods.split(", ")):
                api.ask(405, method, path)
                expect(api.headers["Allow"], methods, path)


def test_bodies_that_are_too_large():
    with start("--admin-secret", TOKEN) as server:
        for path, headers in ("/v1/check", {}), ("/v1/peek", {}), ("/v1/refund", ADMIN), ("/v1/reset", ADMIN), ("/v1/block", ADMIN):
            api = Api(server)
            body = b'{"attributes": {"a": "' + b"x" * (1 << 20) + b'"}}'
            api.ask(413, "POST", path, body, {**JSON, **headers})
        api = Api(server)
        api.ask(200, "POST", "/v1/check", b" " * ((1 << 20) - 18) + b'{"attributes": {}}', JSON)


# Connections -----------------------------------------------------------------------------------

def answers_of(raw):
    """The statuses and bodies of a stream of responses."""
    found = []
    while raw:
        head, _, raw = raw.partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        size = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
        size = int(size.group(1)) if size else 0
        found.append((status, head, raw[:size]))
        raw = raw[size:]
    return found


def request(method="GET", target="/healthz", body=b"", version=b"1.1", *fields):
    lines = [f"{method} {target} HTTP/".encode() + version, b"Host: x", *fields]
    if body:
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def test_pipelining():
    """Responses arrive in order, also those of errors, and the last one closes the connection."""
    with start() as server:
        body = b'{"key": "k", "limit": "1/s burst 3"}'
        raw = b"".join([request(), request("POST", "/v1/check", body) * 5, request("GET", "/nowhere"), request("PUT", "/v1/check"),
                        request("POST", "/v1/check", b"{"), request("HEAD", "/metrics").replace(b"HEAD", b"GET"),
                        request("GET", "/healthz", b"", b"1.1", b"Connection: close"), request()])
        answers = answers_of(server.raw(server.http_port, raw))
        expect([status for status, _, _ in answers], [200] * 6 + [404, 405, 400, 200, 200], "after close nothing is served")
        expect([json.loads(text)["allowed"] for _, _, text in answers[1:6]], [True] * 3 + [False] * 2)
        assert b"\r\nConnection: close" in answers[-1][1] and b"Connection: close" not in answers[0][1]


def test_keep_alive():
    with start() as server:
        connection = server.http_connection()
        for _ in range(50):
            expect(server.http("GET", "/healthz", connection=connection)[0], 200)
        local = connection.sock.getsockname()
        expect(connection.sock.getsockname(), local, "the connection was kept")
        # HTTP/1.0 closes unless the client requests keep-alive.
        expect(len(answers_of(server.raw(server.http_port, request(version=b"1.0") * 2))), 1)
        staying = request("GET", "/healthz", b"", b"1.0", b"Connection: keep-alive")
        answers = answers_of(server.raw(server.http_port, staying * 2 + request(version=b"1.0")))
        expect(len(answers), 3)
        assert b"\r\nConnection: keep-alive" in answers[0][1]
        # A client that has stopped sending still gets every response.
        expect(len(answers_of(server.raw(server.http_port, request() * 3, is_ended=True))), 3)


def test_100_continue():
    with start() as server:
        body = b'{"attributes": {}}'
        head = request("POST", "/v1/check", body, b"1.1", b"Expect: 100-continue", b"Connection: close")[:-len(body)]
        with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
            connection.sendall(head)
            first = connection.recv(1000)
            expect(first, b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(body)
            expect([status for status, _, _ in answers_of(serve.read_to_end(connection))], [200])
        # If the body has arrived there is no 100 Continue; a refused request is refused at once.
        expect([status for status, _, _ in answers_of(server.raw(server.http_port, head + body))], [200])
        large = head.replace(b"Content-Length: 18", b"Content-Length: 99999999")
        assert large != head
        expect([status for status, _, _ in answers_of(server.raw(server.http_port, large))], [413])
        expect([status for status, _, _ in answers_of(server.raw(server.http_port, head.replace(b"100-continue", b"tea")))], [417])


def test_chunked_bodies():
    with start() as server:
        head = (b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
                b"Connection: close\r\n\r\n")
        chunks = b"5\r\n{\"att\r\n8;x=y\r\nributes\"\r\n5\r\n: {}}\r\n0\r\nTrailer: x\r\n\r\n"
        expect([status for status, _, _ in answers_of(server.raw(server.http_port, head + chunks))], [200])
        with socket.create_connection(("127.0.0.1", server.http_port), timeout=30) as connection:
            for byte in head + chunks:
                connection.sendall(bytes([byte]))
            expect([status for status, _, _ in answers_of(serve.read_to_end(connection))], [200], "byte by byte")


def test_zz_everything_in_the_document_was_seen():
    """Runs last: the other tests provoked everything that the document lists."""
    if "--only" in sys.argv:
        return
    listed = {(path, method, status) for path, methods in Api.document["paths"].items() for method, described in methods.items()
              for status in described["responses"]}
    expect(listed - Api.seen - UNREACHABLE, set(), "listed and never seen")
    expect(UNREACHABLE - listed, set(), "unreachable and not listed")


serve.run()
