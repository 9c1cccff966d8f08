#!/usr/bin/env python3
"""The official openai client and LangChain's, unmodified, against a governed model whose answers are held: they pass
over what a stream says while it waits, and learn how it ended."""

import os

import common
from serving import need

need("client", "tools/install_client", "openai", "langchain_openai")
os.environ["LANGSMITH_TRACING"] = "false"  # nothing is sent elsewhere

import openai  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402

import governance_test  # noqa: E402

METADATA = {"product": "checking", "language": "en"}
HELD = "What is the policy on overdrafts?"
REVIEWED = "I want to dispute a transaction that I did not make."


class GovernedClientsTest(common.EndToEnd):
    def setUp(self):
        super().setUp()
        self.world = governance_test.GovernanceTest()  # its policy, keys and server; none of its tests
        self.world.setUp()
        self.addCleanup(self.world.doCleanups)
        self.world.edit("policy.yaml", lambda text: text.replace(
            "release: {audience: internal, mode: stream}", "release: {audience: internal, mode: held, progress: 20ms}")
            .replace("mode: held, review: supervisor}", "mode: held, review: supervisor, progress: 20ms}")
            .replace("verify: [citations, numbers, promises, pii]", "verify: [pii]"))
        self.server = self.world.server()
        self.address = {"base_url": f"http://127.0.0.1:{self.server.port}/v1", "api_key": self.world.anna,
                        "max_retries": 0, "timeout": 120}

    def said_progress(self, question):
        """The control: what the clients are about to pass over is there."""
        _, _, lines = self.world.raw_stream(self.server, question)
        return any(line.startswith(": {") for line in lines)

    def test_openai(self):
        self.assertTrue(self.said_progress(HELD + " Please."))
        client = openai.OpenAI(**self.address)
        question = [{"role": "user", "content": HELD}]
        chunks = list(client.chat.completions.create(model="retail-demo", messages=question, temperature=0,
                                                     stream=True, metadata=METADATA))
        self.assertTrue(all(chunk.choices for chunk in chunks))
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        self.assertTrue(text)
        self.assertEqual(chunks[-1].choices[0].finish_reason, "stop")
        whole = client.chat.completions.create(model="retail-demo", messages=question, temperature=0,
                                               metadata=METADATA)
        self.assertEqual(whole.choices[0].message.content, text)
        with self.assertRaises(openai.APIError) as raised:
            list(client.chat.completions.create(model="retail-demo", temperature=0, stream=True, metadata=METADATA,
                                                messages=[{"role": "user", "content": REVIEWED}]))
        self.assertEqual(raised.exception.code, "review_pending")

    def test_openai_responses(self):
        client = openai.OpenAI(**self.address)
        events = list(client.responses.create(model="retail-demo", input=HELD, temperature=0, stream=True,
                                              metadata=METADATA))
        self.assertEqual(events[-1].type, "response.completed")
        self.assertTrue(events[-1].response.output_text)

    def test_langchain(self):
        llm = ChatOpenAI(model="retail-demo", temperature=0, extra_body={"metadata": METADATA},
                         **self.address)
        pieces = list(llm.stream(HELD))
        text = "".join(piece.content for piece in pieces)
        self.assertEqual(text, llm.invoke(HELD).content)
        self.assertTrue(text)
        with self.assertRaises(openai.APIError):
            list(llm.stream(REVIEWED))


if __name__ == "__main__":
    common.main()
