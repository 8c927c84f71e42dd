#!/usr/bin/env python3
"""Checks as proxies send them, sent by the test: Traefik's ForwardAuth, and peers that are not trusted.

    forwarded_test.py RATION

Debian has no Traefik. Its requests are a GET with the client's own headers and X-Forwarded-Method, -Proto, -Host, -Uri
and -For; how it uses the response is not tested.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import kit
import serve

BINARY = os.path.abspath(sys.argv[1])

POLICY = """
limits:
  - name: login
    match: {method: POST, path: /login}
    key: ip
    rate: 1/min
  - name: host
    match: {host: limited.example}
    key: ip
    rate: 2/min
exempt:
  - user: root
banned:
  - ip: {cidr: 198.51.100.0/24}
"""

TRUSTED, STRANGER = "127.0.0.1", "127.0.0.2"


def server(*options, policy=POLICY):
    return serve.Server(BINARY, policy, options=["--manual-clock", *options])


def traefik(client, method="GET", uri="/", host="free.example", **more):
    return {"X-Forwarded-Method": method, "X-Forwarded-Proto": "https", "X-Forwarded-Host": host,
            "X-Forwarded-Uri": uri, "X-Forwarded-For": client, "X-Forwarded-Port": "443",
            "X-Forwarded-Server": "edge", "X-Real-Ip": client, "Accept-Encoding": "gzip",
            "User-Agent": "curl/7.88.1", **more}


def check(ration, headers, source=TRUSTED, query=""):
    return kit.ask(ration.http_port, path="/v1/check" + query, headers=headers, source=source)


def statuses(ration, count, *arguments, **named):
    return [check(ration, *arguments, **named)[0] for _ in range(count)]


def test_traefik():
    with server("--trusted-proxies", TRUSTED) as ration:
        login = traefik("203.0.113.1", "POST", "/login?next=/home")
        status, headers, _ = check(ration, login)
        serve.expect((status, headers["RateLimit"], headers["RateLimit-Policy"]),
                     (200, '"login";r=0;t=60', '"login";q=1;w=60'))
        status, headers, body = check(ration, login)
        serve.expect((status, headers["RateLimit"], headers["RateLimit-Policy"],
                      headers["Retry-After"], headers["Content-Type"], headers["Cache-Control"]),
                     (429, '"login";r=0;t=60', '"login";q=1;w=60', "60", "application/problem+json",
                      "no-store"))
        serve.expect(b'"violated-policies":["login"]' in body, True, body)
        serve.expect(statuses(ration, 2, traefik("203.0.113.2", "POST", "/login")), [200, 429])
        serve.expect(statuses(ration, 3, traefik("203.0.113.1", "GET", "/login")), 3 * [200])
        serve.expect(statuses(ration, 3, traefik("203.0.113.1", host="limited.example")),
                     [200, 200, 429])
        serve.expect(check(ration, traefik("198.51.100.9"))[0], 403, "banned")


def test_other_spellings_of_a_path():
    """Another spelling of /login does not avoid its limit."""
    with server("--trusted-proxies", TRUSTED) as ration:
        for client, uri in enumerate(("//login", "/%6Cogin", "/x/../login?a", "/./login", "http://h/login", "/login;x=1", "/;a/login;")):
            login = traefik(f"203.0.113.{client}", "POST", "/login")
            serve.expect([check(ration, login)[0], check(ration, {**login, "X-Forwarded-Uri": uri})[0]], [200, 429], uri)


def test_other_spellings_of_a_host_and_a_method():
    with server("--trusted-proxies", TRUSTED) as ration:
        for client, host in enumerate(("LIMITED.example", "limited.example:80", "limited.example.", "Limited.Example.:8080")):
            limited = traefik(f"203.0.113.{client}", host="limited.example")
            serve.expect([check(ration, limited)[0] for _ in range(2)], [200, 200], host)
            serve.expect(check(ration, {**limited, "X-Forwarded-Host": host})[0], 429, host)
        login = traefik("203.0.113.9", "POST", "/login")
        serve.expect([check(ration, login)[0], check(ration, {**login, "X-Forwarded-Method": "post"})[0]], [200, 429])


def test_ambiguous_headers_are_refused():
    with server("--trusted-proxies", TRUSTED) as ration:
        free = traefik("203.0.113.1")
        for header, value in (("X-Forwarded-Host", "a.example, b.example"), ("X-Forwarded-Host", "limited.example..")
                              , ("X-Forwarded-Uri", "/x/..;/login"), ("X-Forwarded-Uri", "/x/..%2Flogin"),
                              ("X-Forwarded-Uri", "/login//../x"), ("X-Forwarded-Uri", "/login/;/../x"), ("X-Forwarded-Uri", "/x\\login"),
                              ("X-Forwarded-Uri", "/x;%2F../login"), ("X-Forwarded-Uri", "/login%00"), ("X-Forwarded-Uri", "/log\tin"),
                              ("X-Forwarded-Method", "PO ST")):
            serve.expect(check(ration, {**free, header: value})[0], 400, f"{header}: {value}")
        serve.expect(check(ration, free)[0], 200)


def test_an_open_quote_does_not_hide_the_client():
    """A client's own Forwarded element comes before the one that the proxy appends."""
    with server("--trusted-proxies", TRUSTED, "--client-ip-header", "forwarded") as ration:
        for mine in ('for="', 'for="\\', 'for=192.0.2.1;by="x', '"', 'for=192.0.2.1, "'):
            headers = {"X-Forwarded-Uri": "/", "Forwarded": f"{mine}, for=198.51.100.9"}
            serve.expect(check(ration, headers)[0], 403, mine)


