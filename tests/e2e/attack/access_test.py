#!/usr/bin/env python3
"""Access: every route and command, with every credential, under every configuration, from every origin.

    access_test.py RATION

The routes and commands are those that `ration serve --access` lists from the tables by which the server dispatches: a
route or command without a row here fails the test. The expected results are deliberately written a second time here:
the test compares what the server does, not what its table says.
"""
import os
import socket
import subprocess
import tempfile

import attack_kit as kit
import serve

BINARY = kit.BINARY
CHECK, ADMIN = "check-secret-0123456789", "admin-secret-0123456789"
SECRETS = {"check": CHECK, "admin": ADMIN}
CONFIGURATIONS = {"none": (), "check": ("check",), "admin": ("admin",), "both": ("check", "admin")}
CREDENTIALS = {"none": None, "wrong": "wrong", "check": CHECK, "admin": ADMIN}
LEVELS = ("open", "check", "admin")
POLICY = "limits: [{name: client, key: ip, rate: 1000000/s}]\n"
WHO = {"attributes": {"ip": "192.0.2.1"}}

# Route: the level that it needs, the target with a query, and the body.
ROUTES = {
    "GET /v1/check": ("check", "/v1/check?ip=192.0.2.1", None),
    "POST /v1/check": ("check", "/v1/check", WHO),
    "POST /v1/peek": ("check", "/v1/peek", WHO),
    "GET /metrics": ("check", "/metrics", None),
    "GET /healthz": ("open", "/healthz", None),
    "GET /readyz": ("open", "/readyz", None),
    "GET /v1/limits": ("check", "/v1/limits", None),
    "GET /v1/top": ("admin", "/v1/top", None),
    "POST /v1/refund": ("admin", "/v1/refund", {**WHO, "tokens": 1}),
    "POST /v1/reset": ("admin", "/v1/reset", WHO),
    "POST /v1/block": ("admin", "/v1/block", {**WHO, "ns": 1}),
    "POST /v1/reload": ("admin", "/v1/reload", None),
    "GET /openapi.yaml": ("open", "/openapi.yaml", None),
    "GET /": ("open", "/", None),
}

# Command: the level that it needs, and its arguments.
COMMANDS = {
    "cl.throttle": ("check", ("k", 9, 1, 1)),
    "ration.check": ("check", ("ip", "192.0.2.1")),
    "gcra": ("check", ("k", 9, 1, 1)),
    "ration.peek": ("check", ("ip", "192.0.2.1")),
    "ration.refund": ("admin", ("ip", "192.0.2.1")),
    "ping": ("check", ()),
    "ration.reset": ("admin", ("ip", "192.0.2.1")),
    "ration.block": ("admin", ("MS", 1, "ip", "192.0.2.1")),
    "ration.top": ("admin", ()),
    "ration.limits": ("check", ()),
    "ration.flush": ("admin", ("INLINE",)),
    "ration.reload": ("admin", ()),
    "ration.clock": ("admin", ("GET",)),
    "del": ("admin", ("k",)),
    "hello": ("open", ()),
    "auth": ("open", ("wrong",)),
    "client": ("check", ("ID",)),
    "command": ("check", ("COUNT",)),
    "info": ("check", ()),
    "config": ("check", ("GET", "save")),
    "select": ("check", (0,)),
    "echo": ("check", ("x",)),
    "reset": ("open", ()),
    "quit": ("open", ()),
    "multi": ("check", ()),
    "exec": ("check", ()),
    "discard": ("check", ()),
    "time": ("check", ()),
    "dbsize": ("check", ()),
}

