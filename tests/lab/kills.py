# SPDX-License-Identifier: Apache-2.0
"""Kills a process of a job at a random moment, again and again, and judges how the job ends.

usage: kills.py LAB SECONDS SEED WAY...

Each turn starts a job in one of the WAYs on the hosts of the lab LAB (tests/lab/lab), waits for a random time, and
sends SIGKILL to one process of the job (the launcher, its helpers, an agent, ssh, a rank), or kills a whole host. Then:

- every halayrun ends within LIMIT seconds, with the exit code that belongs to what was killed, or with 0 if the job had
  done its work;
- what node 0 reports first is what was killed;
- no process of the job is left on any host, and no file in /dev/shm but the flight records of a job that failed, or
  that lost a host.

Prints a line for each turn that fails, with the seed of that turn and the launcher's output, and a summary. Exit status
1 if any failed.
"""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time

LIMIT = 60.0  # of a turn: agents wait 10 s for a silent host, and the machine may be slow
GONE = 30.0  # until nothing may be left
WORK_MS = 700  # of a job that nothing happens to
LATEST = 1.6  # when the kill comes at the latest: in some turns after the job's end
HOSTS = 3
RANKS = "HALAY_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"  # a rank's number is in one of these

top = os.path.realpath(os.environ["top_srcdir"])
build = os.path.realpath(os.environ["top_builddir"])
halayrun = f"{build}/launcher/halayrun"
lab_script = f"{top}/tests/lab/lab"


class Lab:
    """The hosts, and the processes on them that are not the lab's own."""

    def __init__(self, number):
        self.number = number
        self.spaces = {}
        self.own = {}
        for host in range(1, HOSTS + 1):
            self.take_host(host)

    def take_host(self, host):
        init = int(open(f"/run/halay-lab/{self.number}/{host}").read())
        self.spaces[host] = os.readlink(f"/proc/{init}/ns/pid")
        self.own[host] = set(self.processes(host))

    def name(self, host):
        return f"hl{self.number}-{host}"

    def address(self, host):
        return f"10.77.{self.number}.{host}"

    def start(self, host, words, out, err):
        line = ["sh", lab_script, "enter", str(self.number), str(host), *words]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=out, stderr=err)

    def processes(self, host):
        """The numbers of all that runs there, but of what the lab itself runs (sleep, as its first process does)."""
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if os.readlink(f"/proc/{entry}/ns/pid") != self.spaces[host] or comm_of(entry) == "sleep":
                    continue
                if state_of(entry) != "Z":
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def others(self, host):
        return [pid for pid in self.processes(host) if pid not in self.own[host]]

    def left(self, host):
        """Without sessions of sshd's: where the other host is gone they live on, without a process below them."""
        found = []
        for pid in self.others(host):
            try:
                if comm_of(pid) != "sshd":
                    found.append(pid)
            except OSError:
                continue  # it has ended meanwhile
        return found

    def kill_host(self, host):
        subprocess.run(["sh", lab_script, "kill", str(self.number), str(host)], check=True)

    def mend(self, host):
        """That host anew, without what was on it."""
        subprocess.run(["sh", lab_script, "again", str(self.number), str(host)], check=True)
        self.take_host(host)
        for other in set(self.spaces) - {host}:  # the host has another hardware address than before
            self.start(other, ["ip", "neigh", "flush", "all"], None, None).wait()

    def files(self, host):
        shown = subprocess.run(
            ["sh", lab_script, "enter", str(self.number), str(host), "ls", "-A", "/dev/shm"],
            stdout=subprocess.PIPE, text=True, check=True)
        return shown.stdout.split()


def comm_of(pid):
    return open(f"/proc/{pid}/comm").read().strip()


def state_of(pid):
    return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]


def inner_pid_of(pid):
    """Its number on its host."""
    return int(re.search(r"^NSpid:.*\s(\d+)$", open(f"/proc/{pid}/status").read(), re.M)[1])


def variable_of(pid, name):
    for item in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
        if item.startswith(name.encode() + b"="):
            return item.split(b"=", 1)[1].decode()
    return None


sums = [f"{build}/tests/lab/sums", str(WORK_MS)]


