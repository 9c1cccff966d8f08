"""Writes testdata/chat/<template>.json: chat templates and what transformers renders with them.

Usage: chat.py MODELS_DIR TEMPLATES_DIR [--check]   (needs transformers, jinja2, llama-cpp-python)

TEMPLATES_DIR is vendor/llama.cpp/models/templates of the llama-cpp-python 0.3.36 source archive;
the other templates come from the GGUF files of MODELS_DIR and from the llama_cpp package. Each
file holds the template, its bos and eos token, the moment that strftime_now reports, and cases:
the arguments and either `expected` or `error`, the message of a raise_exception. Cases that fail
in another way (Python type errors, undefined values) say nothing about the template and are left
out. --check renders plain conversations with llama.cpp's hard-coded formats too.
"""

import ctypes
import datetime
import json
import os
import sys

import gguf
import jinja2
from transformers.utils import chat_template_utils

import common

NOW = datetime.datetime(2024, 7, 26, 12, 0, 0)
MODEL_FILES = {
    "smollm2": ("smollm2-135m-instruct.gguf", "<|im_start|>", "<|im_end|>"),
    "qwen2.5-coder": ("qwen2.5-coder-0.5b-instruct.gguf", "<|endoftext|>", "<|im_end|>"),
}
PACKAGED = {
    "chatml": ("CHATML_CHAT_TEMPLATE", "<s>", "<|im_end|>"),
    "llama3": ("LLAMA3_INSTRUCT_CHAT_TEMPLATE", "<|begin_of_text|>", "<|eot_id|>"),
    "mistral-v1": ("MISTRAL_INSTRUCT_CHAT_TEMPLATE", "<s>", "</s>"),
}
LLAMA3 = ("<|begin_of_text|>", "<|eot_id|>")
DEEPSEEK = ("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>")
FILES = {
    "llama-3.1": ("meta-llama-Llama-3.1-8B-Instruct", *LLAMA3),
    "llama-3.2": ("meta-llama-Llama-3.2-3B-Instruct", *LLAMA3),
    "hermes-3": ("NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "<|begin_of_text|>", "<|im_end|>"),
    "gemma-2": ("google-gemma-2-2b-it", "<bos>", "<eos>"),
    "mistral-nemo": ("mistralai-Mistral-Nemo-Instruct-2407", "<s>", "</s>"),
    "mistral-small-3.2": ("Mistral-Small-3.2-24B-Instruct-2506", "<s>", "</s>"),
    "qwen2.5": ("Qwen-Qwen2.5-7B-Instruct", "<|endoftext|>", "<|im_end|>"),
    "qwen3": ("Qwen-Qwen3-0.6B", "<|endoftext|>", "<|im_end|>"),
    "qwen3-coder": ("Qwen3-Coder", "<|endoftext|>", "<|im_end|>"),
    "qwq": ("Qwen-QwQ-32B", "<|endoftext|>", "<|im_end|>"),
    "phi-3.5": ("microsoft-Phi-3.5-mini-instruct", "<s>", "<|endoftext|>"),
    "deepseek-r1": ("deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", *DEEPSEEK),
    "deepseek-v3.1": ("deepseek-ai-DeepSeek-V3.1", *DEEPSEEK),
    "smollm3": ("HuggingFaceTB-SmolLM3-3B", "", "<|im_end|>"),
    "granite-3.3": ("ibm-granite-granite-3.3-2B-Instruct", "<|end_of_text|>", "<|end_of_text|>"),
    "command-r7b": (
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
        "<BOS_TOKEN>",
        "<|END_OF_TURN_TOKEN|>",
    ),
    "gpt-oss": ("openai-gpt-oss-120b", "<|startoftext|>", "<|return|>"),
    "glm-4.6": ("GLM-4.6", "", "<|endoftext|>"),
}


def message(role, content, **extra):
    return {"role": role, "content": content, **extra}


def tool(name, description, properties, required):
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": required},
        },
    }


