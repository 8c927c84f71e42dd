#!/usr/bin/env python3
"""Which addresses and credentials --redis accepts, and the errors for those that it does not accept.

    url_test.py RATION
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import redis_kit
import serve

BINARY = os.path.abspath(sys.argv[1])
POLICY = "limits: [{name: l, key: user, rate: 1/day, burst: 5}]\n"
START_SECONDS = 30


def check_decides(redis, url, database=0, user="u", options=(), prefix="ration"):
    """Redis decides, and has the bucket under the expected key."""
    with redis_kit.serve_with(BINARY, url, POLICY, ["--threads", "1", *options], deadline_ms=5000) as server:
        redis_kit.wait_well(server)
        answer = serve.pairs(server.resp().ask("RATION.CHECK", "user", user))
        serve.expect((answer[b"remaining"], answer[b"degraded"]), (4, 0), url)
        serve.expect(server.resp().ask("RATION.REFUND", "user", user), 1, "an edit")
        serve.expect(server.resp().ask("RATION.RESET", "user", user), 1, "an edit")
        serve.expect(serve.pairs(server.resp().ask("RATION.CHECK", "user", user))[b"degraded"], 0, url)
        assert url.partition("@")[0] == url or url not in server.output(), "the output contains the password"
    client = redis.client()
    if database:
        serve.expect(client.ask("SELECT", database), "OK")
    serve.expect(client.ask("KEYS", "*"), [f"{prefix}:{{{user}}}:l".encode()], f"keys of {url}")
    serve.expect(client.ask("FLUSHALL"), "OK")


def check_degraded(url, reason=None):
    """Redis does not decide, the server continues, and /readyz has the reason for the missing connection."""
    with redis_kit.serve_with(BINARY, url, POLICY, ["--threads", "1"]) as server:
        client = server.resp()
        if reason:
            _, _, text = server.http("GET", "/readyz")
            assert reason in text, f"{url}: {text}"
        for _ in range(20):
            answer = client.ask("RATION.PEEK", "user", "nobody")
            assert redis_kit.is_degraded(answer), f"{url}: {answer}"


def refused(*options, policy=POLICY):
    """The output of a server that refuses its options: it must exit with status 2."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "policy.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(policy)
        done = subprocess.run([BINARY, "serve", "--http", "none", "--resp", "127.0.0.1:0", "--policy", path, *options],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_SECONDS, check=False)
    output = done.stdout + done.stderr
    assert not serve.SANITIZER.search(output), output
    serve.expect(done.returncode, 2, f"status with {options}: {output}")
    return output


def test_addresses():
    with redis_kit.Redis() as redis:
        check_decides(redis, redis.url)
        check_decides(redis, redis.url + "/")
        check_decides(redis, f"redis://localhost:{redis.port}")
        check_decides(redis, f"redis://127.0.0.1:{redis.port}/7", database=7)
        check_decides(redis, f"unix:{redis.socket_path}")
        check_decides(redis, f"unix:{redis.socket_path}?db=3", database=3)
        check_decides(redis, redis.url, options=["--redis-prefix", "shop"], prefix="shop")


def test_an_address_of_ipv6():
    with redis_kit.Redis("--bind", "127.0.0.1", "-::1") as redis:
        try:
            serve.socket.create_connection(("::1", redis.port), timeout=5).close()
        except OSError:
            print("       no IPv6 here")
            return
        check_decides(redis, f"redis://[::1]:{redis.port}")


def test_a_password():
    word = "p@ss:w/rd %25"
    with redis_kit.Redis("--requirepass", word) as redis:
        check_decides(redis, f"redis://:p%40ss%3Aw%2Frd%20%2525@127.0.0.1:{redis.port}")
        check_decides(redis, f"redis://:p%40ss%3Aw%2Frd%20%2525@127.0.0.1:{redis.port}/2", database=2)
        check_decides(redis, f"unix://:p%40ss%3Aw%2Frd%20%2525@{redis.socket_path}?db=2", database=2)
        check_degraded(f"unix:{redis.socket_path}", b"NOAUTH")
        check_degraded(redis.url, b"NOAUTH")
        check_degraded(f"redis://:wrong@127.0.0.1:{redis.port}", b"WRONGPASS")
        check_degraded(f"redis://:wrong@127.0.0.1:{redis.port}/2", b"WRONGPASS")