class Way:
    """How a job of four ranks is started: halayrun on some hosts, with these options and variables.

    most: how many ranks at most print that they are done where it ends with 0. is_ours: another program's reports and
    exit codes are not judged. variables: returns those of a host.
    """

    def __init__(self, hosts, options, most=4, program=None, is_ours=True, variables=None):
        self.hosts, self.options, self.most, self.is_ours = hosts, options, most, is_ours
        self.program = program or sums
        self.variables = variables or (lambda host: {})

    def command(self, host):
        assignments = [f"{name}={value}" for name, value in self.variables(host).items()]
        return ["env", *assignments, halayrun, *self.options, *self.program]


def ways(lab):
    pair = f"{lab.name(1)}:2,{lab.name(2)}:2"
    join = ["--nnodes", "2", "--nproc-per-node", "2", "--join", lab.address(1), "--start-timeout", "15"]
    once, elastic = ["--max-restarts", "1"], [f"{build}/examples/elastic", "300", "2"]
    secret = {"HALAY_SECRET": "of the lab, for all of its hosts"}

    def pytorchjob(host):
        return {"PET_NNODES": 2, "PET_NODE_RANK": host - 1, "PET_MASTER_ADDR": lab.address(1),
                "PET_MASTER_PORT": 29500, "PET_NPROC_PER_NODE": 2, **secret}

    def sagemaker(host):
        names = [lab.name(1), lab.name(2)]
        return {"SM_HOSTS": json.dumps(names), "SM_CURRENT_HOST": lab.name(host), **secret}

    return {
        "local": Way([1], ["-np", "4"]),
        "restart": Way([1], ["-np", "4", *once], most=8),
        "ssh": Way([1], ["-H", pair]),
        "ssh-restart": Way([1], ["-H", pair, *once], most=8),
        "third": Way([1], ["-H", f"{lab.name(2)}:2,{lab.name(3)}:2"]),
        "join": Way([1, 2], join),
        "join-restart": Way([1, 2], [*join, *once], most=8),
        "elastic": Way([1], ["-H", pair, "--min-np", "1", "--host-silence", "5"], program=elastic),
        "pytorchjob": Way([1, 2], ["--start-timeout", "15"], variables=pytorchjob),
        "sagemaker": Way([1, 2], ["--nproc-per-node", "2", "--start-timeout", "15"], variables=sagemaker),
        "srun": None,  # TaskTurn
        "mpi": Way([1], ["--mpi", "-np", "4", "-H", pair], is_ours=False),
    }