# Origin of a request: the headers that a browser or a client sends, and whether the request is served. {} is the port.
ORIGINS = {
    "no browser": ({}, True),
    "typed by the user": ({"Sec-Fetch-Site": "none"}, True),
    "same origin": ({"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:{}"}, True),
    "same origin over TLS": ({"Origin": "https://127.0.0.1:{}"}, True),
    "localhost": ({"Host": "LocalHost:{}"}, True),
    "allowed host": ({"Host": "Ration.example.com.:{}"}, True),
    "same site": ({"Sec-Fetch-Site": "same-site"}, False),
    "cross site": ({"Sec-Fetch-Site": "cross-site"}, False),
    "foreign origin": ({"Origin": "http://evil.example"}, False),
    "origin on another port": ({"Origin": "http://127.0.0.1:1"}, False),
    "opaque origin": ({"Origin": "null"}, False),
    "foreign host": ({"Host": "evil.example:{}"}, False),
    "foreign host, own origin": ({"Host": "evil.example:{}", "Origin": "http://evil.example:{}"}, False),
    "host that begins like ours": ({"Host": "localhost.evil.example"}, False),
}


def listed(kind):
    lines = subprocess.run([BINARY, "serve", "--access"], check=True, capture_output=True, text=True).stdout
    rows = [line.split("\t") for line in lines.splitlines()]
    return {name: level for protocol, name, level in rows if protocol == kind}


def server(configuration, *options):
    secrets = [word for name in CONFIGURATIONS[configuration] for word in (f"--{name}-secret", SECRETS[name])]
    return serve.Server(BINARY, POLICY, options=[*secrets, "--allowed-hosts", "ration.example.com", *options])


def level_of(configuration, credential):
    """The level of a client on this host, and whether it has presented a secret of the server."""
    if credential in CONFIGURATIONS[configuration]:
        return credential, True
    return {"none": "admin", "admin": "check", "check": "open", "both": "open"}[configuration], False


def suffices(level, needed):
    return LEVELS.index(level) >= LEVELS.index(needed)


def expected_status(configuration, credential, needed, is_own):
    level, has_secret = level_of(configuration, credential)
    if not is_own:
        return 403
    if suffices(level, needed):
        return 200
    if needed == "admin" and ("admin" not in CONFIGURATIONS[configuration] or has_secret):
        return 403
    return 401


def test_every_entry_has_a_row():
    serve.expect({name: row[0] for name, row in ROUTES.items()}, listed("http"), "routes")
    serve.expect({name: row[0] for name, row in COMMANDS.items()}, listed("resp"), "commands")
    with server("none") as one:
        names = {name.decode() for name in one.resp().ask("COMMAND", "LIST")}
        serve.expect(names, set(COMMANDS), "COMMAND LIST")
        document = one.http("GET", "/openapi.yaml")[2].decode()
        paths = {line.strip().rstrip(":") for line in document.splitlines() if line.startswith("  /")}
        served = {name.split()[1] for name in ROUTES}
        serve.expect(paths | {"/", "/openapi.yaml"}, served | {"/", "/openapi.yaml"}, "openapi.yaml")


def http_row(one, connection, route, credential, headers, what):
    needed, target, body = ROUTES[route]
    headers = {name: value.replace("{}", str(one.http_port)) for name, value in headers.items()}
    if CREDENTIALS[credential] is not None:
        headers["Authorization"] = f"Bearer {CREDENTIALS[credential]}"
    status, answer, content = one.http(route.split()[0], target, body, headers, connection)
    if status != 200:
        serve.expect((answer["Content-Type"], content["status"]), ("application/problem+json", status), what)
        serve.expect("WWW-Authenticate" in answer, status == 401, what)
    return status


def sources():
    """Addresses of this host: replies to the 21st wrong secret from one of them are delayed."""
    for number in range(1 << 16):
        yield f"127.1.{number >> 8}.{number & 255}"


def test_routes():
    source = sources()
    for configuration in CONFIGURATIONS:
        with server(configuration) as one:
            for route, (needed, _, _) in ROUTES.items():
                for credential in CREDENTIALS:
                    connection = one.http_connection(source=next(source))
                    for origin, (headers, is_own) in ORIGINS.items():
                        what = f"{route}: secrets {configuration}, credential {credential}, {origin}"
                        serve.expect(http_row(one, connection, route, credential, headers, what),
                                     expected_status(configuration, credential, needed, is_own), what)


