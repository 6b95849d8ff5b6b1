"""Two machines on one: network namespaces joined by a cable, each with a disk of its own.

A host sees nothing of the other's disk: its own is mounted at a path that both have, and where
both lie in truth is covered.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torchrun

NUMBER = 2


class Hosts:
    """Two hosts; `disk` is where each sees its own, `disks` what these are for the test.

    Args:
        folder: an empty folder.
        name: begins the names of namespaces and interfaces; at most ten letters.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.name, self.hidden, self.disk = name, folder / "hidden", folder / "disk"
        self.disks = [self.hidden / str(host) for host in range(NUMBER)]
        for path in (self.disk, *self.disks):
            path.mkdir(parents=True)

    def namespace(self, host: int) -> str:
        return f"{self.name}{host}"

    def address(self, host: int) -> str:
        return f"10.231.87.{host + 1}"

    def connect(self) -> None:
        """Make the namespaces and the cable."""
        for host in range(NUMBER):
            ip("netns", "add", self.namespace(host))
        ends = [self.namespace(host) for host in range(NUMBER)]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in enumerate(ends):
            ip("link", "set", end, "netns", end)
            ip("-n", end, "addr", "add", f"{self.address(host)}/24", "dev", end)
            for device in ("lo", end):
                ip("-n", end, "link", "set", device, "up")

    def remove(self) -> None:
        """Remove what `connect` has made, as far as it came."""
        for host in range(NUMBER):
            # With its end of the cable, and so with the cable.
            subprocess.run(["ip", "netns", "del", self.namespace(host)], capture_output=True)
        subprocess.run(["ip", "link", "del", self.namespace(0)], capture_output=True)

    def start(self, host: int, *program: object) -> subprocess.Popen[str]:
        """A program in one process on this host, with the others by torchrun."""
        here = self.address(host)
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-id", self.name]
        rendezvous += ["--rdzv-endpoint", f"{self.address(0)}:29400", "--local-addr", here]
        # The names of these machines do not say which of them has the endpoint's address.
        rendezvous += ["--rdzv-conf", f"is_host={int(host == 0)}"]
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", str(NUMBER)]
        command += [*rendezvous, "--nproc-per-node", "1", *map(str, program)]
        mounts = 'mount --bind "$1" "$2" && mount -t tmpfs none "$3" && shift 3 && exec "$@"'
        places = [str(each) for each in (self.disks[host], self.disk, self.hidden)]
        inside = ["unshare", "--mount", "sh", "-c", mounts, "sh", *places, *command]
        return subprocess.Popen(
            ["ip", "netns", "exec", self.namespace(host), *inside],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**torchrun.environment(), "GLOO_SOCKET_IFNAME": self.namespace(host)},
        )

    def run(self, *program: object, seconds: float = 400) -> list[tuple[int, str, str]]:
        """(exit code, standard output, standard error) of a program on each host."""
        running = [self.start(host, *program) for host in range(NUMBER)]
        try:
            outputs = [each.communicate(timeout=seconds) for each in running]
        finally:
            for each in running:
                each.kill()
        return [(each.returncode, *out) for each, out in zip(running, outputs, strict=True)]


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def refusal() -> str:
    """Why there can be no namespaces here; empty where there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are of Linux"
    for name in ("ip", "unshare", "mount"):
        if shutil.which(name) is None:
            return f"the program '{name}' is not installed"
    name = f"gl{os.getpid()}x"
    try:
        ip("netns", "add", name)
        inside = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
        command = ["ip", "netns", "exec", name, *inside]
        subprocess.run(command, check=True, capture_output=True, text=True)
        ip("-n", name, "link", "add", "veth0", "type", "veth", "peer", "name", "veth1")
    except subprocess.CalledProcessError as error:
        return f"namespaces are not allowed here: {error.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return ""


@contextmanager
def two_hosts(folder: Path) -> Iterator[Hosts]:
    """Two hosts that are connected, and removed in the end."""
    hosts = Hosts(folder, f"gl{os.getpid()}h")
    try:
        hosts.connect()
        yield hosts
    finally:
        hosts.remove()
