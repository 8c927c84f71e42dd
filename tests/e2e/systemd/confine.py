#!/usr/bin/env python3
"""Runs a command under the restrictions of a unit, as far as they work without systemd.

    confine.py UNIT [--without SYSCALL...] -- FOLDER COMMAND...

FOLDER stands for the unit's state directory: the only place that can be written to. What is applied:

    SystemCallFilter=         by seccomp; another call kills the process, where systemd would let the call fail
    RestrictAddressFamilies=  likewise, for socket()
    NoNewPrivileges=, CapabilityBoundingSet=, MemoryDenyWriteExecute=, Limit*=, UMask=
    ProtectSystem=strict, ProtectHome=, ProcSubset=pid, DynamicUser=     if root: by a mount namespace and another user
"""
import ctypes
import os
import re
import resource
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 24, 22, 38, 65
CLONE_NEWNS, MS_REC, MS_PRIVATE, MS_BIND = 0x20000, 0x4000, 1 << 18, 0x1000
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
NR_MOUNT_SETATTR = 442
NOBODY = 65534
FAMILIES = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
ALLOW, KILL = 0x7FFF0000, 0x80000000


def check(result, what):
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


def settings_of(unit):
    """{name: [value, ...]}"""
    settings = {}
    with open(unit, encoding="utf-8") as file:
        for name, value in re.findall(r"^(\w+)=(.*)$", file.read(), re.M):
            settings.setdefault(name, []).append(value)
    return settings


def members(name, known={}):
    """The names of the system calls in a group of SystemCallFilter=."""
    if not name.startswith("@"):
        return {name}
    if name not in known:
        lines = subprocess.run(["systemd-analyze", "syscall-filter", "--no-pager", name], check=True,
                               capture_output=True, text=True).stdout.splitlines()
        words = [line.strip() for line in lines[1:]]
        known[name] = set().union(*(members(word) for word in words if word and not word.startswith("#")))
    return known[name]


def allowed_calls(settings):
    allowed = set(members("@default"))
    for value in settings["SystemCallFilter"]:
        names = set().union(*(members(word) for word in value.lstrip("~").split()))
        allowed = allowed - names if value.startswith("~") else allowed | names
    return allowed | members("@default")


def numbers():
    """{name: number} of this machine's system calls, as its headers have them."""
    text = subprocess.run(["gcc", "-dM", "-E", "-include", "asm/unistd.h", "-x", "c", "/dev/null"], check=True,
                          capture_output=True, text=True).stdout
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}


def program(calls, families):
    """The BPF program: the number of the call is at offset 0, the low half of its first argument at 16."""
    known = numbers()

    def load(offset):
        return struct.pack("HBBI", 0x20, 0, 0, offset)

    def allow_if(value):
        return struct.pack("HBBI", 0x15, 0, 1, value) + struct.pack("HBBI", 0x06, 0, 0, ALLOW)

    lines = [load(0)]
    lines += [allow_if(known[name]) for name in sorted(calls - {"socket"}) if name in known]
    lines += [struct.pack("HBBI", 0x15, 1, 0, known["socket"]), struct.pack("HBBI", 0x06, 0, 0, KILL), load(16)]
    lines += [allow_if(FAMILIES[family]) for family in families]
    lines += [struct.pack("HBBI", 0x06, 0, 0, KILL)]
    return b"".join(lines)


def protect_files(folder):
    check(LIBC.unshare(CLONE_NEWNS), "unshare")
    check(LIBC.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "private mounts")
    check(LIBC.mount(b"proc", b"/proc", b"proc", 0, b"subset=pid,hidepid=invisible"), "/proc")
    check(LIBC.mount(folder.encode(), folder.encode(), None, MS_BIND, None), "the state folder")
    for path, flags, is_set in ((b"/", AT_RECURSIVE, True), (folder.encode(), 0, False)):
        attributes = struct.pack("QQQQ", MOUNT_ATTR_RDONLY if is_set else 0, 0 if is_set else MOUNT_ATTR_RDONLY, 0, 0)
        check(LIBC.syscall(NR_MOUNT_SETATTR, AT_FDCWD, path, flags, attributes, len(attributes)), "read-only")


def main():
    unit, rest = sys.argv[1], sys.argv[2:]
    at = rest.index("--")
    without = set(rest[1:at]) if rest[:1] == ["--without"] else set()
    folder, command = rest[at + 1], rest[at + 2:]
    settings = settings_of(unit)
    bpf = program(allowed_calls(settings) - without, settings["RestrictAddressFamilies"][0].split())

    files, core = (int(settings[name][0]) for name in ("LimitNOFILE", "LimitCORE"))
    files = min(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
    resource.setrlimit(resource.RLIMIT_CORE, (core, core))
    os.umask(int(settings["UMask"][0], 8))
    if os.getuid() == 0:
        protect_files(folder)
        for capability in range(64):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    else:
        print("not root: the root file system stays writable, and the user is the same", flush=True)
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    if LIBC.prctl(PR_SET_MDWE, 1, 0, 0, 0) < 0:
        print("this kernel has no PR_SET_MDWE: MemoryDenyWriteExecute= is not tested", flush=True)
    buffer = ctypes.create_string_buffer(bpf, len(bpf))
    fprog = struct.pack("HxxxxxxQ", len(bpf) // 8, ctypes.addressof(buffer))
    check(LIBC.prctl(PR_SET_SECCOMP, 2, fprog, 0, 0), "seccomp")
    os.execv(command[0], command)


main()