def answer_kind(answer):
    text = answer.text if isinstance(answer, serve.RespError) else ""
    word = text.replace("EXECABORT Transaction discarded because of: ", "").split()[:1]
    return word[0] if word in (["NOAUTH"], ["NOPERM"]) else "served"


def authenticate(client, credential, way):
    """Authenticates a client; the server refuses a wrong or unknown credential."""
    secret = CREDENTIALS[credential]
    if secret is None:
        return
    user = credential if credential in SECRETS else "admin"
    client.ask(*{"AUTH secret": ("AUTH", secret), "AUTH default secret": ("AUTH", "default", secret),
                 "AUTH user secret": ("AUTH", user, secret), "HELLO": ("HELLO", 2, "AUTH", user, secret)}[way])


def test_commands():
    ways = ("AUTH secret", "AUTH default secret", "AUTH user secret", "HELLO")
    source = sources()
    number = 0
    for configuration in CONFIGURATIONS:
        with server(configuration) as one:
            for credential in CREDENTIALS:
                level = level_of(configuration, credential)[0]
                for name, (needed, words) in COMMANDS.items():
                    number += 1
                    way = ways[number % len(ways)]
                    what = f"{name}: secrets {configuration}, credential {credential} by {way}"
                    client = serve.Resp(one.resp_port, source=next(source))
                    authenticate(client, credential, way)
                    expected = "served" if suffices(level, needed) else "NOAUTH" if level == "open" else "NOPERM"
                    if name == "hello" and level == "open":
                        expected = "NOAUTH"  # as Redis: it authenticates, or it is refused
                    serve.expect(answer_kind(client.ask(name, *words)), expected, what)
                    client.close()


def test_users():
    with server("both") as one:
        for words, reply in ((("check", CHECK), "check"), (("admin", ADMIN), "admin"), (("default", CHECK), "check"),
                             (("default", ADMIN), "admin"), ((CHECK,), "check"), ((ADMIN,), "admin")):
            client = one.resp()
            serve.expect(client.ask("AUTH", *words), "OK", words)
            assert f"user={reply} ".encode() in client.ask("CLIENT", "INFO"), words
        for words in (("check", ADMIN), ("admin", CHECK), ("root", ADMIN), ("Admin", ADMIN), ("", ADMIN),
                      ("admin", ""), ("admin", ADMIN + "x"), ("check", CHECK[:-1])):
            answer = one.resp().ask("AUTH", *words)
            serve.expect(answer, serve.RespError("WRONGPASS invalid username-password pair or user is disabled."), words)


def test_access_of_a_connection_changes():
    with server("both") as one:
        client = one.resp()
        for words, kind in ((("AUTH", CHECK), "NOPERM"), (("AUTH", "wrong"), "NOPERM"), (("AUTH", ADMIN), "served"),
                            (("AUTH", "wrong"), "served"), (("AUTH", CHECK), "NOPERM"), (("RESET",), "NOAUTH")):
            client.ask(*words)
            serve.expect(answer_kind(client.ask("RATION.TOP")), kind, words)


def test_a_transaction_does_not_raise_access():
    with server("both") as one:
        client = one.resp(password=CHECK)
        serve.expect(client.ask("MULTI"), "OK")
        serve.expect(answer_kind(client.ask("RATION.RESET", "ip", "192.0.2.1")), "NOPERM")
        serve.expect(client.ask("EXEC").text.split()[0], "EXECABORT")
        # An AUTH in the transaction takes effect when EXEC runs it, not earlier.
        client.ask("MULTI")
        client.ask("AUTH", ADMIN)
        serve.expect(answer_kind(client.ask("RATION.TOP")), "NOPERM")
        client.ask("DISCARD")
        serve.expect(client.ask("AUTH", ADMIN), "OK")
        client.ask("MULTI")
        client.ask("AUTH", CHECK)
        client.ask("RATION.TOP")
        serve.expect([answer_kind(answer) for answer in client.ask("EXEC")], ["served", "NOPERM"])


