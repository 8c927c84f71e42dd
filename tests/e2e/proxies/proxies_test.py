#!/usr/bin/env python3
"""ration behind a real proxy, with the configuration that the project ships for it.

    proxies_test.py RATION PROXY

PROXY is a name of kit.PROXIES. Clients have addresses of their own on the loopback network; ration trusts only
127.0.0.1, the address of the proxy. The clock advances only when a test advances it.
"""
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import kit
import serve

BINARY = os.path.abspath(sys.argv[1])
KIND = kit.PROXIES[sys.argv[2]]

POLICY = """
limits:
  - name: api
    match: {path: {prefix: /api/}}
    key: ip
    rate: 3/min
  - name: login
    match: {method: POST, path: /login}
    key: ip
    rate: 1/min
  - name: keyed
    match: {path: /keyed}
    key: header.x-api-key
    rate: 1/min
  - name: host
    match: {host: limited.example}
    key: ip
    rate: 1/min
exempt:
  - ip: 127.0.0.7
banned:
  - ip: 127.0.0.66
"""

MINUTE_NS = 60_000_000_000


class Setting:
    """ration, the proxy and the service behind it."""

    def __init__(self, policy=POLICY, options=()):
        self.policy, self.options = policy, options

    def __enter__(self):
        self.service = kit.Service()
        self.ration = self.proxy = None
        try:
            self.ration = serve.Server(BINARY, self.policy, options=[
                "--manual-clock", "--threads", "2", "--trusted-proxies", "127.0.0.1",
                "--check-secret", kit.CHECK_SECRET, "--admin-secret", kit.ADMIN_SECRET, *KIND.options,
                *self.options])
            self.proxy = KIND(self.ration.http_port, self.service.port)
        except BaseException:
            self.close(*sys.exc_info())
            raise
        return self

    def close(self, *exception):
        try:
            if self.proxy is not None:
                self.proxy.__exit__(*exception)
            if self.ration is not None:
                self.ration.__exit__(*exception)
        finally:
            self.service.close()

    def __exit__(self, *exception):
        self.close(*exception)

    def ask(self, *arguments, **named):
        return kit.ask(self.proxy.port, *arguments, **named)

    def statuses(self, count, *arguments, **named):
        return [self.ask(*arguments, **named)[0] for _ in range(count)]

    def advance(self, ns):
        serve.expect(self.ration.resp(password=kit.ADMIN_SECRET).ask("RATION.CLOCK", "ADVANCE", ns) is not None, True)


def limits_of(headers):
    return headers.get("RateLimit"), headers.get("RateLimit-Policy"), headers.get("Retry-After")


def test_admits_denies_and_reports():
    with Setting() as setting:
        reported = []
        for turn in range(5):
            status, headers, body = setting.ask(path=f"/api/{turn}?x=1")
            reported.append((status, limits_of(headers)))
            if status == 200:
                serve.expect(body, b"service")
            else:
                serve.expect(headers["Content-Type"], "application/problem+json")
                serve.expect(headers["Cache-Control"], "no-store")
                serve.expect(headers.get_all("RateLimit"), ['"api";r=0;t=20'], "reported once")
        policy = '"api";q=3;w=60'
        allowed = [(f'"api";r={left};t=20', policy, None) for left in (2, 1, 0)]
        if not KIND.reports_allowed:
            allowed = 3 * [(None, None, None)]
        serve.expect(reported, [(200, shown) for shown in allowed]
                     + 2 * [(429, ('"api";r=0;t=20', policy, "20"))])
        serve.expect(setting.service.take_seen(),
                     [("GET", f"/api/{number}?x=1", b"") for number in range(3)], "the service saw")
        setting.advance(MINUTE_NS // 3 - 1)
        serve.expect(setting.ask(path="/api/early")[0], 429)
        setting.advance(1)
        serve.expect(setting.ask(path="/api/late")[0], 200)
        serve.expect(setting.service.take_seen(), [("GET", "/api/late", b"")], "the service saw")


def test_pages_of_other_sites_are_served():
    """ration refuses requests that a page of another site sends to ration itself, but not those it sends to the service."""
    with Setting() as setting:
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Origin": "https://elsewhere.example",
                   "Host": "shop.example", "Authorization": "Bearer of-the-client"}
        serve.expect(setting.statuses(2, path="/free", headers=headers), [200, 200])
        serve.expect(setting.statuses(2, method="POST", path="/login", headers=headers, body=b"x"), [200, 429])


def test_clients_have_their_own_limits():
    with Setting() as setting:
        for source in ("127.0.0.2", "127.0.0.3", "127.0.0.4"):
            serve.expect(setting.statuses(4, path="/api/x", source=source), [200, 200, 200, 429],
                         source)


