#!/usr/bin/env python3
"""Secrets are not in the memory of a running server: neither those that clients send nor, except for one copy that is
excluded from core dumps, the password of Redis. Other users of the host cannot read them either.

    secrets_test.py RATION

Each secret is a text that occurs nowhere else. The test searches all memory of the process for it, also for pieces of
it, because a block that was freed and reused still contains some of its old contents.
"""
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "redis"))
import attack_kit as kit
import redis_kit
import serve

CHECK = "pw-7Qk2vT9xLmB4nRf8sHw3dJz6yCg5aEp1uXo0iVtN"
ADMIN = "tk-M3hB8rWq5zXc1vYn6kLd9fGs2jTp7aQe4uRo0iHw"
REDIS = "rd-xF4kZp8vBn2mQw6rTy1uJh5gLc9sDa3eKo7iWqXb"
PIECE_BYTES = 12
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PAGES = 8192  # whose entries are read in one call

POLICY = """
limits:
  - name: marked-limit-4ad0c7b1
    rate: 5/min
    key: ip
    max_keys: 1000
"""
SMALL = ["--inline-keys", "1000", "--threads", "2"]


def regions(process):
    """(start, end, flags) of all readable memory that was touched."""
    with open(f"/proc/{process.pid}/smaps", encoding="utf-8") as file:
        text = file.read()
    for part in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", text):
        head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) .*?(\[vvar\]|\[vsyscall\]|\[vdso\])?$", part.split("\n")[0])
        flags = re.search(r"^VmFlags: (.*)$", part, re.M).group(1).split()
        touched = int(re.search(r"^Rss: +(\d+)", part, re.M).group(1))
        if head.group(3)[0] == "r" and not head.group(4) and touched:
            yield int(head.group(1), 16), int(head.group(2), 16), flags