INLINE = ("key=user:7&limit=1/365d+burst+16&cost=15", "key=user:7&limit=1/s", "key=user:7&limit=1/s&peek=true",
          "ip=192.0.2.1&cost=2")


def test_a_get_with_a_limit_or_a_cost_needs_a_secret():
    """An image on a web page can send such a GET. With an inline limit it could lock a key out for years."""
    for configuration, secrets in CONFIGURATIONS.items():
        with server(configuration, "--max-inline-fill", "0") as one:
            for credential, secret in CREDENTIALS.items():
                headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
                for query in INLINE:
                    is_permitted = credential in secrets
                    if is_permitted and "365d" in query:
                        continue  # it would be served, and would lock the key out
                    status = one.http("GET", "/v1/check?" + query, None, headers)[0]
                    serve.expect("served" if status in (200, 429) else status,
                                 "served" if is_permitted else 401 if secrets else 403,
                                 f"{query}: secrets {configuration}, credential {credential}")
            # Refused requests took no token.
            known = {"Authorization": f"Bearer {SECRETS[secrets[0]]}"} if secrets else {}
            peek = {"key": "user:7", "limit": "16/365d"}
            status, _, answer = one.http("POST", "/v1/peek", peek, known)
            serve.expect((status, answer["remaining"] >= 15), (200, True), configuration)
            cost = {"key": "user:8", "limit": "16/365d", "cost": 15}
            serve.expect(one.http("POST", "/v1/check", cost, known)[0], 200, "POST may set limits and costs")


def test_a_get_with_the_attribute_of_a_cost_needs_a_secret():
    """A policy may take the cost from an attribute; in the query such an attribute is a cost set by the GET."""
    policy = """limits:
  - {name: plain, key: user, rate: 1000/s}
  - {name: tokens, match: {path: /llm}, key: user, rate: 1000/h, cost: tokens}
  - {name: weight, match: {path: /w}, key: user, rate: 1000/h, cost: header.x-weight}
"""
    for options, refused in ((), 403), (("--admin-secret", ADMIN), 401):
        with serve.Server(BINARY, policy, options=options) as one:
            for query, headers, status in (
                    ("path=/llm&user=u&tokens=999", {}, refused), ("path=/llm&user=u&tokens=2", {}, refused),
                    ("path=/llm&user=u&tokens=1", {}, 200), ("path=/llm&user=u&tokens=0", {}, 200),
                    ("path=/llm&user=u", {}, 200), ("path=/w&user=u&header.x-weight=7", {}, refused),
                    ("path=/w&user=u", {"X-Weight": "7"}, 200), ("path=/llm&user=u&tokens=000000002", {}, refused)):
                serve.expect(one.http("GET", "/v1/check?" + query, None, headers)[0], status, query)
            if options:
                known = {"Authorization": f"Bearer {ADMIN}"}
                serve.expect(one.http("GET", "/v1/check?path=/llm&user=u&tokens=500", None, known)[0], 200)


def test_the_proxys_secret_is_no_attribute():
    """Behind a proxy the Authorization header has the check secret: it is neither a key nor in the list of keys."""
    policy = "limits: [{name: user, key: header.authorization, rate: 1/h}]\n"
    options = ["--check-secret", CHECK, "--admin-secret", ADMIN]
    with serve.Server(BINARY, policy, options=options) as one:
        headers = {"Authorization": f"Bearer {CHECK}"}
        for status in (200, 429, 429):
            serve.expect(one.http("GET", "/v1/check?path=/", None, headers)[0], status)
        answer = one.http("GET", "/v1/top", None, {"Authorization": f"Bearer {ADMIN}"})[2]
        serve.expect([key["key"] for key in answer["keys"]], [""], "the attribute is missing")


