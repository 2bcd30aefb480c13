"""A real Flower deployment on 127.0.0.1: SuperLink and SuperNodes as processes, killed by their pids."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from helpers.commands import free_port, wait_for

BIN = Path(sys.executable).parent


SELDOM = 2.0
"""Seconds between two looks at a run: each is a process of its own."""


class Deployment:
    """SuperLink and SuperNodes; `secure` is the folder of certificates and keys, None for no TLS."""

    def __init__(self, folder, secure=None):
        self.folder, self.secure, self.port = Path(folder), secure, free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.env = {
            **os.environ,
            "FLWR_HOME": str(self.folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "RAY_USAGE_STATS_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}:{os.environ['PATH']}",
        }
        (self.folder / "home").mkdir(exist_ok=True)
        how = f'root-certificates = "{secure}/ca.crt"' if secure else "insecure = true"
        config = f'[superlink]\ndefault = "loop"\n[superlink.loop]\naddress = "127.0.0.1:{self.port}"\n{how}\n'
        config += '[superlink.sim]\naddress = ":local-in-memory:"\noptions.num-supernodes = 3\n'
        config += "options.backend.client-resources.num-cpus = 1\n"
        (self.folder / "home" / "config.toml").write_text(config)
        self.processes = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for name in list(self.processes):
            self.kill(name)
        for pid in self._strays():
            os.kill(pid, signal.SIGKILL)

    def superlink(self):
        security = ["--insecure"]
        if self.secure:
            files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            security = [part for name, file in files.items() for part in (f"--ssl-{name}", f"{self.secure}/{file}")]
            security += ["--enable-supernode-auth", "--database", str(self.folder / "state.db")]
        address = ["--host", "127.0.0.1", "--port", str(self.port), "--disable-runtime-dependency-installation"]
        self._start("superlink", "flower-superlink", *security, *address)
        wait_for("the SuperLink", self._answers, every=SELDOM)

    def supernode(self, name, config, key=None):
        security = ["--insecure"]
        if self.secure:
            security = ["--root-certificates", f"{self.secure}/ca.crt", "--auth-supernode-private-key", str(key)]
        address = ["--superlink", f"127.0.0.1:{self.port}", "--host", "127.0.0.1", "--port", str(free_port())]
        self._start(name, "flower-supernode", *security, *address, "--node-config", config)

    def flwr(self, *arguments):
        """One command of Flower's, as JSON."""
        line = [str(BIN / "flwr"), *map(str, arguments), "--format", "json"]
        done = subprocess.run(line, env=self.env, capture_output=True, text=True, timeout=60)
        with contextlib.suppress(ValueError):
            return json.loads(done.stdout)
        return {"success": False, "output": done.stdout + done.stderr}

    def online(self):
        nodes = self.flwr("supernode", "list", "loop").get("nodes", [])
        return sum(node["status"] == "online" for node in nodes)

    def run(self, app, where="loop", **config):
        """Starts a run and returns its number."""
        text = " ".join(f"{key.replace('_', '-')}={json.dumps(value)}" for key, value in config.items())
        started = self.flwr("run", app, where, "--run-config", text)
        assert started.get("success"), started
        return started["run-id"]

    def status(self, run, where="loop"):
        runs = self.flwr("list", where).get("runs", [])
        return next((each["status"] for each in runs if str(each["run-id"]) == str(run)), "unknown")

    def finished(self, run, seconds=400, where="loop"):
        """How the run ended."""

        def ended():
            status = self.status(run, where)
            return status if status.startswith("finished") else None

        return wait_for("the run to end", ended, seconds=seconds, every=SELDOM)

    def server_log(self, run, where="loop"):
        """What the ServerApp of a run said."""
        line = [str(BIN / "flwr"), "log", str(run), where, "--show"]
        return subprocess.run(line, env=self.env, capture_output=True, text=True, timeout=60).stdout

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def kill(self, name):
        """kill -9 to the process and to those it started, as a machine that loses power does."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _strays(self):
        """The SuperLink that `flwr run … sim` leaves behind, known by the home it was given."""
        home = f"FLWR_HOME={self.env['FLWR_HOME']}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if home in (process / "environ").read_bytes():
                    yield int(process.name)

    def _start(self, name, command, *arguments):
        with open(self.folder / f"{name}.log", "a") as log:
            self.processes[name] = subprocess.Popen(
                [str(BIN / command), *arguments], env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def _answers(self):
        assert self.processes["superlink"].poll() is None, self.log("superlink")[-2000:]
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
