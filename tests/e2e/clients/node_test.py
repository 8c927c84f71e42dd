#!/usr/bin/env python3
"""Clients for Node: node_clients.js with a server without and with a password.

    node_test.py RATION PACKAGES
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import serve

BINARY, PACKAGES = sys.argv[1:3]
POLICY = "limits: [{name: login, match: {path: /login}, key: ip, rate: 1/min, burst: 3}]\n"
RUNS = 7


def use(server, password, line_count):
    done = subprocess.run(["node", os.path.join(HERE, "node_clients.js"), os.path.abspath(PACKAGES),
                           str(server.resp_port), password], capture_output=True, text=True, timeout=60,
                          check=False)
    print(done.stdout, done.stderr, sep="", end="")
    serve.expect(done.returncode, 0, "node's status")
    serve.expect(done.stdout.count("\n"), line_count, "clients that did everything")


def test_without_a_password():
    with serve.Server(BINARY, http="none", policy=POLICY, options=["--manual-clock"]) as server:
        use(server, "", RUNS)


def test_with_a_password():
    with serve.Server(BINARY, http="none", policy=POLICY,
                      options=["--manual-clock", "--check-secret", "another", "--admin-secret", "correct horse"]) as server:
        use(server, "correct horse", RUNS + 2)


serve.run()
