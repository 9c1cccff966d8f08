#!/usr/bin/env python3
"""LlamaIndex's client for servers like OpenAI's, unmodified, against `surety serve`."""

import asyncio
import tempfile
import unittest
from typing import Annotated, Literal

import common
import tool_model
from common import MODEL
from serving import Server, need

need("llama-index", "tools/install_client llama-index", "llama_index")

from llama_index.core.llms import ChatMessage  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from llama_index.llms.openai_like import OpenAILike  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

QUESTION = [ChatMessage(role="system", content="You are brief."),
            ChatMessage(role="user", content="Name three colours.")]
ASK_WEATHER = "Will it be sunny in Paris for the next 3 days?"


class Colour(BaseModel):
    """A colour."""
    name: str = Field(max_length=12)
    warm: bool


def weather(city: Literal["Paris", "Rome"], days: Annotated[int, Field(ge=1, le=9)]) -> str:
    """The weather in a city for some days."""
    return f"{city}: sunny for {days} days"


class LlamaIndexTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="surety-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server(cls, "-m", tool_model.make(folder.name), ctx=2048)

    def llm(self, **more):
        return OpenAILike(**{"model": MODEL, "api_base": f"http://127.0.0.1:{self.server.port}/v1", "api_key": "none",
                             "context_window": 2048, "is_chat_model": True, "temperature": 0, "max_tokens": 24,
                             "max_retries": 0, "timeout": 120, **more})

    def caller(self, **more):
        return self.llm(**{"model": tool_model.NAME, "is_function_calling_model": True, "max_tokens": 200, **more})

    def test_complete(self):
        llm = self.llm(is_chat_model=False)
        text = llm.complete("One, two,").text
        self.assertEqual(text, self.server.complete("One, two,", max_tokens=24)["choices"][0]["text"])
        parts = list(llm.stream_complete("One, two,"))
        self.assertEqual("".join(p.delta for p in parts), text)
        self.assertEqual(parts[-1].text, text)

    def test_chat(self):
        answer = self.llm().chat(QUESTION)
        self.assertEqual(answer.message.role, "assistant")
        usage = answer.raw.usage
        self.assertEqual(usage.prompt_tokens + usage.completion_tokens, usage.total_tokens)
        body = {"model": MODEL, "temperature": 0, "max_tokens": 24, "messages": [
            {"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three colours."}]}
        _, plain, _ = self.server.call("POST", "/v1/chat/completions", body)
        self.assertEqual(answer.message.content, plain["choices"][0]["message"]["content"])
        self.assertEqual(usage.completion_tokens, plain["usage"]["completion_tokens"])

    def test_a_stream_is_the_answer(self):
        for more in ({}, {"temperature": 1, "additional_kwargs": {"seed": 7}}):
            llm = self.llm(**more)
            text = llm.chat(QUESTION).message.content
            parts = list(llm.stream_chat(QUESTION))
            self.assertGreater(len(parts), 2)
            self.assertEqual("".join(p.delta or "" for p in parts), text)
            self.assertEqual(parts[-1].message.content, text)

    def test_async_is_sync(self):
        llm = self.llm()

        async def ask():
            answer, other = await asyncio.gather(llm.achat(QUESTION), llm.acomplete("Name a fruit."))
            return answer.message.content, other.text, [p.delta or "" async for p in await llm.astream_chat(QUESTION)]
        answer, other, streamed = asyncio.run(ask())
        self.assertEqual(answer, llm.chat(QUESTION).message.content)
        self.assertEqual(other, llm.complete("Name a fruit.").text)
        self.assertEqual("".join(streamed), answer)

    def valid_calls(self, llm, answer):
        calls = llm.get_tool_calls_from_response(answer)
        self.assertEqual([c.tool_name for c in calls], ["weather"])
        self.assertEqual(set(calls[0].tool_kwargs), {"city", "days"})
        self.assertIn(calls[0].tool_kwargs["city"], ("Paris", "Rome"))
        self.assertIn(calls[0].tool_kwargs["days"], range(1, 10))
        return calls[0].tool_kwargs

    def test_a_required_tool_is_called(self):
        llm, tool = self.caller(), FunctionTool.from_defaults(weather)
        answer = llm.chat_with_tools([tool], user_msg=ASK_WEATHER, tool_required=True)
        arguments = self.valid_calls(llm, answer)
        *_, last = llm.stream_chat_with_tools([tool], user_msg=ASK_WEATHER, tool_required=True)
        self.assertEqual(self.valid_calls(llm, last), arguments)
        said = llm.predict_and_call([tool], user_msg=ASK_WEATHER, tool_required=True)
        self.assertEqual(str(said), weather(**arguments))

    def test_structured_output_keeps_the_schema(self):
        by_schema = self.llm(max_tokens=200, should_use_structured_outputs=True).as_structured_llm(Colour)
        self.assertIsInstance(by_schema.complete("Describe red.").raw, Colour)
        by_tool = self.caller().as_structured_llm(Colour)
        self.assertIsInstance(by_tool.complete("Describe red.").raw, Colour)


if __name__ == "__main__":
    common.main()