class Turn:
    """One job, and what is killed of it."""

    job_name = "halayrun on host"  # of each that is started, before its key in jobs

    def __init__(self, lab, name, way, seed):
        self.lab, self.name, self.way, self.seed = lab, name, way, seed
        self.random = random.Random(seed)
        self.faults = []
        self.what = "nothing"

    def text(self, host, kind):
        with open(f"{folder}/{kind}.{host}", errors="replace") as file:
            return file.read()

    def launch(self):
        self.jobs = {}
        for host in self.way.hosts:
            with open(f"{folder}/out.{host}", "w") as out, open(f"{folder}/err.{host}", "w") as err:
                self.jobs[host] = self.lab.start(host, self.way.command(host), out, err)

    def choose(self):
        """(role, host, process) of what is to be killed; None: nothing is there."""
        found = []
        for host in range(1, HOSTS + 1):
            for pid in self.lab.others(host):
                try:
                    name = comm_of(pid)
                    if name in ("sums", "elastic"):
                        numbers = [variable_of(pid, variable) for variable in RANKS]
                        name = "rank " + next(filter(None, numbers), None)
                    if re.match("rank|halayrun|sshd?$|mpirun|orted", name):
                        found.append((name, host, pid))
                except (OSError, TypeError):
                    continue
        if not found:
            return None
        roles = sorted({(re.sub(r" .*", "", name), host) for name, host, pid in found})
        role, host = self.random.choice(roles)
        if self.random.random() < 0.1 and self.may_lose_host():
            return f"host {host}", host, None
        return self.random.choice([f for f in found if f[1] == host and re.sub(r" .*", "", f[0]) == role])

    def may_lose_host(self):
        return len(self.way.options) > 2 and "-np" not in self.way.options

    def kill(self):
        victim = self.choose()
        if not victim:
            return
        self.role, self.host, self.pid = victim
        if self.pid is None:
            self.lab.kill_host(self.host)
            self.what = f"host {self.host}"
            return
        try:
            self.inner_pid = inner_pid_of(self.pid)
            self.is_first = self.pid == self.first_of(self.host)
            os.kill(self.pid, signal.SIGKILL)
            self.what = f"{self.role} on host {self.host}" + (" (the launcher)" if self.is_first else "")
        except OSError:
            pass

    def first_of(self, host):
        return self.jobs[host].pid if host in self.jobs else None

    def fault(self, text):
        self.faults.append(text)

    def wait(self):
        self.codes = {}
        until = time.monotonic() + LIMIT
        for key, job in self.jobs.items():
            try:
                self.codes[key] = job.wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fault(f"{self.job_name} {key} has not ended after {LIMIT:g} s")
                job.kill()
                self.codes[key] = job.wait()

    def judge_left(self):
        dead = self.host if self.what == f"host {getattr(self, 'host', 0)}" else None
        until = time.monotonic() + GONE
        for host in range(1, HOSTS + 1):
            if host == dead:
                continue
            while (left := self.lab.left(host)) and time.monotonic() < until:
                time.sleep(0.02)
            if left:
                shown = subprocess.run(["ps", "-o", "pid,ppid,stat,comm", "-p", ",".join(map(str, left))],
                                       stdout=subprocess.PIPE, text=True)
                self.fault(f"left on host {host}: {shown.stdout}")
                subprocess.run(["kill", "-KILL", *map(str, left)])
            has_lost = any(self.codes.values()) or not re.match("rank|nothing", self.what)
            files = [name for name in self.lab.files(host) if not (has_lost and name.endswith(".flight"))]
            if self.way and not self.way.is_ours:  # Open MPI leaves its own
                files = [name for name in files if "halay" in name]
            if files:
                self.fault(f"left in host {host}'s /dev/shm: {files}")
            self.lab.start(host, ["sh", "-c", "rm -rf /dev/shm/*"], None, None).wait()
        if dead:
            self.lab.mend(dead)

    def judge_end(self):
        head = self.way.hosts[0]
        code = self.codes[head]
        done = len(re.findall(r"is done$|as if nobody had been lost$", self.text(head, "out"), re.M))
        least = 1 if "elastic" in self.name else 4
        reports = [line for line in self.text(head, "err").splitlines()
                   if line.startswith("halayrun: ")
                   and not re.search(" here; still waiting for |: part of the job of ", line)]
        first = reports[0] if reports else ""
        if self.what == "nothing":
            if code or done != 4:
                self.fault(f"nothing was killed, and it ended with {code}, {done} ranks done")
            return
        if code == 0:
            if not least <= done <= self.way.most:
                self.fault(f"it ended with 0, {done} ranks done")
            return
        if not self.way.is_ours:
            return
        expected, cause = self.expected()
        if code not in expected:
            self.fault(f"it ended with {code}, not with {' or '.join(map(str, expected))}")
        if cause and not re.search(cause, first):
            self.fault(f"what it reports first is not /{cause}/: {first!r}")
        for host in self.way.hosts[1:]:
            # Node 0 may be killed after the others have learned that the job ended well.
            wanted = ({0, 1} if done == 4 else {1}) if self.is_killed(head) else {code}
            if self.codes[host] not in wanted and not self.is_killed(host):
                self.fault(f"halayrun on host {host} ended with {self.codes[host]}, not with one of {wanted}")

    def is_killed(self, host):
        return self.host == host and (self.pid is None or self.role == "halayrun")

    def report_of_rank(self):
        """A rank has halayrun's name until it executes the program. Returns its report; None: there is none."""
        reports = self.text(self.way.hosts[0], "err")
        found = re.search(rf"rank \d+ \(pid {self.inner_pid}\b.*\) was killed by SIGKILL", reports)
        return found and re.escape(found[0])

    def expected(self):
        """The exit codes of node 0's halayrun, and what it has to report first."""
        head, name = self.way.hosts[0], self.lab.name(self.host)
        if self.is_killed(head):  # a host's link goes before its processes
            return [-9, 137] if self.pid else [-9, 137, 1], None
        if self.role.startswith("rank"):
            return [137], rf"{self.role} \(pid .*\) was killed by SIGKILL"
        if self.role == "halayrun-job" and (report := self.report_of_rank()):
            return [137], report
        if self.host == head and self.role == "halayrun-job":
            return [137], r"the process that runs the job \(pid \d+\) was killed by SIGKILL"
        if self.role == "halayrun-door":
            return [1], "process that talks with the other nodes has ended|of 2 nodes joined within|host '"
        return [1], rf"(host|node) '({name}|{self.lab.name(2)}|{self.lab.name(3)})'|of 2 nodes joined within"

    def run(self):
        self.launch()
        time.sleep(self.random.uniform(0, LATEST))
        self.kill()
        self.wait()
        self.judge_end()
        self.judge_left()
        for fault in self.faults:
            print(f"{self.name}, seed {self.seed}, {self.what} killed: {fault}")
        if self.faults:
            for job in self.jobs:
                for kind in "out", "err":
                    for line in self.text(job, kind).splitlines()[:25]:
                        print(f"    {kind}.{job}: {line}")
        sys.stdout.flush()
        return not self.faults