def test_addresses_in_other_forms_are_the_same_client():
    with server("--trusted-proxies", TRUSTED) as ration:
        for client in ("::ffff:198.51.100.9", "64:ff9b::198.51.100.9", "::198.51.100.9", "198.51.100.9:1234", "[::ffff:c633:6409]:1"):
            serve.expect(check(ration, traefik(client))[0], 403, client)


def test_duplicate_headers_are_refused():
    """If one program used the first header and another the last, one client could have two addresses."""
    policy = "limits: [{name: k, key: header.x-api-key, rate: 1/min}]"
    with server("--trusted-proxies", TRUSTED, policy=policy) as ration:
        for headers, status in (("X-Api-Key: a\r\n", 200), ("X-Api-Key: a\r\nX-Api-Key: b\r\n", 400),
                                ("X_Api_Key: a\r\n", 400), ("X-Api-Key: d\r\nX_Api_Key: e\r\n", 400),
                                ("X_Api_Key: e\r\nX-Api-Key: d\r\n", 400), ("X_Api-Key: e\r\n", 400),
                                ("X-Other: a\r\nX-Other: b\r\nX-Api-Key: b\r\n", 200),
                                ("X-Original-URI: /a\r\nX-Original-URI: /b\r\n", 400),
                                ("X-Original-URI: /a\r\nX-Forwarded-Uri: /b\r\n", 400),
                                ("X-Original-Method: GET\r\nX-Forwarded-Method: PUT\r\n", 400),
                                ("X-Original-URI: /a\r\nX-Forwarded-Uri: /a\r\nX-Api-Key: c\r\n", 200)):
            answer = ration.raw(ration.http_port, f"GET /v1/check HTTP/1.1\r\nHost: h\r\n{headers}Connection: close\r\n\r\n".encode())
            serve.expect(int(answer.split()[1]), status, headers)


def test_traefik_behind_a_proxy():
    """trustForwardHeader: Traefik appends the peer's address to the existing header."""
    with server("--trusted-proxies", TRUSTED, "--trusted-proxies", "10.0.0.0/8") as ration:
        for client in ("203.0.113.1", "203.0.113.2"):
            headers = traefik(f"192.0.2.1, {client}, 10.0.0.5", "POST", "/login")
            serve.expect(statuses(ration, 2, headers), [200, 429], client)
        headers = traefik("192.0.2.1, 203.0.113.2, 10.9.9.9", "POST", "/login")
        serve.expect(check(ration, headers)[0], 429, "by way of another proxy")


