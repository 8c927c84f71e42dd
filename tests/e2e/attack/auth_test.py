#!/usr/bin/env python3
"""Secrets: every wrong guess has a cost, and clients that have not authenticated have stricter bounds.

access_test.py tests what each secret permits.

    auth_test.py RATION
"""
import select
import threading

import attack_kit as kit
import serve

TOKEN = "Token-0123456789abcdef"
PASSWORD = "Pass-0123456789abcdef"
SECRETS = ["--check-secret", PASSWORD, "--admin-secret", TOKEN]
ADMIN = (("GET", "/v1/top", None), ("POST", "/v1/refund", {"attributes": {"ip": "192.0.2.1"}, "tokens": 1}),
         ("POST", "/v1/reset", {"attributes": {"ip": "192.0.2.1"}}),
         ("POST", "/v1/block", {"attributes": {"ip": "192.0.2.1"}, "seconds": 1}),
         ("POST", "/v1/reload", None))
GUESSES = 15  # fewer than those after which replies are delayed


def failures(server):
    return kit.metrics(server, {"Authorization": f"Bearer {TOKEN}"})["ration_auth_failures_total"]


def test_admin_without_the_token_is_401():
    wrong = (None, "", TOKEN, "Bearer", "Bearer ", "Bearer  " + TOKEN, "Bearer\t" + TOKEN,
             "Basic " + TOKEN, "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Bearer " + TOKEN.lower(),
             "Bearer " + TOKEN.upper(), "Bearer x" + TOKEN[1:], "BearerX" + TOKEN,
             "Bearer " + TOKEN + ", Bearer " + TOKEN, "Bearer " + TOKEN + TOKEN, "bear " + TOKEN)
    for method, path, body in ADMIN:
        with kit.server(options=SECRETS) as server:  # each with a server of its own: after 20 failures replies are delayed
            for value in wrong:
                headers = {} if value is None else {"Authorization": value}
                status, answer, _ = server.http(method, path, body, headers)
                serve.expect((status, "Bearer" in answer.get("WWW-Authenticate", "")), (401, True),
                             f"{path} with {value!r}")
            for scheme in ("Bearer", "bearer", "BEARER"):  # a scheme is case-insensitive (RFC 9110, 11.1)
                status = server.http(method, path, body, {"Authorization": f"{scheme} {TOKEN}"})[0]
                serve.expect(status, 200, f"{path} with {scheme}")
            serve.expect(failures(server), len(wrong), "failures that are counted")


def test_a_wrong_token_reveals_no_paths_methods_or_bodies():
    """The server replies 401 before it examines the rest of the request."""
    with kit.server(options=SECRETS) as server:
        for method, path, body in (("DELETE", "/v1/top", None), ("GET", "/v1/reload", None),
                                   ("POST", "/v1/reset", b"{")):
            serve.expect(server.http(method, path, body, {"Content-Type": "application/json"})[0], 401)


def test_two_authorizations_are_not_one():
    with kit.server(options=SECRETS) as server:
        for first, second in ((TOKEN + "x", TOKEN), ("", TOKEN)):
            sent = (b"GET /v1/top HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"
                    b"Authorization: Bearer %s\r\n\r\n" % (first.encode(), second.encode()))
            serve.expect([answer[0] for answer in kit.ask_http(server.http_port, sent)], [401])


def test_guesses_are_counted():
    with kit.server(options=SECRETS) as server:
        client = server.resp()
        for number in range(GUESSES):
            answer = client.ask("AUTH", f"guess-{number}")
            serve.expect(answer.text.split()[0], "WRONGPASS")
        for user, password in (("default", "x"), ("root", PASSWORD), ("default", PASSWORD + "\0")):
            serve.expect(client.ask("AUTH", user, password).text.split()[0], "WRONGPASS")
        serve.expect(client.ask("HELLO", 3, "AUTH", "default", "x").text.split()[0], "WRONGPASS")
        serve.expect(failures(server), GUESSES + 4)
        serve.expect(client.ask("RATION.TOP").text.split()[0], "NOAUTH")
        serve.expect(client.ask("AUTH", PASSWORD), "OK")
        serve.expect(client.ask("RATION.TOP").text.split()[0], "NOPERM")
        serve.expect(client.ask("AUTH", TOKEN), "OK")
        serve.expect(client.ask("RATION.TOP"), [])


