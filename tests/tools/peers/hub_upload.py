#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `sft-launch --push_to_hub` sends by the real `hf` of huggingface_hub, to a hub that is a server of this script.

    hub_upload.py BIN_FOLDER HF_PROGRAM

A tiny model is made, a step trained, and the server notes the repository, the branch and each file of each commit. They have to
be those of the run. Needs no network.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

made, commits = [], []


class Hub(BaseHTTPRequestHandler):
    """As much of the hub's interface as `hf upload` of small files asks for; every file goes into its commit."""

    def answer(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer({"error": "Invalid credentials"}, 401)
        if "whoami" in self.path:
            return self.answer({"name": "somebody", "type": "user", "auth": {"accessToken": {"role": "write"}}})
        self.answer({"id": "somebody/run", "sha": "0" * 40, "private": True, "siblings": [], "tags": []})

    def do_HEAD(self):
        self.send_response(404)
        self.end_headers()

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Authorization") != "Bearer hf_right":
            return self.answer({"error": "Invalid credentials"}, 401)
        address = f"http://{self.headers['Host']}/somebody/run"
        if self.path == "/api/repos/create":
            made.append(json.loads(body))
            return self.answer({"url": address, "name": "somebody/run", "id": "0"})
        if "/preupload/" in self.path:
            files = json.loads(body)["files"]
            return self.answer({"files": [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False, "oid": None}
                                          for file in files]})
        if "/commit/" in self.path:
            lines = [json.loads(line) for line in body.splitlines()]
            commits.append({"branch": self.path.rsplit("/", 1)[1].split("?")[0], "title": lines[0]["value"]["summary"],
                            "files": {line["value"]["path"]: base64.b64decode(line["value"]["content"])
                                      for line in lines if line["key"] == "file"}})
            return self.answer({"commitUrl": f"{address}/commit/{'1' * 40}", "commitOid": "1" * 40, "hookOutput": ""})
        self.answer({"errors": [], "warnings": []})  # the fields of a card are valid; a branch is made


def main():
    programs, hf = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, HF_ENDPOINT=f"http://127.0.0.1:{server.server_port}", PATH=f"{hf.parent}:{os.environ['PATH']}",
                           HF_HOME=f"{folder}/home", SFT_CACHE=f"{folder}/rows", HF_HUB_DISABLE_XET="1",
                           SFT_TEST_BIN=str(programs))
        for name in ("HF_HUB_OFFLINE", "HF_TOKEN"):
            environment.pop(name, None)
        script = (f"source {here}/../../shell/frame.sh\n"
                  f"source {here}/../../shell/tiny_hub.sh; make_tiny_model; make_pairs 24; cp -r tiny pairs.jsonl {folder}")
        subprocess.run(["bash", "-c", script], check=True, env=environment)
        launch = [str(programs / "sft-launch"), "sft", "--model_name_or_path", "tiny/model", "--dataset_name", "pairs.jsonl",
                  "--max_length", "64", "--use_cpu", "--max_steps", "1", "--num_processes", "1", "--output_dir", "run",
                  "--push_to_hub", "--hub_private_repo", "true", "--hub_strategy", "checkpoint"]
        wrong = subprocess.run([*launch, "--hub_token", "hf_wrong"], cwd=folder, env=environment, capture_output=True, text=True)
        assert wrong.returncode == 2 and "cannot write to run of the hub" in wrong.stderr, wrong
        assert not Path(folder, "run/metrics.jsonl").exists()
        print(wrong.stderr.strip())
        run = subprocess.run([*launch, "--hub_token", "hf_right"], cwd=folder, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout + run.stderr
        assert made and all(repository["name"] == "run" or repository["organization"] == "somebody" for repository in made)
        assert made[0].get("private") is True or made[0].get("visibility") == "private", made
        sent = {name: content for commit in commits for name, content in commit["files"].items()}
        for commit in commits:
            print(f"{commit['title']:<20} to {commit['branch']}: {', '.join(sorted(commit['files']))}")
        model = {file.name: file.read_bytes() for file in Path(folder, "run/model").iterdir()}
        assert model.items() <= sent.items(), "the model's files are others"
        assert sent["README.md"] == Path(folder, "run/README.md").read_bytes() and b'model="somebody/run"' in sent["README.md"]
        assert sent["launch.ini"] == Path(folder, "run/launch.ini").read_bytes()
        assert "last-checkpoint/checkpoint.h5" in sent, list(sent)
        assert not re.search(rb"hf_right", b"".join(sent.values())), "the token was sent"
    print("equal")


if __name__ == "__main__":
    main()
