#!/usr/bin/env python3
"""A server under the restrictions of the installed unit: nothing that it does needs more than they allow.

    unit_test.py RATION UNIT_TEMPLATE

systemd does not run here, so confine.py applies its restrictions. A system call outside of SystemCallFilter= kills the
server.
"""
import os
import shutil
import signal
import socket
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "redis")]
import redis_kit
import serve

BINARY, UNIT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
POLICY = """
limits:
  - name: by-address
    rate: 5/h
    key: ip
"""


class Confined:
    """A folder that the unit's user owns, with a program that runs the server confined to it."""

    def __init__(self, without=()):
        self.folder = tempfile.mkdtemp(prefix="ration-unit-")
        self.state = os.path.join(self.folder, "state")
        os.mkdir(self.state)
        os.chmod(self.folder, 0o755)
        if os.getuid() == 0:
            os.chown(self.state, 65534, 65534)
        binary = shutil.copy(BINARY, self.folder)
        self.policy_path = self.write("policy.yaml", POLICY, 0o644)
        self.program = self.write("confined", f"#!/bin/sh\nexec {sys.executable} -B {HERE}/confine.py {UNIT} "
                                  f"--without {' '.join(without)} -- {self.state} {binary} \"$@\"\n", 0o755)

    def write(self, name, text, mode):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def credential(self, name, text):
        path = self.write(name, text + "\n", 0o400)  # as LoadCredential= does
        if os.getuid() == 0:
            os.chown(path, 65534, 65534)
        return path

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        shutil.rmtree(self.folder)


def notifications(listener):
    lines = []
    listener.setblocking(False)
    try:
        while True:
            lines.append(listener.recv(4096).decode())
    except BlockingIOError:
        return lines


def use(server, confined, check, admin, is_first):
    """Uses all functions of a server, in memory or with Redis. The second time the address has no tokens left."""
    client = server.resp(password=check)
    operator = server.resp(password=admin)
    headers = {"Authorization": "Bearer " + admin}
    for _ in range(3):
        assert not isinstance(client.ask("RATION.CHECK", "ip", "192.0.2.1"), serve.RespError)
    client.pipeline([("CL.THROTTLE", f"key-{i}", 5, 10, 60) for i in range(500)])
    serve.expect(server.http("GET", "/v1/check?ip=192.0.2.1", headers=headers)[0], 200 if is_first else 429)
    serve.expect(server.http("POST", "/v1/check", {"attributes": {"ip": "192.0.2.2"}}, headers)[0], 200)
    for path in ("/metrics", "/v1/top", "/v1/limits", "/healthz", "/readyz"):
        serve.expect(server.http("GET", path, headers=headers)[0], 200, path)
    assert not isinstance(operator.ask("RATION.BLOCK", "SECONDS", 60, "ip", "192.0.2.3"), serve.RespError)
    for command in ("INFO", "RATION.LIMITS", "RATION.RELOAD", "COMMAND"):
        assert not isinstance(operator.ask(command), serve.RespError), command
    confined.write("policy.yaml", POLICY + "  - {name: more, rate: 7/s, key: user}\n", 0o644)
    before = len(server.lines)
    server.process.send_signal(signal.SIGHUP)
    server.wait_line("reloaded the policy", first=before)


def run_all(redis=None):
    with Confined() as confined:
        check, admin = "unit-check-1", "unit-admin-1"
        options = ["--policy", confined.policy_path, "--check-secret-file", confined.credential("check", check),
                   "--admin-secret-file", confined.credential("admin", admin), "--http", "unix:" + confined.state + "/http"]
        if redis is not None:
            options += ["--redis-file", confined.credential("redis", redis.url), "--redis-timeout", "10s"]
        else:
            options += ["--state", confined.state + "/state"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(confined.state + "/notify")
            os.chmod(confined.state + "/notify", 0o666)
            for is_first in (True, False):  # the second server restores what the first saved
                with serve.Server(confined.program, options=options,
                                  environment={"NOTIFY_SOCKET": confined.state + "/notify"}) as server:
                    use(server, confined, check, admin, is_first)
                lines = notifications(listener)
                for line in ("READY=1", "RELOADING=1", "STOPPING=1"):
                    assert line in lines, lines
                assert redis is not None or os.path.getsize(confined.state + "/state") > 0
                confined.write("policy.yaml", POLICY, 0o644)


def test_a_server_runs_under_the_unit():
    run_all()


def test_a_server_with_redis_runs_under_the_unit():
    with redis_kit.Redis() as redis:
        run_all(redis)


def test_a_call_outside_of_the_filter_is_noticed():
    """The control: if the filter lacks a call that the server needs, the server is killed."""
    with Confined(without=["accept4"]) as confined:
        with serve.Server(confined.program, options=["--policy", confined.policy_path],
                          is_checked=False) as server:
            try:
                server.resp().ask("PING")
            except (serve.Closed, ConnectionError):
                pass
            serve.expect(server.process.wait(20), -signal.SIGSYS)


def test_nothing_but_the_state_can_be_written():
    if os.getuid() != 0:
        print("not root: not tested")
        return
    with Confined() as confined:
        options = ["--policy", confined.policy_path, "--state", os.path.join(confined.folder, "elsewhere")]
        try:
            with serve.Server(confined.program, options=options):
                raise AssertionError("a state outside of the state folder was accepted")
        except AssertionError as error:
            assert "cannot use the state file" in str(error), error


serve.run()