def test_unauthenticated_clients_can_only_authenticate():
    commands = (["CL.THROTTLE", "k", 1, 1, 1], ["GCRA", "k", 1, 1, 1], ["RATION.CHECK", "ip", "192.0.2.1"],
                ["RATION.PEEK", "ip", "192.0.2.1"], ["RATION.TOP"], ["RATION.LIMITS"], ["RATION.RELOAD"],
                ["RATION.RESET", "ip", "192.0.2.1"], ["RATION.BLOCK", "SECONDS", 1, "ip", "192.0.2.1"],
                ["RATION.CLOCK", "GET"], ["DEL", "k"], ["PING"], ["INFO"], ["CONFIG", "GET", "*"],
                ["COMMAND"], ["DBSIZE"], ["ECHO", "x"], ["CLIENT", "LIST"], ["SELECT", 0], ["TIME"])
    with kit.server(options=SECRETS) as server:
        client = server.resp()
        for command in commands:
            answer = client.ask(*command)
            assert isinstance(answer, serve.RespError), f"{command}: {answer!r}"
            serve.expect(answer.text.split()[0], "NOAUTH", command)
        # also in one pipeline with a wrong password in the middle
        answers = client.pipeline([*commands, ["AUTH", "x"], *commands])
        assert all(isinstance(answer, serve.RespError) for answer in answers), answers
        serve.expect(client.ask("AUTH", PASSWORD), "OK")
        serve.expect(client.ask("RESET"), "RESET")
        answer = client.ask("PING")
        assert isinstance(answer, serve.RespError), f"still authenticated after RESET: {answer!r}"


def test_unauthenticated_clients_have_stricter_bounds():
    rows = ((b"*11\r\n", b"unauthenticated multibulk length"),
            (b"*2\r\n$16385\r\n", b"unauthenticated bulk length"),
            (b"PING " * 11 + b"\r\n", b"unauthenticated multibulk length"),
            (b"PING " + b"a" * 16385 + b"\r\n", b"unauthenticated bulk length"))
    with kit.server(options=SECRETS) as server:
        for sent, reason in rows:
            serve.expect(server.raw(server.resp_port, sent), b"-ERR Protocol error: " + reason + b"\r\n")
        known = server.resp(password=PASSWORD)
        assert isinstance(known.ask("ECHO", "a" * 16385), bytes)


def test_authentication_applies_to_its_own_connection_only():
    with kit.server(options=SECRETS) as server:
        known, stranger = server.resp(password=PASSWORD), server.resp()
        serve.expect(known.ask("PING"), "PONG")
        serve.expect(stranger.ask("PING").text.split()[0], "NOAUTH")


class Flood(threading.Thread):
    """Keeps as many connections open as it can, each with endless headers, and replaces those that the server
    closes."""

    def __init__(self, port, count):
        super().__init__(daemon=True)
        self.port, self.count, self.opened, self.stops = port, count, 0, False

    def run(self):
        connections, poll = {}, select.poll()
        while not self.stops:
            while len(connections) < self.count and not self.stops:
                connection = kit.connect(self.port)
                kit.send_some(connection, b"GET / HTTP/1.1\r\nX: y")
                connections[connection.fileno()] = connection
                poll.register(connection, select.POLLIN)
                self.opened += 1
            for number, _ in poll.poll(20):
                poll.unregister(number)
                connections.pop(number).close()
        kit.close_all(connections.values())


def test_authenticated_clients_are_served_while_others_fill_the_server():
    places, tries = 200, 40
    with kit.server(options=[*SECRETS, "--max-connections", str(places)]) as server:
        flood = Flood(server.http_port, places + 50)
        flood.start()
        kit.wait_until(lambda: flood.opened > places + 50, "connections are replaced")
        served = 0
        for _ in range(tries):
            try:
                client = server.resp(password=TOKEN)
                served += client.ask("PING") == "PONG"
                client.close()
                served += server.http("GET", "/v1/limits", headers={"Authorization": f"Bearer {PASSWORD}"})[0] == 200
            except (OSError, AssertionError, serve.Closed, kit.http.client.HTTPException):
                pass
        flood.stops = True
        flood.join()
        assert served >= 2 * tries * 0.95, f"{served} of {2 * tries} were served"


def test_a_page_cannot_post():
    """The server refuses the content types that a browser sends to another host without a preflight request, and any
    POST whose headers name a page of another site."""
    body = b'{"attributes":{"ip":"192.0.2.1"},"seconds":60}'
    with kit.server() as server:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", None, "",
                     "text/plain; application/json", "application/jsonx", "application/json-patch+json",
                     "text/plain;charset=application/json"):
            headers = {} if kind is None else {"Content-Type": kind}
            for path in ("/v1/check", "/v1/peek", "/v1/block", "/v1/reset"):
                serve.expect(server.http("POST", path, body, headers)[0], 415, f"{path} as {kind!r}")
        serve.expect(server.http("POST", "/v1/block", body, {"Content-Type": "application/json"})[0], 200)
        # Without a body no content type is required.
        for origin in ("http://evil.example", "null", "https://127.0.0.1.evil.example",
                       "http://127.0.0.1:1"):
            serve.expect(server.http("POST", "/v1/reload", None, {"Origin": origin})[0], 403, origin)
        own = f"http://127.0.0.1:{server.http_port}"
        serve.expect(server.http("POST", "/v1/reload", None, {"Origin": own})[0], 200, own)
        serve.expect(server.http("POST", "/v1/reload")[0], 200)
        # No page can read the response: no header allows it.
        for method, path in (("GET", "/v1/top"), ("OPTIONS", "/v1/block"), ("GET", "/metrics")):
            headers = server.http(method, path, None, {"Origin": "http://evil.example"})[1]
            assert not [name for name in headers if name.lower().startswith("access-control")], headers


serve.run()