def test_a_client_cannot_set_its_address():
    """ration ignores the address headers of a client, in every form."""
    with Setting() as setting:
        said = ["X-Forwarded-For", "X-Real-IP", "Forwarded", "True-Client-IP", "X-Client-IP"]
        statuses = []
        for turn in range(6):
            value = f"203.0.113.{turn + 1}"
            headers = {name: value for name in said}
            headers["Forwarded"] = f"for={value}"
            statuses.append(setting.ask(path=f"/api/x?ip={value}&limit=9", headers=headers)[0])
        serve.expect(statuses, 3 * [200] + 3 * [429])
        headers = {"X-Forwarded-For": "127.0.0.7", "X-Real-IP": "127.0.0.7"}
        serve.expect(setting.ask(path="/api/x", headers=headers)[0], 429, "as the exempt one")


def test_a_trusted_proxy_in_front_may_set_the_address():
    """127.0.0.1 is trusted, so it may be a proxy in front of this one."""
    if KIND.replaces_header:
        return
    with Setting() as setting:
        for client in ("203.0.113.1", "203.0.113.2", "2001:db8::1"):
            headers = {KIND.client_header: f"192.0.2.99, {client}"}
            serve.expect(setting.statuses(4, path="/api/x", headers=headers, source="127.0.0.1"),
                         [200, 200, 200, 429], client)
        headers = {KIND.client_header: "2001:db8::ffff:2"}
        serve.expect(setting.ask(path="/api/x", headers=headers, source="127.0.0.1")[0], 429,
                     "the same /64")
        headers = {KIND.client_header: "2001:db8:0:1::1"}
        serve.expect(setting.ask(path="/api/x", headers=headers, source="127.0.0.1")[0], 200,
                     "another /64")


def test_a_client_cannot_set_its_method_or_path():
    with Setting() as setting:
        lies = {"X-Forwarded-Uri": "/elsewhere", "X-Original-URI": "/elsewhere",
                "X-Forwarded-Method": "PATCH", "X-Original-Method": "PATCH",
                "X-Forwarded-Host": "elsewhere.example"}
        serve.expect(setting.statuses(4, path="/api/x", headers=lies), [200, 200, 200, 429])
        serve.expect(setting.statuses(2, "POST", "/login", headers=lies), [200, 429])
        lies["Host"] = "limited.example"
        serve.expect(setting.statuses(2, path="/", headers=lies), [200, 429], "the host")


def test_method_path_and_host_are_matched():
    with Setting() as setting:
        serve.expect(setting.statuses(3, "GET", "/login"), 3 * [200])
        serve.expect(setting.statuses(2, "POST", "/login", body=b"name=a"), [200, 429])
        serve.expect(setting.statuses(3, "POST", "/logout", body=b"x"), 3 * [200])
        serve.expect(setting.statuses(2, path="/", headers={"Host": "limited.example"}), [200, 429])
        serve.expect(setting.statuses(3, path="/", headers={"Host": "free.example"}), 3 * [200])
        seen = setting.service.take_seen()
        serve.expect(seen.count(("POST", "/login", b"name=a")), 1, "bodies reach the service")
        serve.expect(len(seen), 11)


def test_headers_are_keys():
    with Setting() as setting:
        for key in ("a", "b"):
            serve.expect(setting.statuses(2, path="/keyed", headers={"X-Api-Key": key}), [200, 429])


def test_ration_and_the_service_see_the_same_header():
    """Two keys in one request: either it is refused, or ration and the service see the same one."""
    keys_sent = []  # no request has a key of another request
    with Setting() as setting:
        for spellings in (("X-Api-Key", "X-Api-Key"), ("X-Api-Key", "X_Api_Key"), ("X_Api_Key",)):
            for turn in range(3):
                lines = "".join(f"{name}: {len(keys_sent) + i}\r\n" for i, name in enumerate(spellings))
                keys_sent += spellings
                answer = setting.ration.raw(setting.proxy.port, (
                    f"GET /keyed HTTP/1.1\r\nHost: h\r\n{lines}Connection: close\r\n\r\n").encode())
                status = int(answer.split()[1])
                seen = setting.service.take_headers()
                keys = [value for name, value in seen if name.lower().replace("_", "-") == "x-api-key"]
                if status == 200:
                    serve.expect(len(keys) <= 1, True, f"{spellings}: the service saw {keys}")
                    serve.expect(setting.ask(path="/keyed", headers={"X-Api-Key": keys[0]} if keys else {})[0],
                                 429, f"{spellings}: ration did not see {keys}")
                    setting.service.take_headers()
                else:  # 429: the proxy dropped the only key, here and in the previous request
                    serve.expect((status in (400, 429), keys), (True, []), f"{spellings}: {status}")


