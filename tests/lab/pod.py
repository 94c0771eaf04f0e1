#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# usage: pod.py MANIFEST INDEX ADDRESS NAMESERVER HALAYRUN SECRET ARGUMENT...
#        pod.py --names ADDRESS FILE
#
# Becomes a pod of the manifest's Indexed Job, in namespaces of its own (unshare --mount --uts --pid), as kubelet and a
# container runtime make it: its host name, /etc/hosts and /etc/resolv.conf, volumes, security context, environment. Its
# first process is the container's command, with HALAYRUN in place of its first word and the arguments in place of its
# args. --names: the cluster's DNS, which knows FILE's lines "ADDRESS NAME" as they are when it is asked.
import ctypes
import os
import socket
import struct
import subprocess
import sys
from typing import Any

sys.path.append("/usr/local/lib/kubernetes-validate")
import yaml

DOMAIN = "default.svc.cluster.local"
LIBC = ctypes.CDLL(None, use_errno=True)
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 24, 38, 22
# What RuntimeDefault refuses of what a program for clusters might try, on x86-64: mbind, set_mempolicy, get_mempolicy,
# move_pages, perf_event_open, kcmp, userfaultfd, io_uring_*, ptrace, unshare, mount, bpf, keyctl, pidfd_getfd.
REFUSED = (237, 238, 239, 279, 298, 312, 323, 425, 426, 427, 101, 272, 165, 321, 250, 438)


def serve_names(address: str, path: str) -> None:
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print("serves", flush=True)
    while True:
        query, asker = server.recvfrom(512)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        kind = struct.unpack(">H", query[at + 1 : at + 3])[0]
        with open(path, encoding="ascii") as file:
            known = [line.split()[0] for line in file if line.split()[1] == ".".join(labels).lower()]
        found = known if kind == 1 else []
        flags = 0x8580 if known else 0x8583
        answer = query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0) + query[12 : at + 5]
        for text in found:
            answer += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(text)
        server.sendto(answer, asker)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def mount_file(path: str, text: str) -> None:
    source = "/run/pod-" + os.path.basename(path)
    with open(source, "w", encoding="ascii") as file:
        file.write(text)
    mount("--bind", source, os.path.realpath(path))


def make_read_only(writable: set[str]) -> None:
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        places = [line.split()[4] for line in file]
    for place in places:
        if place not in writable and not place.startswith(("/proc", "/dev", "/sys")):
            # What another mount hides cannot be reached, by any process.
            subprocess.run(["mount", "-o", "remount,bind,ro", place], stderr=subprocess.DEVNULL, check=place == "/")


def refuse_calls() -> None:
    """As a seccomp filter: EPERM for REFUSED."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    steps = [(0x20, 0, 0, 0)]
    for number in REFUSED:
        steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
    steps.append((0x06, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = Program(len(steps), ctypes.addressof(code))
    if LIBC.prctl(PR_SET_SECCOMP, 2, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no seccomp filter")


def confine(pod: dict[str, Any], container: dict[str, Any]) -> None:
    context, own = pod["securityContext"], container["securityContext"]
    os.setgroups([context["fsGroup"]])
    if own["capabilities"]["drop"] == ["ALL"]:
        for capability in range(64):
            LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setresgid(*[context["runAsGroup"]] * 3)
    os.setresuid(*[context["runAsUser"]] * 3)
    if not own["allowPrivilegeEscalation"]:
        LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if context["seccompProfile"]["type"] == "RuntimeDefault":
        refuse_calls()


def main() -> None:
    manifest, index, address, nameserver, halayrun, secret, *arguments = sys.argv[1:]
    with open(manifest, encoding="utf-8") as file:
        job = next(document for document in yaml.safe_load_all(file) if document["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    host = f"{job['metadata']['name']}-{index}"
    socket.sethostname(host)
    mount_file("/etc/hosts", f"127.0.0.1 localhost\n{address} {host}.{pod['subdomain']}.{DOMAIN} {host}\n")
    mount_file("/etc/resolv.conf", f"search {DOMAIN} svc.cluster.local\nnameserver {nameserver}\noptions ndots:5\n")
    mount("-o", "remount,size=64m", "/dev/shm")
    volumes = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    if container["securityContext"]["readOnlyRootFilesystem"]:
        make_read_only({place["mountPath"] for place in container["volumeMounts"] if place["name"] in volumes})
    # HOME is what runtimes set for a user without an entry in /etc/passwd.
    environment = {name: os.environ[name] for name in ("PATH", "HALAY_MODULE_PATH")}
    environment |= {"HOME": "/", "HOSTNAME": host, "JOB_COMPLETION_INDEX": index, "KUBERNETES_SERVICE_HOST": nameserver}
    for variable in container["env"]:
        environment[variable["name"]] = secret if "valueFrom" in variable else variable["value"]
    confine(pod, container)
    os.chdir("/")
    os.execve(halayrun, [halayrun, *container["command"][1:], *arguments], environment)


if sys.argv[1] == "--names":
    serve_names(*sys.argv[2:])
main()
