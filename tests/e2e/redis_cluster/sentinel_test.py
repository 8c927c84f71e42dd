#!/usr/bin/env python3
"""`ration serve` follows the master that the sentinels name: when it dies, and when it is demoted.

    sentinel_test.py RATION LIBRARY_TEST
"""
import subprocess
import sys
import time

import redis_nodes
from redis_nodes import serve

BINARY, LIBRARY_TEST = sys.argv[1:3]

POLICY = """
limits:
  - {name: few, key: user, rate: 5/365d, burst: 5}
  - {name: lots, key: user, rate: 1000/s, burst: 1000}
"""


def check(client, user):
    answer = client.ask("RATION.CHECK", "user", user)
    if isinstance(answer, serve.RespError):
        raise AssertionError(answer.text)
    return serve.pairs(answer)


def wait_decided(client, user, seconds):
    """Returns the time until Redis decides again, and the time of the slowest reply until then."""
    began, slowest = time.monotonic(), 0.0
    while True:
        before = time.monotonic()
        is_degraded = check(client, user)[b"degraded"]
        slowest = max(slowest, time.monotonic() - before)
        if not is_degraded:
            return time.monotonic() - began, slowest
        if time.monotonic() - began > seconds:
            raise AssertionError(f"no decision by Redis within {seconds} s")
        time.sleep(0.01)


def test_R12_the_server_follows_a_new_master():
    with redis_nodes.Sentinels(3) as group, \
            serve.Server(BINARY, policy=POLICY,  # a machine that runs other tests would exceed the default of 20 ms
                         options=["--redis", group.url, "--threads", "1", "--redis-timeout", "300ms"]) as server:
        client = server.resp()
        wait_decided(client, "first", 10)
        for verdict in (b"allow",) * 5 + (b"deny",):
            answer = check(client, "alice")
            serve.expect((answer[b"verdict"], answer[b"degraded"]), (verdict, 0))
        redis_nodes.wait_until(lambda: group.replica.do("DBSIZE") == group.master.do("DBSIZE"), 10, "replication")

        group.master.kill()
        time.sleep(0.1)
        serve.expect(check(client, "second")[b"degraded"], 1, "there is no master")
        seconds, slowest = wait_decided(client, "second", 30)
        print(f"       decided again after {seconds:.1f} s, slowest answer {slowest * 1000:.1f} ms")
        assert slowest < 1
        serve.expect(group.master_port(), group.replica.port)
        serve.expect(group.replica.info("replication")["role"], "master")
        # the new master knows the tokens taken
        answer = check(client, "alice")
        serve.expect((answer[b"verdict"], answer[b"degraded"]), (b"deny", 0))

        # the old master returns as a replica; then the sentinels make it the master again
        group.master.start()
        redis_nodes.wait_until(
            lambda: group.master.info("replication").get("master_link_status") == "up", 30, "the old master is a replica")
        serve.expect(check(client, "alice")[b"degraded"], 0)
        redis_nodes.wait_until(lambda: group.is_demoted(group.replica), 30, "it is demoted")
        wait_decided(client, "third", 30)
        serve.expect(group.master.info("replication")["role"], "master")
        assert group.master.do("EXISTS", "ration:{third}:few") == 1, "it is not the new master that decides"


def check_guarded_sentinel(group):
    """Sentinels with a password of their own, or with users."""
    sentinel = group.sentinels[0]
    url = f"redis+sentinel://{sentinel.address}/{group.NAME}"
    sentinel.do("ACL", "SETUSER", "default", "resetpass", ">gu@rd")
    sentinel.do("ACL", "SETUSER", "limiter", "on", ">word", "+sentinel|get-master-addr-by-name")
    for guard in "?sentinel=:gu%40rd", "?sentinel=limiter:word":
        with serve.Server(BINARY, policy=POLICY, options=["--redis", url + guard]) as server:
            wait_decided(server.resp(), "dave", 10)
            assert "gu%40rd" not in server.output() and "word" not in server.output(), "a password is reported"
    with serve.Server(BINARY, policy=POLICY, options=["--redis", url + "?sentinel=:wrong"]) as server:
        serve.expect(check(server.resp(), "dave")[b"degraded"], 1)
        time.sleep(.3)
        serve.expect(check(server.resp(), "dave")[b"degraded"], 1, "without the right password")


def test_unavailable_and_ignorant_sentinels_are_skipped():
    with redis_nodes.Sentinels(1) as group:
        other = group.add(options=redis_nodes.PLAIN)  # does not know the command SENTINEL
        url = f"redis+sentinel://127.0.0.1:1,{other.address},{group.sentinels[0].address}/{group.NAME}/2"
        with serve.Server(BINARY, policy=POLICY, options=["--redis", url]) as server:
            client = server.resp()
            wait_decided(client, "carol", 10)
            subprocess.run([LIBRARY_TEST, url], check=True, timeout=30)
            # the database is the one in the URL
            serve.expect(group.master.do("SELECT", 2), "OK")
            assert group.master.do("DBSIZE") >= 1
            check_guarded_sentinel(group)
            # no sentinel is needed while the master is available
            group.sentinels[0].kill()
            time.sleep(0.3)
            serve.expect(check(client, "carol")[b"degraded"], 0)


serve.run()