def test_a_user():
    """With the rights that docs/redis.md lists, and no others."""
    rights = ("on", ">secret", "~ration:*", "+evalsha", "+eval", "+script|load", "+time", "+get", "+set", "+del",
              "+select")
    with redis_kit.Redis() as redis:
        serve.expect(redis.ask("ACL", "SETUSER", "limiter", *rights), "OK")
        check_decides(redis, f"redis://limiter:secret@127.0.0.1:{redis.port}")
        check_decides(redis, f"redis://limiter:secret@127.0.0.1:{redis.port}/1", database=1)
        check_degraded(f"redis://limiter:other@127.0.0.1:{redis.port}", b"WRONGPASS")
        check_degraded(f"redis://nobody:secret@127.0.0.1:{redis.port}", b"WRONGPASS")
        serve.expect(redis.ask("ACL", "SETUSER", "limiter", "-eval", "-evalsha"), "OK")
        check_degraded(f"redis://limiter:secret@127.0.0.1:{redis.port}")


def test_nothing_there():
    check_degraded(f"redis://127.0.0.1:{redis_kit.free_port()}", b"Connection refused")
    check_degraded("unix:/nowhere/redis.sock")
    check_degraded("redis://no.such.host.invalid")
    with redis_kit.Redis() as redis:
        check_degraded(redis.url + "/9999", b"DB index is out of range")


def test_bad_urls():
    for url, message in (("127.0.0.1:6379", "redis://"), ("", "write URL"), ("http://127.0.0.1", "redis://"),
                         ("rediss://127.0.0.1", "TLS"), ("redis://", "host"), ("redis://:6379", "host"),
                         ("redis://h:0", "port"), ("redis://h:65536", "port"), ("redis://h:x", "port"),
                         ("redis://h:", "port"), ("redis://h/x", "database"), ("redis://h/-1", "database"),
                         ("redis://h/99999999999", "database"), ("redis://word@h", "user:password"),
                         ("redis://u:%zz@h", "user:password"), ("redis://u:%4@h", "user:password"),
                         ("redis://u:%00@h", "user:password"), (f"redis://u:{'x' * 256}@h", "user:password"),
                         ("redis://[::1", "ends with ]"), ("redis://[::1]x", "port"), ("redis://" + "h" * 256, "host"),
                         ("unix:", "absolute"), ("unix:relative", "absolute"), ("unix:/p?x=1", "db="),
                         ("unix:/p?db=", "db="), ("unix:/" + "p" * 256, "255")):
        output = refused("--redis", url)
        assert message in output and (url == "" or "cannot store the limits in Redis" in output), f"{url!r}: {output}"
        assert "x" * 256 not in output, "the output contains a password"


def test_bad_settings():
    assert "braces" in refused("--redis", "redis://127.0.0.1:1", "--redis-prefix", "a{b}")
    assert "63" in refused("--redis", "redis://127.0.0.1:1", "--redis-prefix", "x" * 64)
    for option in ("--redis-timeout", "0"), ("--redis-timeout", "60001ms"), ("--node-count", "0"):
        assert option[0] in refused("--redis", "redis://127.0.0.1:1", *option)


def test_limits_that_redis_cannot_store():
    for rate, message in (("1001/10s sliding_log", "at most 1000 tokens"), ("5/10ns fixed_window", "microsecond")):
        output = refused("--redis", "redis://127.0.0.1:1",
                       policy=f"limits:\n  - {{name: fine, rate: 1/s}}\n  - {{name: odd, rate: {rate}}}\n")
        assert message in output and "limit odd, line 3" in output, output
    output = refused("--redis", "redis://127.0.0.1:1", "--node-count", "1000",
                   policy="limits:\n  - {name: odd, rate: 100/365d, redis_mode: local_first}\n")
    assert "16 years" in output and "limit odd, line 2" in output, output


def test_an_address_that_cannot_be_listened_on():
    """The server has created its connection to Redis by then."""
    for url in f"redis://127.0.0.1:{redis_kit.free_port()}", "unix:/nowhere":
        output = refused("--redis", url, "--resp", "192.0.2.1:1", "--insecure")
        assert "cannot listen" in output, output


serve.run()
