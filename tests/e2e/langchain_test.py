#!/usr/bin/env python3
"""LangChain's OpenAI client, unmodified, against `surety serve`: what its users rely on, not how good answers are."""

import asyncio
import json
import os
import tempfile
import unittest
from typing import Annotated, Literal

import common
import tool_model
from common import MODEL, surety
from serving import Server, need

need("client", "tools/install_client", "langchain_openai")
os.environ["LANGSMITH_TRACING"] = "false"  # nothing is sent elsewhere

import openai  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage  # noqa: E402
from langchain_core.tools import tool  # noqa: E402
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402

ENCODER = "all-MiniLM-L6-v2"
QUESTION = [SystemMessage("You are brief."), HumanMessage("Name three colours.")]
PROMPTS = ["Name a colour.", "Name a fruit.", "Count to four."]


ASK_WEATHER = [HumanMessage("Will it be sunny in Paris for the next 3 days?")]


class Colour(BaseModel):
    """A colour."""
    name: str = Field(max_length=12)
    warm: bool


@tool
def weather(city: Literal["Paris", "Rome"], days: Annotated[int, Field(ge=1, le=9)]) -> str:
    """The weather in a city for some days."""
    return f"{city}: sunny for {days} days"


class LangChainTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.has_encoder = surety("models", "path", ENCODER).code == 0
        folder = tempfile.TemporaryDirectory(prefix="surety-e2e-")
        cls.addClassCleanup(folder.cleanup)
        cls.server = Server(cls, "-m", tool_model.make(folder.name),
                            *(["--embedding-model", ENCODER] if cls.has_encoder else []), ctx=2048)
        cls.address = {"base_url": f"http://127.0.0.1:{cls.server.port}/v1", "api_key": "none", "max_retries": 0,
                       "timeout": 120}

    def llm(self, **more):
        return ChatOpenAI(**{**self.address, "model": MODEL, "temperature": 0, "max_tokens": 24, **more})

    def caller(self, **more):
        return self.llm(**{"model": tool_model.NAME, "max_tokens": 200, **more})

    def balanced(self, usage):
        self.assertGreater(usage["input_tokens"], 0)
        self.assertGreater(usage["output_tokens"], 0)
        self.assertEqual(usage["input_tokens"] + usage["output_tokens"], usage["total_tokens"])

    def test_invoke(self):
        answer = self.llm().invoke(QUESTION)
        self.assertIsInstance(answer, AIMessage)
        self.balanced(answer.usage_metadata)
        self.assertLessEqual(answer.usage_metadata["output_tokens"], 24)
        self.assertEqual(answer.response_metadata["model_name"], MODEL)
        self.assertIn(answer.response_metadata["finish_reason"], ("stop", "length"))
        body = {"model": MODEL, "temperature": 0, "max_tokens": 24, "messages": [
            {"role": "system", "content": "You are brief."}, {"role": "user", "content": "Name three colours."}]}
        _, plain, _ = self.server.call("POST", "/v1/chat/completions", body)
        self.assertEqual(answer.content, plain["choices"][0]["message"]["content"])

    def test_a_stream_is_the_answer(self):
        for more in ({}, {"temperature": 1, "seed": 7}):
            llm = self.llm(stream_usage=True, **more)
            whole = llm.invoke(QUESTION)
            chunks = list(llm.stream(QUESTION))
            self.assertGreater(len(chunks), 2)
            self.assertEqual("".join(c.content for c in chunks), whole.content)
            self.assertEqual(len([c for c in chunks if c.usage_metadata]), 1)
            summed = chunks[0]
            for chunk in chunks[1:]:
                summed += chunk
            self.balanced(summed.usage_metadata)
            self.assertEqual({k: summed.usage_metadata[k] for k in ("input_tokens", "output_tokens")},
                             {k: whole.usage_metadata[k] for k in ("input_tokens", "output_tokens")})
            self.assertEqual(summed.response_metadata["finish_reason"], whole.response_metadata["finish_reason"])

    def test_batch_is_each_alone(self):
        llm = self.llm()
        alone = [llm.invoke(prompt).content for prompt in PROMPTS]
        self.assertEqual([a.content for a in llm.batch(PROMPTS)], alone)

    def test_async_is_sync(self):
        llm = self.llm()

        async def ask():
            together = await llm.abatch(PROMPTS)
            return [a.content for a in together], [c.content async for c in llm.astream(PROMPTS[0])]
        together, streamed = asyncio.run(ask())
        alone = [llm.invoke(prompt).content for prompt in PROMPTS]
        self.assertEqual(together, alone)
        self.assertEqual("".join(streamed), alone[0])

    def test_stop_and_logprobs(self):
        text = self.llm().invoke(QUESTION).content
        word = text.split()[2]
        self.assertEqual(self.llm().invoke(QUESTION, stop=[word]).content, text[:text.index(word)])
        tokens = self.llm(logprobs=True, top_logprobs=2).invoke(QUESTION).response_metadata["logprobs"]["content"]
        self.assertTrue(all(t["logprob"] <= 0 and len(t["top_logprobs"]) == 2 for t in tokens))

    def valid_call(self, call):
        self.assertEqual(call["name"], "weather")
        self.assertTrue(call["id"])
        self.assertEqual(set(call["args"]), {"city", "days"})
        self.assertIn(call["args"]["city"], ("Paris", "Rome"))
        self.assertIn(call["args"]["days"], range(1, 10))

    def test_a_required_tool_is_called(self):
        for choice in ("required", "weather"):
            bound = self.caller().bind_tools([weather], tool_choice=choice, parallel_tool_calls=False)
            answer = bound.invoke(ASK_WEATHER)
            self.assertEqual(answer.invalid_tool_calls, [])
            self.assertEqual(len(answer.tool_calls), 1)
            self.valid_call(answer.tool_calls[0])
            self.assertEqual(answer.response_metadata["finish_reason"], "tool_calls")
            summed = None
            for chunk in bound.stream(ASK_WEATHER):
                summed = chunk if summed is None else summed + chunk
            self.assertEqual([(c["name"], c["args"]) for c in summed.tool_calls],
                             [(c["name"], c["args"]) for c in answer.tool_calls])
            result = weather.invoke(answer.tool_calls[0])
            self.assertIsInstance(result, ToolMessage)
            self.balanced(self.caller(max_tokens=8).invoke([*ASK_WEATHER, answer, result]).usage_metadata)

    def test_a_model_without_tools_says_so(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.llm().bind_tools([weather], tool_choice="required").invoke(ASK_WEATHER)
        self.assertEqual(caught.exception.code, "unsupported_by_model")

    def test_structured_output_keeps_the_schema(self):
        llm = self.llm(max_tokens=200)
        for way, by in (("json_schema", llm), ("function_calling", self.caller())):
            self.assertIsInstance(by.with_structured_output(Colour, method=way).invoke("Describe red."), Colour)
        schema = {"title": "pair", "type": "object", "additionalProperties": False, "required": ["a", "b"],
                  "properties": {"a": {"type": "integer", "maximum": 99, "minimum": 0}, "b": {"enum": ["x", "y"]}}}
        found = llm.with_structured_output(schema, method="json_schema", include_raw=True).invoke("Give a pair.")
        self.assertIsNone(found["parsing_error"])
        self.assertEqual(found["parsed"], json.loads(found["raw"].content))
        self.assertEqual(set(found["parsed"]), {"a", "b"})
        self.assertIn(found["parsed"]["a"], range(100))
        self.assertIn(found["parsed"]["b"], ("x", "y"))
        streamed = list(llm.with_structured_output(schema, method="json_schema").stream("Give a pair."))
        self.assertEqual(streamed[-1], found["parsed"])

    def test_the_responses_api(self):
        llm = self.llm(use_responses_api=True)
        answer = llm.invoke(QUESTION)
        self.balanced(answer.usage_metadata)
        self.assertEqual(answer.text, self.llm().invoke(QUESTION).content)
        self.assertEqual("".join(c.text for c in llm.stream(QUESTION)), answer.text)
        call = self.caller(use_responses_api=True).bind_tools([weather], tool_choice="required").invoke(ASK_WEATHER)
        self.valid_call(call.tool_calls[0])

    def test_completions(self):
        llm = OpenAI(**self.address, model=MODEL, temperature=0, max_tokens=12)
        text = llm.invoke("One, two,")
        self.assertEqual(text, self.server.complete("One, two,", max_tokens=12)["choices"][0]["text"])
        self.assertEqual("".join(llm.stream("One, two,")), text)

    def test_errors_are_the_clients_own(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.llm(temperature=9).invoke("x")
        self.assertEqual(caught.exception.param, "temperature")
        with self.assertRaises(openai.NotFoundError):
            self.llm(model="gpt-none").invoke("x")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.llm().invoke("word " * 20_000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")

    def test_embeddings(self):
        if not self.has_encoder:
            self.skipTest(f"{ENCODER} is not on this machine")
        # As LangChain says for servers that are not OpenAI's: texts are sent, not OpenAI's token ids.
        embeddings = OpenAIEmbeddings(**self.address, model=ENCODER, check_embedding_ctx_length=False)
        many = embeddings.embed_documents(["a red apple", "the stock exchange"])
        one = embeddings.embed_query("a red apple")
        self.assertEqual(len(many), 2)
        self.assertEqual({len(v) for v in [*many, one]}, {384})
        for a, b in zip(many[0], one, strict=True):
            self.assertAlmostEqual(a, b, places=5)
        self.assertAlmostEqual(sum(a * a for a in one), 1, places=3)


if __name__ == "__main__":
    common.main()