def test_an_announced_body_is_not_awaited():
    """ForwardAuth and auth_request may forward Content-Length without a body."""
    with server("--trusted-proxies", TRUSTED) as ration:
        answer = ration.raw(ration.http_port, b"GET /v1/check HTTP/1.1\r\nHost: x\r\n"
                            b"Content-Length: 1000\r\nX-Forwarded-Uri: /\r\n\r\n")
        serve.expect(answer[:12], b"HTTP/1.1 200")


def test_headers_of_untrusted_peers_are_ignored():
    for options in ((), ("--trusted-proxies", TRUSTED)):
        for header, value in (("X-Forwarded-For", "{}"), ("X-Real-IP", "{}"),
                              ("Forwarded", "for={}")):
            word = header.lower()
            with server(*options, "--client-ip-header", word) as ration:
                got = []
                for turn in range(3):
                    headers = traefik(f"203.0.113.{turn}", "POST", "/login")
                    headers[header] = value.format(f"203.0.113.{turn}")
                    got.append(check(ration, headers, STRANGER)[0])
                serve.expect(got, [200, 429, 429], f"{header} {options}")


def test_only_the_configured_header_counts():
    headers = {"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/login",
               "X-Forwarded-For": "203.0.113.1", "X-Real-IP": "203.0.113.2",
               "Forwarded": 'for="[2001:db8::1]:4711"'}
    for word, other, same in (("x-forwarded-for", "203.0.113.9", "203.0.113.1"),
                              ("x-real-ip", "203.0.113.9", "203.0.113.2"),
                              ("forwarded", "for=203.0.113.9", 'for="[2001:db8::2]"')):
        name = {word: name for name in headers for word in [name.lower()]}[word]
        with server("--trusted-proxies", TRUSTED, "--client-ip-header", word) as ration:
            serve.expect(statuses(ration, 2, headers), [200, 429], word)
            serve.expect(check(ration, {**headers, name: same})[0], 429, f"{word}: the same client")
            serve.expect(check(ration, {**headers, name: other})[0], 200, f"{word}: another client")


def test_ipv6_counts_by_network():
    policy = """
limits:
  - {name: wide, match: {path: /wide}, key: ip, rate: 1/min, ipv6_prefix: 48}
  - {name: usual, match: {path: /usual}, key: ip, rate: 1/min}
"""
    rows = (("/usual", "2001:db8:1:1::1", 200), ("/usual", "2001:db8:1:1:ffff::", 429),
            ("/usual", "2001:db8:1:2::1", 200), ("/usual", "::ffff:192.0.2.1", 200),
            ("/usual", "192.0.2.1", 429), ("/usual", "192.0.2.2", 200),
            ("/wide", "2001:db8:1:1::1", 200), ("/wide", "2001:db8:1:ffff::1", 429),
            ("/wide", "2001:db8:2:1::1", 200))
    with server("--trusted-proxies", TRUSTED, policy=policy) as ration:
        for path, client, wanted in rows:
            serve.expect(check(ration, traefik(client, uri=path))[0], wanted, f"{path} {client}")


def test_deny_status():
    with server("--trusted-proxies", TRUSTED) as ration:
        login = traefik("203.0.113.1", "POST", "/login")
        serve.expect(statuses(ration, 2, login, query="?deny_status=403"), [200, 403])
        status, headers, _ = check(ration, login, query="?deny_status=403")
        serve.expect((status, headers["RateLimit"], headers["Retry-After"]),
                     (403, '"login";r=0;t=60', "60"))
        for wrong in ("200", "abc", "999", "4033", ""):
            serve.expect(check(ration, login, query=f"?deny_status={wrong}")[0], 400, wrong)


if __name__ == "__main__":
    serve.run()