def test_a_check_that_ration_cannot_decide_is_refused():
    """on_redis_error: deny makes ration answer 503, which differs from ration being unreachable."""
    policy = """
limits:
  - {name: safe, match: {path: /safe}, key: ip, rate: 3/min, on_redis_error: deny}
  - {name: open, match: {path: /open}, key: ip, rate: 3/min, on_redis_error: allow}
"""
    options = ("--redis", f"redis://127.0.0.1:{kit.free_port()}")
    with Setting(policy, options) as setting:
        serve.expect(setting.statuses(2, path="/safe"), 2 * [KIND.undecided_status])
        serve.expect(setting.service.take_seen(), [], "the service saw")
        serve.expect(setting.statuses(2, path="/open"), [200, 200])


def test_connections_to_ration_are_reused():
    """Also for requests with bodies: nginx forwards neither a body nor its length."""
    with Setting() as setting:
        def count_accepted():
            metrics = kit.ask(setting.ration.http_port, path="/metrics",
                              headers={"Authorization": f"Bearer {kit.CHECK_SECRET}"})[2].decode()
            return int(metrics.partition("\nration_connections_accepted_total ")[2].split()[0])

        before = count_accepted()
        for _ in range(10):
            serve.expect(setting.ask(path="/free")[0], 200)
            serve.expect(setting.ask("POST", "/free", body=b"x" * 100)[0], 200)
        accepted = count_accepted() - before - 1  # one connection was this function's own
        serve.expect(1 <= accepted <= KIND.connections_max, True, f"{accepted} connections for 20 checks")


def test_exempt_and_banned():
    with Setting() as setting:
        for _ in range(6):
            status, headers, _ = setting.ask(path="/api/x", source="127.0.0.7")
            serve.expect((status, limits_of(headers)), (200, (None, None, None)))
        setting.service.take_seen()
        status, headers, _ = setting.ask(path="/", source="127.0.0.66")
        serve.expect((status, limits_of(headers)), (403, (None, None, None)))
        serve.expect(setting.service.take_seen(), [], "the service saw")


def test_errors_of_the_service_are_passed_on():
    """The proxy passes on a 403, 429 or 500 of the service and does not mistake it for a response of ration."""
    with Setting() as setting:
        for status in (403, 404, 429, 500, 502, 503):
            answer = setting.ask(path=f"/free?status={status}")
            serve.expect((answer[0], answer[2]), (status, b"service"))


def test_odd_requests_do_not_bypass_limits():
    with Setting() as setting:
        serve.expect(setting.statuses(4, path="/api/x"), [200, 200, 200, 429])
        setting.service.take_seen()
        many = {f"X-Fill-{i}": "v" * 40 for i in range(90)}
        for path, headers in (("/api/" + "x" * 4000, {}), ("/api/%00%0d%0a%ff", {}),
                              ("/api/x?" + "a=b&" * 200, {}), ("/api/x", many),
                              ("/api/x", {"X-Big": "v" * 6000})):
            status = setting.ask(path=path, headers=headers)[0]
            serve.expect(400 <= status <= 500, True, f"{path[:20]} got {status}")
        serve.expect(setting.service.take_seen(), [], "the service saw")


def test_ration_is_unavailable():
    """Each proxy does at once what its configuration says, and recovers."""
    with Setting() as setting:
        setting.ration.check_end()
        status, headers, _ = setting.ask(path="/api/x")
        serve.expect((status, limits_of(headers)), (KIND.down_status, (None, None, None)))
        serve.expect(len(setting.service.take_seen()), int(KIND.down_status == 200))
        setting.ration.command[setting.ration.command.index("--http") + 1] = \
            f"127.0.0.1:{setting.ration.http_port}"
        setting.ration.start()
        kit.wait_until(lambda: setting.ask(path="/free")[0] == 200 and
                       setting.statuses(4, path="/api/x", source="127.0.0.9")[-1] == 429,
                       "the proxy to find ration again")


def test_ration_hangs():
    """ration accepts connections and does not answer: the proxy's own timeouts, in milliseconds, decide."""
    if KIND.hang_status is None:
        return
    with Setting() as setting:
        serve.expect(setting.ask(path="/api/x")[0], 200)
        serve.freeze(setting.ration.process)
        try:
            serve.expect(setting.ask(path="/api/x")[0], KIND.hang_status)
        finally:
            setting.ration.process.send_signal(signal.SIGCONT)
        kit.wait_until(lambda: setting.statuses(4, path="/api/x")[-1] == 429,
                       "the proxy to ask ration again")


def test_the_page_shows_the_file():
    """docs/guides/proxies.md has the shortest file in full."""
    if KIND is kit.CaddyShort:
        with open(os.path.join(kit.ROOT, "docs", "guides", "proxies.md"), encoding="utf-8") as page:
            serve.expect(kit.example("proxies/Caddyfile.short") in page.read(), True, "the file in the page")


if __name__ == "__main__":
    serve.run()