class TaskTurn(Turn):
    """A step of srun's, without PMI: its four tasks, as srun starts them; jobs has the ranks for keys."""

    job_name = "task"

    def launch(self):
        self.jobs = {}
        for rank in range(4):
            variables = {
                "SLURM_JOB_ID": self.seed % 2**31, "SLURM_STEP_ID": 0, "SLURM_STEP_NUM_TASKS": 4, "SLURM_PROCID": rank,
                "SLURM_STEP_NODELIST": f"hl{self.lab.number}-[1-2]", "HALAY_START_TIMEOUT": 15}
            words = ["env", *(f"{name}={value}" for name, value in variables.items()), *sums]
            with open(f"{folder}/out.{rank}", "w") as out, open(f"{folder}/err.{rank}", "w") as err:
                self.jobs[rank] = self.lab.start(1 + rank // 2, words, out, err)

    def may_lose_host(self):
        return True

    def first_of(self, host):
        return None

    def judge_end(self):
        dead = []
        if self.what != "nothing":
            dead = [rank for rank in self.jobs if self.pid is None and 1 + rank // 2 == self.host]
            if self.role.startswith("rank"):  # or a session of sshd's that another turn's dead host has left
                dead = [int(self.role.split()[1])]
        alive = [rank for rank in self.jobs if rank not in dead]
        done = [rank for rank in self.jobs if "is done" in self.text(rank, "out")]
        failed = [rank for rank in alive if self.codes[rank]]
        for rank in alive:
            if self.codes[rank] not in (0, 1) or (self.codes[rank] == 0) != (rank in done):
                self.fault(f"task {rank} ended with {self.codes[rank]}, {'' if rank in done else 'not '}done")
        if not dead and failed or failed and len(done) == 4:
            self.fault(f"the tasks {failed} failed, {done} are done")
        # Of a task that was killed before it connected the others know nothing: they name the one that they wait for.
        named = rf"rank ({'|'.join(map(str, dead))})\b|has not come within"
        for rank in failed:
            if not re.search(named, self.text(rank, "err")):
                self.fault(f"task {rank} does not name what was killed")


def main():
    global folder
    number, seconds, seed = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    folder = os.environ["dir"]
    lab = Lab(number)
    known = ways(lab)
    names = sys.argv[4:]
    until = time.monotonic() + seconds
    turns = failed = 0
    killed = {}
    while time.monotonic() < until:
        name = names[(seed + turns) % len(names)]
        turn = (Turn if known[name] else TaskTurn)(lab, name, known[name], seed + turns)
        failed += not turn.run()
        turns += 1
        what = re.sub(r" \d+", "", turn.what)
        killed[what] = killed.get(what, 0) + 1
    for what in sorted(killed):
        print(f"{killed[what]:6} {what}")
    print(f"{turns} turns, {failed} failed")
    return failed > 0 or not turns


sys.exit(main())
