#!/usr/bin/env python3
"""Tests serve.py: it starts and stops a server, and notices when a server fails.

    serve_test.py RATION
"""
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import serve

BINARY = os.path.abspath(sys.argv[1])


def test_starts_asks_and_stops():
    with serve.Server(BINARY) as server:
        serve.expect(server.resp().ask("PING"), "PONG")
        serve.expect(server.resp(version=3).ask("PING", "x"), b"x")
        serve.expect(server.http("GET", "/healthz")[::2], (200, b"ok\n"))
        folder = server.folder
    serve.expect(os.path.exists(folder), False, "the folder still exists")


def test_an_error_is_a_value():
    with serve.Server(BINARY, http="none") as server:
        answer = server.resp().ask("ECHO")
        serve.expect(answer, serve.RespError("ERR wrong number of arguments for 'echo' command"))


def test_a_killed_server_is_noticed():
    server = serve.Server(BINARY)
    try:
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        with_error(server.check_end, "status -9")
    finally:
        server.kill()


def test_a_sanitizer_report_is_noticed():
    """A server that prints the report of a sanitizer and nevertheless exits with status 0."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "server")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\necho 'x.c:1:2: runtime error: odd' >&2\nexec {BINARY} \"$@\"\n")
        os.chmod(path, stat.S_IRWXU)
        server = serve.Server(path)
        try:
            with_error(server.check_end, "a sanitizer complains")
        finally:
            server.kill()


def test_a_server_that_does_not_start_is_noticed():
    with_error(lambda: serve.Server(BINARY, options=["--no-such-option"]), "no line like")


def test_a_test_that_is_killed_leaves_no_server():
    code = (f"import sys; sys.path.insert(0, {os.path.dirname(serve.__file__)!r}); import serve, os, signal\n"
            f"print(serve.Server({BINARY!r}).process.pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)")
    done = subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, check=False)
    path = f"/proc/{int(done.stdout)}/exe"
    deadline = time.monotonic() + 10
    while os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(.01)
    serve.expect(os.path.exists(path), False, "the server still runs")


def with_error(call, text):
    try:
        call()
    except AssertionError as error:
        assert text in str(error), error
        return
    raise AssertionError(f"no error like {text!r}")


serve.run()
