"""Several hosts on this machine: network namespaces, joined by a bridge.

    hosts.begin()                              # first of all, before there are threads
    node, other = hosts.make(2)
    with redis_kit.Redis(host=other) as redis, node, redis_kit.serve_with(BINARY, redis.url, policy) as server:
        other.unplug()                         # from here on packets to and from it are dropped

A process that a thread starts, or a connection that it opens, `with host:` is on that host; each host has its own
127.0.0.1. begin() moves the test program into a network namespace of its own, and also into a user namespace if it is
not root. So the machine's own network is neither visible nor changed, and everything disappears with the program. If
namespaces are not available, begin() prints a line that says so, and every host is this machine.
"""
import ctypes
import os
import shutil
import subprocess

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
BRIDGE = "hosts"

LIBC = ctypes.CDLL(None, use_errno=True)
IP = shutil.which("ip", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))
bridge_namespace = None  # set by begin(), if there are namespaces


def system_call(name, *arguments):
    if getattr(LIBC, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


def ip(words, files=()):
    if IP is None:
        raise OSError("there is no program ip")
    done = subprocess.run([IP, *words.split()], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          pass_fds=files)
    if done.returncode != 0:
        raise OSError(f"ip {words}: {done.stderr.strip()}")


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


class Here:
    """The host on which the program runs. It cannot be unplugged."""
    address = "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        pass


HERE = Here()


class Namespace:
    """The network namespace of the thread that creates the object; it lives as long as the program. A `with` block moves
    the current thread into it."""

    def __init__(self):
        self.file = self.open()
        self.left = []

    @staticmethod
    def open():
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def __enter__(self):
        self.left.append(self.open())
        system_call("setns", self.file, CLONE_NEWNET)
        return self

    def __exit__(self, kind, value, trace):
        back = self.left.pop()
        system_call("setns", back, CLONE_NEWNET)
        os.close(back)


class Host(Namespace):
    """A namespace with an address, plugged into the bridge."""
    count = 0

    def __init__(self):
        Host.count += 1
        self.port = f"port{Host.count}"
        self.address = f"10.42.0.{Host.count}"
        with bridge_namespace:
            system_call("unshare", CLONE_NEWNET)
            super().__init__()
        with self:
            ip("link set lo up")
        with bridge_namespace:
            ip(f"link add name {self.port} type veth peer name eth0 netns /proc/self/fd/{self.file}", [self.file])
            ip(f"link set {self.port} up")
        self.plug()
        with self:
            ip(f"address add {self.address}/24 dev eth0")
            ip("link set eth0 up")

    def plug(self):
        with bridge_namespace:
            ip(f"link set {self.port} master {BRIDGE}")

    def unplug(self):
        """Drops its packets in both directions. Neither end is notified: both interfaces stay up."""
        with bridge_namespace:
            ip(f"link set {self.port} nomaster")


def leave_network():
    """Moves the program into a network of its own, in which it has all rights."""
    global bridge_namespace
    try:
        system_call("unshare", CLONE_NEWNET)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        system_call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"0 {user} 1")
        write("/proc/self/gid_map", f"0 {group} 1")
    ip("link set lo up")
    ip(f"link add name {BRIDGE} type bridge")
    ip(f"link set {BRIDGE} up")
    bridge_namespace = Namespace()


def works():
    """Tries it in a child process, because a program that has left its network cannot return to it."""
    child = os.fork()
    if child > 0:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        leave_network()
        Host()
        status = 0
    except OSError as error:
        print(f"no network namespaces here ({error.strerror or error}): all on loopback", flush=True)
    finally:
        os._exit(status)


def begin():
    if works():
        leave_network()


def are_separate():
    return bridge_namespace is not None


def make(count):
    return [Host() if are_separate() else HERE for _ in range(count)]
