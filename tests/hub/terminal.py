#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Talks with sft-generate as a person at a terminal: terminal.py SFT-GENERATE MODEL.

MODEL answers everything with more tokens than anyone waits for, so that only Ctrl-C ends an answer.
"""
import os
import pty
import select
import signal
import sys
import time

TIMEOUT_S = 100
CTRL_C, CTRL_D, UP = b"\x03", b"\x04", b"\x1b[A"


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, command):
        self.shown = b""
        self.process, self.terminal = pty.fork()
        if self.process == 0:
            os.execv(command[0], command)

    def read(self):
        """What is there within a second; false at the end."""
        if not select.select([self.terminal], [], [], 1.0)[0]:
            return True
        try:
            part = os.read(self.terminal, 65536)
        except OSError:  # of a terminal that nobody holds open any more
            return False
        self.shown += part
        return bool(part)

    def wait_for(self, text, what):
        """Reads until `text` is on the screen, and forgets everything up to it."""
        deadline = time.monotonic() + TIMEOUT_S
        is_open = True
        while text not in self.shown:
            if not is_open or time.monotonic() > deadline:
                self.fail(f"{what}: no {text!r}")
            is_open = self.read()
        self.shown = self.shown[self.shown.index(text) + len(text):]

    def wait_for_bytes(self, count, what):
        deadline = time.monotonic() + TIMEOUT_S
        while len(self.shown) < count:
            if time.monotonic() > deadline or not self.read():
                self.fail(f"{what}: too little text")

    def send(self, keys):
        os.write(self.terminal, keys)

    def expect_end(self, what, expected_status=0):
        deadline = time.monotonic() + TIMEOUT_S
        while self.read():
            if time.monotonic() > deadline:
                self.fail(f"{what}: it goes on")
        status = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        self.process = None
        if status != expected_status:
            self.fail(f"{what}: status {status}")
        os.close(self.terminal)
        print(f"ok    {what}")

    def fail(self, problem):
        print(f"WRONG {problem}; on the screen: {self.shown[-400:]!r}")
        if self.process is not None:
            os.kill(self.process, signal.SIGKILL)
        sys.exit(1)


def start():
    terminal = Terminal([*sys.argv[1:], "--chat", "--max_new_tokens", "60000", "--max_length", "65000"])
    terminal.wait_for(b"> ", "a prompt")
    return terminal


# An answer that is interrupted leaves a prompt, and the conversation goes on.
chat = start()
chat.send(b"Hello\r")
chat.wait_for(b"Hello\r\n", "what is typed")
chat.wait_for_bytes(20, "an answer")
chat.send(CTRL_C)
chat.wait_for(b"> ", "a prompt after an interrupted answer")
print("ok    Ctrl-C interrupts an answer")
chat.send(UP + CTRL_C)  # the line before, which is dropped
chat.wait_for(b"Hello^C\r\n> ", "a line that is dropped")
print("ok    Ctrl-C drops a line")
chat.send(b"/helq\x7fp\r")
chat.wait_for(b"/clear begins a new conversation", "what can be done")
chat.wait_for(b"> ", "a prompt after /help")
print("ok    a line is edited")
chat.send(CTRL_C)
chat.expect_end("Ctrl-C at an empty prompt ends")

chat = start()
chat.send(CTRL_D)
chat.expect_end("Ctrl-D ends")

chat = start()
chat.send(b"/exit\r")
chat.expect_end("/exit ends")
