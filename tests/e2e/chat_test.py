#!/usr/bin/env python3
"""surety chat: over a pseudo-terminal as a person uses it, and without a terminal."""

import json
import os
import pty
import select
import signal
import time

import common
from common import MODEL, EndToEnd

CTRL_C, CTRL_D = b"\x03", b"\x04"


class Terminal:
    """The program on a pseudo-terminal."""

    def __init__(self, *args):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["NO_COLOR"] = "1"
            os.execv(common.BINARY, [common.BINARY, *map(str, args)])

    def send(self, data):
        os.write(self.fd, data if isinstance(data, bytes) else (data + "\n").encode())

    def wait_for(self, wanted, timeout=120):
        """Reads until `wanted` appears in what came since the last wait; answers that part."""
        end = time.monotonic() + timeout
        seen = self.text
        while wanted not in seen:
            if time.monotonic() > end:
                raise AssertionError(f"'{wanted}' did not come; got: {seen[-2000:]}")
            if not select.select([self.fd], [], [], 0.5)[0]:
                continue
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                data = b""
            if not data:
                raise AssertionError(f"ended before '{wanted}'; got: {seen[-2000:]}")
            seen += data.decode("utf-8", "replace").replace("\r\n", "\n")
        at = seen.index(wanted) + len(wanted)
        self.text = seen[at:]
        return seen[:at]

    def exit_code(self, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if select.select([self.fd], [], [], 0.05)[0]:
                try:
                    os.read(self.fd, 65536)
                except OSError:
                    pass
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                os.close(self.fd)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError("it did not end")


class TerminalTest(EndToEnd):
    def chat(self, *args):
        terminal = Terminal("chat", "-m", MODEL, "-n", 24, *args)
        terminal.wait_for("/help lists the commands")
        return terminal

    def test_a_conversation_with_commands(self):
        terminal = self.chat("--system", "Answer briefly.")
        terminal.wait_for("> ")
        terminal.send("What is the capital of France?")
        terminal.wait_for("tok/s")
        terminal.wait_for("> ")
        terminal.send("And of Italy?")
        self.assertIn("cached)", terminal.wait_for("first token"), "the second turn found nothing in the cache")
        terminal.wait_for("> ")
        terminal.send("/help")
        terminal.wait_for("/save FILE")
        terminal.send("/stats")
        terminal.wait_for("2 turns")
        terminal.wait_for("peak memory")
        terminal.send("/save " + self.path("talk.json"))
        terminal.wait_for("Saved")
        terminal.send("/retry")
        terminal.wait_for("tok/s")
        terminal.send("/stat")
        terminal.wait_for("did you mean /stats?")
        terminal.send("/system You are a pirate.")
        terminal.wait_for("afresh")
        terminal.send("/reset")
        terminal.wait_for("afresh")
        terminal.send("A line that \\")
        terminal.wait_for(". ")
        terminal.send("goes on")
        terminal.wait_for("tok/s")
        terminal.send("/exit")
        self.assertEqual(terminal.exit_code(), 0)
        with open(self.path("talk.json"), encoding="utf-8") as f:
            roles = [message["role"] for message in json.load(f)["messages"]]
        self.assertEqual(roles, ["system", "user", "assistant", "user", "assistant"])

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        terminal = self.chat("-n", "2000", "--ignore-eos")
        terminal.wait_for("> ")
        terminal.send("Count to one thousand.")
        terminal.wait_for("thousand.\n")
        time.sleep(1.5)
        terminal.send(CTRL_C)
        terminal.wait_for("(cancelled)")
        terminal.wait_for("> ")
        terminal.send("/stats")
        terminal.wait_for("1 turns")
        terminal.send(CTRL_D)
        self.assertEqual(terminal.exit_code(), 0)

    def test_ctrl_c_twice_at_the_prompt_leaves(self):
        terminal = self.chat()
        terminal.wait_for("> ")
        terminal.send(CTRL_C)
        terminal.wait_for("once more")
        terminal.wait_for("> ")
        terminal.send(CTRL_C)
        self.assertEqual(terminal.exit_code(), 0)

    def test_first_question_is_asked_before_the_users(self):
        terminal = self.chat("--first", "Name a colour.")
        terminal.wait_for("> Name a colour.")
        terminal.wait_for("tok/s")
        terminal.wait_for("> ")
        terminal.send(CTRL_D)
        self.assertEqual(terminal.exit_code(), 0)


class NoTerminalTest(EndToEnd):
    def test_answers_one_question_with_timing(self):
        outcome = self.ok("chat", "-m", MODEL, "-n", 16, stdin="What is a mutex?\nignored\n")
        self.assertTrue(outcome.out.startswith("> What is a mutex?\n"))
        self.assertGreater(len(outcome.out.split("\n", 1)[1].strip()), 5)
        self.assertIn("tok/s", outcome.err)

    def test_blank_lines_before_the_question_are_passed_over(self):
        outcome = self.ok("chat", "-m", MODEL, "-n", 4, stdin="\n  \n\r\nWhat is a mutex?\n")
        self.assertTrue(outcome.out.startswith("> What is a mutex?\n"), outcome.out)

    def test_a_backslash_at_the_end_goes_on_in_the_next_line(self):
        def question(text):
            return self.ok("chat", "-m", MODEL, "-n", 1, "--json", stdin=text).json()["question"]
        self.assertEqual(question("What is\\\na mutex\\\r\nhere?\nignored\n"), "What is\na mutex\nhere?")
        self.assertEqual(question("What is a mutex?\\"), "What is a mutex?\n")

    def test_empty_input_means_the_default_question(self):
        self.assertTrue(self.ok("chat", "-m", MODEL, "-n", 4).out.startswith("> "))

    def test_first_question_does_not_wait_for_a_silent_pipe(self):
        read_end, write_end = os.pipe()
        try:
            process = common.subprocess.run([common.BINARY, "chat", "-m", MODEL, "-n", "4", "--first", "Hi"],
                                            stdin=read_end, capture_output=True, timeout=60, check=False)
        finally:
            os.close(read_end)
            os.close(write_end)
        self.assertEqual(process.returncode, 0)
        self.assertTrue(process.stdout.startswith(b"> Hi\n"))

    def test_json_is_one_object(self):
        report = self.ok("chat", "-m", MODEL, "-n", 4, "--json", stdin="Hi\n").json()
        self.assertEqual((report["question"], report["output_tokens"]), ("Hi", 4))


if __name__ == "__main__":
    common.main()