def call(name, arguments, number=1):
    return {
        "id": f"call{number:05d}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


SYSTEM = message("system", "You are a careful bank assistant.")
HELLO = message("user", "Hello!")
TURNS = [message("user", "What is 2+2?"), message("assistant", "4"), message("user", "Times 3?")]
TOOLS = [
    tool(
        "get_balance",
        "Balance of an account.",
        {
            "account": {"type": "string", "description": 'The account\'s <id> & "name"'},
            "as_of": {"type": "string", "enum": ["today", "yesterday"]},
        },
        ["account"],
    ),
    tool(
        "transfer",
        "Moves money; caf\u00e9 \u2603.",
        {
            "amount": {"type": "number", "minimum": 0.01},
            "urgent": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        ["amount"],
    ),
]
ASK = message("user", "What is on account 12?")
NESTED = {
    "amount": 12.5,
    "tiny": 1e-07,
    "whole": 3.0,
    "big": 12345678901234567,
    "urgent": True,
    "none": None,
    "tags": ['a"b', "\u00e9\u4e2d", "</tool_call>"],
    "deep": {"x": {"y": []}},
}
ONE_CALL = message("assistant", "", tool_calls=[call("get_balance", {"account": "12"})])
RESULT = message("tool", '{"balance": 70.25}', name="get_balance", tool_call_id="call00001")


def cases():
    """(name, messages, options) of each case; every template gets all of them."""
    g = dict(add_generation_prompt=True)
    t = dict(add_generation_prompt=True, tools=TOOLS)
    think = message("assistant", "<think>\nTwo and two.\n</think>\n\n4")
    reason = message("assistant", "4", reasoning_content="Two and two.")
    yield "user", [HELLO], g
    yield "user_without_generation_prompt", [HELLO], {}
    yield "system", [SYSTEM, HELLO], g
    yield "system_empty", [message("system", ""), HELLO], g
    yield "turns", TURNS, g
    yield "turns_with_system", [SYSTEM, *TURNS], g
    yield "turns_closed", [SYSTEM, *TURNS, message("assistant", "12")], {}
    yield "system_in_the_middle", [HELLO, message("assistant", "Hi."), SYSTEM, HELLO], g
    yield "system_only", [SYSTEM], g
    yield "unicode", [
        message("user", "\u4f60\u597d \U0001f44b\U0001f3fd caf\u00e9 e\u0301 \u0645\u0631")
    ], g
    yield "empty_content", [message("user", "")], g
    yield "white_space", [
        message("system", " \n s \t"),
        message("user", "  a\n\n b \n"),
        message("assistant", "\n x \n"),
        message("user", "\t"),
    ], g
    yield "control_text", [
        message("system", "<|im_end|>\n<|im_start|>system"),
        message("user", "<|eot_id|></s>[/INST]<end_of_turn>{{ x }}{% if %}"),
    ], g
    yield "markup", [message("user", '<a href="x">&amp;\'\\n\\</a> {"k": [1]}')], g
    yield "two_users", [HELLO, HELLO], g
    yield "assistant_first", [message("assistant", "Hi."), HELLO], g
    yield "unknown_role", [message("critic", "no"), HELLO], g
    yield "content_parts", [
        message(
            "user", [{"type": "text", "text": "Part one."}, {"type": "text", "text": " Part two."}]
        )
    ], g
    yield "prefill", [HELLO, message("assistant", "Sure, here")], dict(continue_final_message=True)
    yield "prefill_after_system", [SYSTEM, *TURNS, message("assistant", "It is  ")], dict(
        continue_final_message=True
    )
    yield "think_in_history", [TURNS[0], think, TURNS[2]], g
    yield "reasoning_in_history", [TURNS[0], reason, TURNS[2]], g
    yield "thinking_on", [HELLO], dict(g, kwargs={"enable_thinking": True, "thinking": True})
    yield "thinking_off", [HELLO], dict(g, kwargs={"enable_thinking": False, "thinking": False})
    yield "date", [SYSTEM, HELLO], dict(g, kwargs={"date_string": "01 Jan 2025"})
    yield "tools", [ASK], t
    yield "tools_with_system", [SYSTEM, ASK], t
    yield "tools_empty", [ASK], dict(g, tools=[])
    yield "tool_call", [ASK, ONE_CALL], dict(tools=TOOLS)
    yield "tool_result", [SYSTEM, ASK, ONE_CALL, RESULT], t
    yield "tool_answered", [ASK, ONE_CALL, RESULT, message("assistant", "70.25"), HELLO], t
    yield "tool_call_null_content", [ASK, {**ONE_CALL, "content": None}, RESULT], t
    yield "tool_call_with_text", [ASK, {**ONE_CALL, "content": "Let me look."}, RESULT], t
    yield "tool_call_string_arguments", [
        ASK,
        message("assistant", "", tool_calls=[call("get_balance", '{"account": "12"}')]),
        RESULT,
    ], t
    yield "tool_call_nested", [
        ASK,
        message("assistant", "", tool_calls=[call("transfer", NESTED)]),
        RESULT,
    ], t
    yield "tool_calls_two", [
        ASK,
        message(
            "assistant",
            "",
            tool_calls=[
                call("get_balance", {"account": "1"}),
                call("get_balance", {"account": "2"}, 2),
            ],
        ),
        RESULT,
        message("tool", "no such account", name="get_balance", tool_call_id="call00002"),
    ], t
    yield "tool_result_alone", [RESULT], g


def frozen_now():
    """strftime_now reads the clock; goldens need it to stand still."""

    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return NOW

    chat_template_utils.datetime = Frozen


def render(template, bos, eos, messages, options):
    options = dict(options)
    kwargs = options.pop("kwargs", {})
    out, _ = chat_template_utils.render_jinja_template(
        [json.loads(json.dumps(messages))],
        chat_template=template,
        bos_token=bos,
        eos_token=eos,
        **options,
        **kwargs,
    )
    return out[0]


def llama_cpp_render(template, messages, add_generation_prompt):
    import llama_cpp

    chat = (llama_cpp.llama_chat_message * len(messages))()
    for slot, m in zip(chat, messages):
        slot.role, slot.content = m["role"].encode(), m["content"].encode()
    buffer = ctypes.create_string_buffer(1 << 16)
    n = llama_cpp.llama_chat_apply_template(
        template.encode(), chat, len(messages), add_generation_prompt, buffer, len(buffer)
    )
    return buffer.raw[:n].decode() if n >= 0 else None


def write(name, template, source, bos, eos, check):
    done, dropped, agree, differ = [], [], [], []
    for case, messages, options in cases():
        entry = {"name": case, "messages": messages, **options}
        try:
            entry["expected"] = render(template, bos, eos, messages, options)
        except jinja2.exceptions.UndefinedError:
            dropped.append(case)
            continue
        except jinja2.exceptions.TemplateError as e:
            if type(e) is not jinja2.exceptions.TemplateError:
                raise
            entry["error"] = str(e)
        except (TypeError, ValueError, AttributeError, KeyError):
            dropped.append(case)
            continue
        done.append(entry)
        plain = all(isinstance(m["content"], str) and len(m) == 2 for m in messages)
        if (
            check
            and plain
            and "expected" in entry
            and "kwargs" not in options
            and "tools" not in options
        ):
            if not options.get("continue_final_message"):
                other = llama_cpp_render(
                    template, messages, options.get("add_generation_prompt", False)
                )
                mine = entry["expected"]
                if "bos_token" in template or "<s>" in template:  # llama.cpp's tokenizer adds it
                    mine = mine.removeprefix(bos)
                (agree if other == mine else differ).append(case)
    common.save_json(
        os.path.join(common.TESTDATA, "chat", name + ".json"),
        {
            **common.provenance(__file__, "none", "transformers", "jinja2"),
            "source": source,
            "now": NOW.isoformat(),
            "bos_token": bos,
            "eos_token": eos,
            "template": template,
            "cases": done,
        },
    )
    errors = sum("error" in e for e in done)
    print(f"{name}: {len(done)} cases, {errors} errors, dropped {dropped}")
    if check:
        print(f"    llama.cpp agrees on {len(agree)}, differs on {differ}")


def main(models, templates, check):
    import llama_cpp.llama_chat_format as packaged

    frozen_now()
    print(common.versions("transformers", "jinja2", "llama-cpp-python"))
    for name, (file, bos, eos) in MODEL_FILES.items():
        template = gguf.GGUFReader(os.path.join(models, file)).fields["tokenizer.chat_template"]
        write(name, template.contents(), "tokenizer.chat_template of " + file, bos, eos, check)
    for name, (attribute, bos, eos) in PACKAGED.items():
        write(
            name,
            getattr(packaged, attribute),
            f"{attribute} of llama-cpp-python 0.3.36 llama_chat_format.py (MIT)",
            bos,
            eos,
            check,
        )
    for name, (file, bos, eos) in FILES.items():
        with open(os.path.join(templates, file + ".jinja"), encoding="utf-8") as f:
            template = f.read()
        source = (
            f"models/templates/{file}.jinja of llama.cpp, as in llama-cpp-python 0.3.36; the "
            "text is that of the model's publisher"
        )
        write(name, template, source, bos, eos, check)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], "--check" in sys.argv)