def test_one_authorization_header_only():
    with server("both") as one:
        for first, second in ((CHECK, "wrong"), ("wrong", CHECK), (CHECK, CHECK), ("wrong", ADMIN)):
            sent = (f"GET /v1/check?ip=192.0.2.1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                    f"Authorization: Bearer {first}\r\nAuthorization: Bearer {second}\r\n\r\n")
            answer = one.raw(one.http_port, sent.encode())
            serve.expect(answer.split()[1], b"401", (first, second))


def test_two_browser_headers_are_both_read():
    with server("none") as one:
        for name, own, foreign in (("Sec-Fetch-Site", "same-origin", "cross-site"),
                                   ("Origin", "http://localhost", "http://evil.example")):
            for values in ((own, foreign), (foreign, own)):
                sent = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" \
                    + "".join(f"{name}: {value}\r\n" for value in values) + "\r\n"
                serve.expect(one.raw(one.http_port, sent.encode()).split()[1], b"403", values)


def test_host_is_not_needed_without_a_browser():
    """HTTP/1.0 health checks send no Host, and a browser cannot reach a Unix socket."""
    without, foreign = b"GET /healthz HTTP/1.0\r\n\r\n", b"GET /healthz HTTP/1.0\r\nHost: evil.example\r\n\r\n"
    with server("none", "--threads", "1") as one:
        serve.expect(one.http("GET", "/healthz")[0], 200, "a Host that the server remembers")
        serve.expect(one.raw(one.http_port, without).split()[1], b"200", "no Host")
        serve.expect(one.raw(one.http_port, foreign).split()[1], b"403", "a foreign Host")
    with tempfile.TemporaryDirectory(prefix="ration-e2e-") as folder:
        path = os.path.join(folder, "http")
        with serve.Server(BINARY, POLICY, http="unix:" + path):
            for sent in without, foreign:
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(kit.WAIT_SECONDS)
                    connection.connect(path)
                    connection.sendall(sent)
                    serve.expect(serve.read_to_end(connection).split()[1], b"200", ("Unix socket", sent))


def test_the_reason_of_a_redis_failure_needs_a_secret():
    """The reason contains names of internal hosts."""
    options = ["--check-secret", CHECK, "--redis", "redis://127.0.0.1:1", "--threads", "1"]
    with serve.Server(BINARY, POLICY, options=options) as one:
        for headers, is_shown in ({}, False), ({"Authorization": f"Bearer {CHECK}"}, True):
            status, _, text = one.http("GET", "/readyz", None, headers)
            serve.expect((status, text.startswith(b"ready, but without Redis"), b"refused" in text),
                         (200, True, is_shown), text)
        for _ in range(5):  # the response depends on the secret, so each guess counts
            one.http("GET", "/readyz", None, {"Authorization": "Bearer wrong"})
        one.wait_line("wrong secret from 127.0.0.1", seconds=5)


def test_other_hosts_are_no_admins():
    """Without any secret only this host is trusted: other hosts may only check."""
    address = own_address()
    options = ["--insecure"]
    with serve.Server(BINARY, POLICY, options=options, http="0.0.0.0:0", resp="0.0.0.0:0") as one:
        for peer, is_admin in (("127.0.0.1", True), (address, False)):
            if peer is None:
                print("this host has no address but loopback: that other hosts are no admins was not tested")
                continue
            client = serve.Resp(one.resp_port, host=peer)
            serve.expect(answer_kind(client.ask("RATION.CHECK", "ip", "192.0.2.1")), "served", peer)
            serve.expect(answer_kind(client.ask("RATION.TOP")), "served" if is_admin else "NOPERM", peer)
            client.close()
            connection = one.http_connection(peer)
            for path, status in (("/v1/check?ip=192.0.2.1", 200), ("/v1/top", 200 if is_admin else 403)):
                serve.expect(one.http("GET", path, connection=connection)[0], status, (peer, path))


def own_address():
    """An address of this host that is not loopback, or None."""
    words = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    return next((word for word in words if "." in word), None)


if __name__ == "__main__":
    serve.run()
