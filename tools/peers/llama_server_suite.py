#!/usr/bin/env python3
"""llama.cpp's own server tests (tools/server/tests of its repository), run against `surety serve`.

Usage: llama_server_suite.py CHECKOUT [--surety build/bin/surety] [pytest's arguments, as -k health]

CHECKOUT is a copy of llama.cpp's repository, kept outside of this one. What is left out, and why, stands in
docs/llama_server_suite.md, which this program reads. Needs the packages of the suite's requirements.txt and gguf, in
the Python that runs this. The same file has three parts: what starts pytest; what pytest loads with -p; and, run
through a two-line script, the llama-server that the tests start, which becomes `surety serve`.
"""

import argparse
import inspect
import os
import re
import shlex
import socket
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCUMENT = os.path.join(ROOT, "docs", "llama_server_suite.md")
GENERATOR, ENCODER = "smollm2-135m-instruct", "all-MiniLM-L6-v2"  # stand in for the suite's models
ROW = re.compile(r"^\| `([^`]+)` \|")
ASKED_NAME = re.compile(r"""\bmodel=["']([^"']+)["']""")


def listed(heading):
    """The tests that the document's table under a heading names: file, file::test, file::test[parameters], or the
    beginning of a name with * after it."""
    with open(DOCUMENT, encoding="utf-8") as f:
        sections = re.split(r"^## ", f.read(), flags=re.MULTILINE)
    section = next(s for s in sections if s.startswith(heading + "\n"))
    return [row.group(1) for row in map(ROW.match, section.split("\n")) if row]


def entry_of(nodeid, entries):
    name = nodeid.removeprefix("unit/")

    def names(entry):
        if entry.endswith("*"):
            return name.startswith(entry[:-1])
        return name == entry or name.startswith((entry + "::", entry + "["))

    return next(filter(names, entries), None)


# What pytest loads.


def pytest_collection_modifyitems(config, items):
    left_out = listed("Left out")
    kept, dropped, used = [], [], set()
    for item in items:
        entry = entry_of(item.nodeid, left_out)
        used.add(entry)
        (kept if entry is None else dropped).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=dropped)
    if os.environ["LLAMA_SERVER_SUITE_WHOLE"] and (stale := [e for e in left_out if e not in used]):
        raise ValueError("docs/llama_server_suite.md leaves out what the suite does not have: " + ", ".join(stale))
    sys.modules["utils"].ServerPreset.load_all = lambda: None  # it would download the suite's models


def pytest_runtest_setup(item):
    names = dict.fromkeys(ASKED_NAME.findall(inspect.getsource(item.function)))
    os.environ["LLAMA_SERVER_SUITE_NAMES"] = ",".join(names)
    any_text = entry_of(item.nodeid, listed("Text not compared")) is not None
    item.module.match_regex = (lambda *_: True) if any_text else sys.modules["utils"].match_regex


# What the tests start as llama-server.


def with_template(model, template):
    """The model with another chat template: a copy, made once."""
    name = re.sub(r"\W+", "-", os.path.splitext(os.path.basename(template))[0])
    copy = os.path.join(os.environ["LLAMA_SERVER_SUITE_FOLDER"], f"templated-{name}.gguf")
    if not os.path.exists(copy):
        subprocess.run([sys.executable, "-m", "gguf.scripts.gguf_new_metadata", "--force", "--chat-template-file",
                        template, model, copy + ".part"], check=True)
        os.rename(copy + ".part", copy)
    return copy


def serve(surety, arguments):
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--host", "--port", "--hf-file", "--alias", "--api-key", "--threads", "--chat-template-file"):
        parser.add_argument(name)
    for name, value in (("--ctx-size", 4096), ("--parallel", 1), ("--batch-size", 512)):
        parser.add_argument(name, type=int, default=value)
    parser.add_argument("--embedding", action="store_true")
    given, unmapped = parser.parse_known_args(arguments)
    if unmapped:
        print("llama-server's flags that mean nothing here:", " ".join(unmapped), file=sys.stderr, flush=True)
    found = subprocess.run([surety, "models", "path", ENCODER if given.embedding else GENERATOR],
                           stdout=subprocess.PIPE, text=True, check=True)
    model = found.stdout.strip()
    if given.chat_template_file:
        model = with_template(model, given.chat_template_file)
    # A model's name is its file's, and llama-server's names are all equal.
    name, *more = (given.alias or "model").split(",")
    link = os.path.join(tempfile.mkdtemp(dir=os.environ["LLAMA_SERVER_SUITE_FOLDER"]), name)
    link += "" if os.path.isdir(model) else ".gguf"
    os.symlink(model, link)
    command = [surety, "serve", "-m", link, "--host", given.host, "--port", given.port, "--drain", "1"]
    command += ["--parallel", str(given.parallel), "--ctx", str(given.ctx_size // given.parallel)]
    command += ["--chunk", str(max(given.batch_size, given.parallel))]
    command += ["--threads", given.threads] if given.threads else []
    asked = [n for n in os.environ.get("LLAMA_SERVER_SUITE_NAMES", "").split(",") if n]
    for alias in dict.fromkeys(more + asked):
        command += ["--alias", f"{alias}={name}"]
    if given.api_key:
        os.environ["SURETY_API_KEY"] = given.api_key
    os.execv(surety, command)


# What starts pytest.


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("checkout")
    parser.add_argument("--surety", default=os.path.join(ROOT, "build", "bin", "surety"))
    options, rest = parser.parse_known_args()
    tests = os.path.join(os.path.abspath(options.checkout), "tools", "server", "tests")
    with tempfile.TemporaryDirectory(prefix="llama-server-suite-") as folder:
        wrapper = os.path.join(folder, "llama-server")
        with open(wrapper, "w", encoding="utf-8") as f:
            parts = (sys.executable, os.path.abspath(__file__), "--as-llama-server", os.path.abspath(options.surety))
            f.write(f'#!/bin/sh\nexec {shlex.join(parts)} "$@"\n')
        os.chmod(wrapper, 0o755)
        env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__)), "PYTHONDONTWRITEBYTECODE": "1",
               "LLAMA_SERVER_BIN_PATH": wrapper, "LLAMA_SERVER_SUITE_FOLDER": folder, "PORT": free_port(),
               "LLAMA_SERVER_SUITE_WHOLE": "" if rest else "1"}
        command = [sys.executable, "-m", "pytest", "-p", "llama_server_suite", "-p", "no:cacheprovider", "-q"]
        sys.exit(subprocess.run([*command, *rest], cwd=tests, env=env, check=False).returncode)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-llama-server"]:
        serve(sys.argv[2], sys.argv[3:])
    main()