def present(pagemap, start, end):
    """(start, end) of runs of present pages: tables reserve far more memory than they touch."""
    first = None
    for block in range(start, end, PAGES * PAGE_BYTES):
        pagemap.seek(block // PAGE_BYTES * 8)
        entries = pagemap.read(min(PAGES, (end - block) // PAGE_BYTES) * 8)
        count = len(entries) // 8
        is_same = entries == entries[:8] * count  # usually no page is present
        for i in range(1 if is_same else count):
            at = block + i * PAGE_BYTES
            if not entries[8 * i + 7] & 0xC0:  # neither in memory nor swapped
                if first is not None:
                    yield first, at
                first = None
            elif first is None:
                first = at
        if first is not None and block + count * PAGE_BYTES >= end:
            yield first, end


def find(server, secret):
    """[(address, flags, piece)] of the pieces of the secret in memory. Adjacent pieces are joined."""
    pieces = [secret[i:i + PIECE_BYTES].encode() for i in range(0, len(secret) - PIECE_BYTES + 1, 4)]
    found = []
    with open(f"/proc/{server.process.pid}/mem", "rb", buffering=0) as memory, \
            open(f"/proc/{server.process.pid}/pagemap", "rb", buffering=0) as pagemap:
        runs = [(run, flags) for first, last, flags in regions(server.process)
                for run in present(pagemap, first, last)]
        for (start, end), flags in runs:
            memory.seek(start)
            content = memory.read(end - start)
            for piece in pieces:
                at = content.find(piece)
                while at >= 0:
                    if not any(abs(start + at - address) < len(secret) for address, _, _ in found):
                        found.append((start + at, flags, content[max(0, at - 16):at + 48]))
                    at = content.find(piece, at + 1)
    return found


def expect_none(server, *secrets):
    for secret in secrets:
        found = find(server, secret)
        assert not found, f"{secret[:3]}... is in memory: " + ", ".join(
            f"{address:#x} ({' '.join(flags)}) {piece!r}" for address, flags, piece in found)
    with open(f"/proc/{server.process.pid}/cmdline", "rb") as file:
        line = file.read()
    assert not any(secret.encode() in line for secret in secrets), line


def use(server):
    """Sends the secrets in every form, whole and in pieces, correct and almost correct; and reloads."""
    client = server.resp(password=CHECK)
    assert isinstance(server.resp().ask("AUTH", CHECK + "x"), serve.RespError)
    slow = server.resp()
    for byte in serve.Resp.encode("AUTH", CHECK):
        slow.socket.sendall(bytes([byte]))
    serve.expect(slow.read(), "OK")
    part = server.resp()
    part.socket.sendall(serve.Resp.encode("AUTH", CHECK)[:-9])  # stays incomplete
    for secret in (ADMIN, ADMIN + "x"):
        status, _, _ = server.http("GET", "/v1/top", headers={"Authorization": "Bearer " + secret})
        serve.expect(status, 200 if secret == ADMIN else 401)
    connection = server.http_connection()
    for byte in f"GET /v1/top HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {ADMIN}\r\n\r\n".encode():
        connection.sock.sendall(bytes([byte]))
    assert connection.sock.recv(4096).startswith(b"HTTP/1.1 200")
    answer = server.resp(password=ADMIN).ask("RATION.RELOAD")
    assert not isinstance(answer, serve.RespError), answer
    serve.expect(client.ask("PING"), "PONG")
    part.close()
    for _ in range(4):  # on each loop; nothing longer comes after it
        again = server.resp(password=CHECK)
        serve.expect(again.ask("AUTH", "default", CHECK), "OK")
        serve.expect(again.ask("HELLO", 3, "AUTH", "default", CHECK)[b"proto"], 3)


def file_with(folder, name, text, mode=0o600):
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, mode), "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def test_a_text_that_is_no_secret_is_found():
    """The control: shows that the search finds a text that is in memory."""
    with serve.Server(kit.BINARY, policy=POLICY, options=SMALL) as server:
        assert find(server, "marked-limit-4ad0c7b1")


def test_secrets_of_the_command_line():
    with serve.Server(kit.BINARY, policy=POLICY,
                      options=[*SMALL, "--check-secret", CHECK, "--admin-secret=" + ADMIN]) as server:
        expect_none(server, CHECK, ADMIN)
        use(server)
        expect_none(server, CHECK, ADMIN)


def test_secrets_of_files():
    with tempfile.TemporaryDirectory() as folder:
        options = [*SMALL, "--check-secret-file", file_with(folder, "check", CHECK + "\n"),
                   "--admin-secret-file", file_with(folder, "admin", ADMIN + "\n")]
        with serve.Server(kit.BINARY, policy=POLICY, options=options) as server:
            use(server)
            expect_none(server, CHECK, ADMIN)


def test_secrets_of_the_policy():
    policy = POLICY + f"server:\n  check_secret: {CHECK}\n  admin_secret: '{ADMIN}'\n"
    with serve.Server(kit.BINARY, policy=policy, options=SMALL) as server:
        expect_none(server, CHECK, ADMIN)
        use(server)
        expect_none(server, CHECK, ADMIN)


def redis_copies(server):
    """The number of copies of the password of Redis; each must be excluded from core dumps."""
    found = find(server, REDIS)
    for address, flags, piece in found:
        assert "dd" in flags, f"the password of Redis is at {address:#x} ({' '.join(flags)}): {piece!r}"
    return len(found)


def test_the_password_of_redis():
    with redis_kit.Redis("--requirepass", REDIS) as redis, tempfile.TemporaryDirectory() as folder:
        url = f"redis://:{REDIS}@127.0.0.1:{redis.port}"
        for options, policy in ((["--redis", url], POLICY),
                                (["--redis-file", file_with(folder, "url", url + "\n")], POLICY),
                                ([], POLICY + f"server:\n  redis: {url}\n")):
            with serve.Server(kit.BINARY, policy=policy, options=[*SMALL, *options]) as server:
                client = server.resp()
                answer = client.ask("RATION.CHECK", "ip", "192.0.2.1")
                assert not isinstance(answer, serve.RespError), answer
                serve.expect(redis.client().ask("DBSIZE"), 1)
                serve.expect(redis_copies(server), 1)
                redis.client().ask("CLIENT", "KILL", "TYPE", "normal")  # each loop connects again
                server.wait_line("listening")
                lines = client.ask("RATION.RELOAD")
                assert b"needs a restart" not in lines, lines
                serve.expect(redis_copies(server), 1)
                with open(f"/proc/{server.process.pid}/cmdline", "rb") as file:
                    assert REDIS.encode() not in file.read()


def test_a_policy_with_a_secret_that_others_may_read_is_rejected():
    with tempfile.TemporaryDirectory() as folder:
        for line, name in (("check_secret: " + CHECK, "check-secret"), ("admin_secret: " + ADMIN, "admin-secret"),
                           (f"redis: redis://:{REDIS}@127.0.0.1:1", "redis")):
            path = file_with(folder, "policy.yaml", POLICY + f"server:\n  {line}\n", 0o644)
            for command in ([], ["--check-secret", "other", "--admin-secret", "other", "--redis", "redis://127.0.0.1:1"]):
                run = subprocess.run([kit.BINARY, "serve", "--http", "127.0.0.1:0", "--resp", "127.0.0.1:0", *command,
                                      "--policy", path], capture_output=True, text=True, timeout=60)
                serve.expect(run.returncode, 2)
                wanted = f"policy.yaml:8:{5 + len(name)}: {name} is a secret, and others may use this file (mode 0644); " \
                         f"run chmod o= {path}"
                assert wanted in run.stderr, (wanted, run.stderr)
                assert CHECK not in run.stderr and REDIS not in run.stderr, run.stderr
        path = file_with(folder, "policy.yaml", POLICY + "server:\n  redis: redis://127.0.0.1:1\n", 0o644)
        with serve.Server(kit.BINARY, options=[*SMALL, "--policy", path]):
            pass  # a URL without a password is not a secret


def test_a_reload_of_such_a_policy_is_rejected_too():
    policy = POLICY + f"server:\n  admin_secret: {ADMIN}\n"
    with serve.Server(kit.BINARY, policy=policy, options=SMALL) as server:
        os.chmod(server.policy_path, 0o604)
        answer = server.resp(password=ADMIN).ask("RATION.RELOAD")
        assert isinstance(answer, serve.RespError) and "chmod o=" in str(answer), answer


def is_dumpable(options):
    """Whether the kernel would dump the core of a server that runs as a user other than root. The owner of its /proc
    files shows it."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    binary = shutil.copy(kit.BINARY, folder)
    user = 65534 if os.getuid() == 0 else os.getuid()
    wrapper = os.path.join(folder, "as-user")
    command = f"setpriv --reuid={user} --regid={user} --clear-groups" if os.getuid() == 0 else ""
    with open(wrapper, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\nexec {command} {binary} \"$@\"\n")
    os.chmod(wrapper, stat.S_IRWXU)
    try:
        with serve.Server(wrapper, options=[*SMALL, *options]) as server:
            return os.stat(f"/proc/{server.process.pid}/environ").st_uid == user
    finally:
        shutil.rmtree(folder)


def test_a_server_with_secrets_is_not_dumped():
    serve.expect(is_dumpable([]), True, "without secrets")
    serve.expect(is_dumpable(["--check-secret", CHECK]), False, "with a secret")
    serve.expect(is_dumpable(["--check-secret", CHECK, "--core-dumps"]), True, "if wanted")


serve.run()
