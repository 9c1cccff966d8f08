#!/usr/bin/env python3
"""Traces of a real server: a small collector receives its spans over OTLP/HTTP and looks at every one of them."""

import http.client
import http.server
import json
import signal
import threading
import time

import common
from common import EndToEnd, MODEL, measured
from serving import Server

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
QUIET = {name: "" for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                               "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME")}


def value_of(value):
    (kind, inner), = value.items()
    if kind == "intValue":
        assert isinstance(inner, str), value
        return int(inner)
    if kind == "arrayValue":
        return [value_of(item) for item in inner["values"]]
    return inner


class Collector:
    """Keeps what it is sent; `statuses`: how it answers first."""

    def __init__(self, case, statuses=()):
        self.requests, self.spans, self.statuses = [], [], list(statuses)
        self.lock = threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = collector.receive(self.path, dict(self.headers), json.loads(body))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        case.addCleanup(self.close)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def receive(self, path, headers, body):
        with self.lock:
            self.requests.append((path, headers, body))
            status = self.statuses.pop(0) if self.statuses else 200
            if status == 200:
                for resource in body["resourceSpans"]:
                    for scope in resource["scopeSpans"]:
                        self.spans += scope["spans"]
            return status

    def servers(self):
        with self.lock:
            return [span for span in self.spans if span["kind"] == 2]

    def children(self, span):
        with self.lock:
            return [s for s in self.spans if s.get("parentSpanId") == span["spanId"]]


@measured
class TracingTest(EndToEnd):
    def traced(self, *args, statuses=(), env=None):
        collector = Collector(self, statuses)
        arguments = [] if env else ["--otlp-endpoint", collector.url]
        variables = {k: v.replace("URL", collector.url) for k, v in (env or {}).items()}
        return Server(self, *arguments, *args, env={**QUIET, **variables}), collector

    def ask(self, server, path, body, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        try:
            connection.request("POST", path, body if isinstance(body, str) else json.dumps(body),
                               {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            text = response.read().decode()
            return response.status, text, {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def attributes(self, span):
        keys = [a["key"] for a in span["attributes"]]
        self.assertEqual(len(keys), len(set(keys)), keys)
        return {a["key"]: value_of(a["value"]) for a in span["attributes"]}

    def well_formed(self, collector, span):
        """Ids, times, and children that lie one after another inside."""
        self.assertRegex(span["traceId"], r"^[0-9a-f]{32}$")
        self.assertRegex(span["spanId"], r"^[0-9a-f]{16}$")
        begin, end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        self.assertTrue(isinstance(span["startTimeUnixNano"], str))
        self.assertLess(abs(time.time_ns() - end), 120e9)
        at = begin
        for child in collector.children(span):
            self.assertEqual((child["traceId"], child["kind"]), (span["traceId"], 1))
            self.assertLessEqual(at, int(child["startTimeUnixNano"]))
            self.assertLessEqual(int(child["startTimeUnixNano"]), int(child["endTimeUnixNano"]))
            at = int(child["endTimeUnixNano"])
        self.assertLessEqual(at, end)

    def test_a_chat_is_one_trace_with_its_children(self):
        server, collector = self.traced()
        prompt = "Name a very unusual colour."
        body = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "max_tokens": 6, "temperature": 0.5,
                "top_p": 0.9, "seed": 3, "ignore_eos": True}
        begin = time.time_ns()
        status, text, headers = self.ask(server, "/v1/chat/completions", body,
                                         {"traceparent": TRACEPARENT, "tracestate": "congo=t61",
                                          "x-request-id": "mine"})
        took = time.time_ns() - begin
        self.assertEqual(status, 200, text)
        answer = json.loads(text)
        self.eventually(collector.servers)
        (span,) = collector.servers()
        self.well_formed(collector, span)
        self.assertEqual((span["traceId"], span["parentSpanId"], span["traceState"]), (TRACE, PARENT, "congo=t61"))
        self.assertEqual(span["flags"] & 0x301, 0x301)
        self.assertEqual(headers["traceresponse"], f"00-{TRACE}-{span['spanId']}-01")
        self.assertLessEqual(int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]), took)
        self.assertEqual(span["name"], f"chat {MODEL}")
        self.assertEqual([c["name"] for c in collector.children(span)], ["queue", "prefill", "decode"])
        usage = answer["usage"]
        expected = {"http.request.method": "POST", "url.path": "/v1/chat/completions", "http.response.status_code": 200,
                    "http.response.header.x-request-id": ["mine"], "gen_ai.operation.name": "chat",
                    "gen_ai.provider.name": "surety", "gen_ai.request.model": MODEL, "gen_ai.response.model": MODEL,
                    "gen_ai.response.id": answer["id"], "gen_ai.request.max_tokens": 6,
                    "gen_ai.request.temperature": 0.5, "gen_ai.request.top_p": 0.9, "gen_ai.request.seed": 3,
                    "gen_ai.response.finish_reasons": [answer["choices"][0]["finish_reason"]],
                    "gen_ai.usage.input_tokens": usage["prompt_tokens"],
                    "gen_ai.usage.output_tokens": usage["completion_tokens"]}
        has = self.attributes(span)
        self.assertEqual({k: has.get(k) for k in expected}, expected)
        self.assertNotIn("error.type", has)
        path, sent_headers, request = collector.requests[0]
        self.assertEqual((path, sent_headers["Content-Type"]), ("/v1/traces", "application/json"))
        self.assertNotIn("unusual", json.dumps(request))
        resource = {a["key"]: value_of(a["value"]) for a in request["resourceSpans"][0]["resource"]["attributes"]}
        self.assertEqual(resource["service.name"], "surety")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(collector.servers()), 1)

    def test_streams_errors_and_clients_that_leave_have_one_span_each(self):
        server, collector = self.traced()
        connection, response = server.open_stream(max_tokens=5)
        response.read()
        connection.close()
        self.eventually(lambda: len(collector.servers()) == 1)
        streamed = self.attributes(collector.servers()[0])
        self.assertEqual((streamed["gen_ai.operation.name"], streamed["gen_ai.request.stream"],
                          streamed["gen_ai.usage.output_tokens"]), ("text_completion", True, 5))
        self.assertEqual(self.ask(server, "/v1/chat/completions", "{")[0], 400)
        self.assertEqual(self.ask(server, "/v1/completions", {"model": "no-such-model", "prompt": "x"})[0], 404)
        self.eventually(lambda: len(collector.servers()) == 3)
        self.assertEqual([self.attributes(s)["error.type"] for s in collector.servers()[1:]],
                         ["invalid_json", "model_not_found"])
        self.assertEqual([self.attributes(s)["http.response.status_code"] for s in collector.servers()[1:]], [400, 404])
        connection, response = server.open_stream(max_tokens=800)
        for _ in range(10):  # five events, so that there are tokens after the first one
            response.readline()
        response.close()
        connection.close()
        self.eventually(lambda: len(collector.servers()) == 4)
        left = collector.servers()[3]
        has = self.attributes(left)
        self.assertEqual((has["error.type"], has["gen_ai.response.finish_reasons"]),
                         ("client_disconnected", ["cancelled"]))
        self.assertLess(has["gen_ai.usage.output_tokens"], 800)
        self.assertEqual([c["name"] for c in collector.children(left)], ["queue", "prefill", "decode"])
        self.assertEqual(server.stop(), 0)
        spans = collector.servers()
        self.assertEqual(len(spans), 4)
        self.assertEqual(len({s["traceId"] for s in spans}), 4)
        for span in spans:
            self.well_formed(collector, span)

    def test_many_at_once_have_one_span_each(self):
        server, collector = self.traced()
        threads = [threading.Thread(target=server.complete, args=(f"Question {i}",), kwargs={"ignore_eos": True})
                   for i in range(24)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(server.stop(), 0)  # what waits is sent at the end
        self.assertEqual(len(collector.servers()), 24)
        self.assertEqual(len({s["spanId"] for s in collector.spans}), 24 * 4)
        for span in collector.servers():
            self.well_formed(collector, span)

    def test_the_sampled_flag_decides_and_the_share_where_there_is_none(self):
        server, collector = self.traced("--trace-sample", "0")
        body = {"model": MODEL, "prompt": "x", "max_tokens": 1}
        self.ask(server, "/v1/completions", body)
        unsampled = self.ask(server, "/v1/completions", body, {"traceparent": TRACEPARENT[:-2] + "00"})[2]
        self.assertRegex(unsampled["traceresponse"], f"^00-{TRACE}-[0-9a-f]{{16}}-00$")
        self.ask(server, "/v1/completions", body, {"traceparent": TRACEPARENT})
        self.assertEqual(server.stop(), 0)
        self.assertEqual([s["parentSpanId"] for s in collector.servers()], [PARENT])

    def test_a_collector_that_is_busy_gets_them_later(self):
        server, collector = self.traced(statuses=[503, 429])
        server.complete(ignore_eos=True)
        self.eventually(collector.servers)
        self.assertGreaterEqual(len(collector.requests), 3)
        self.eventually(lambda: server.metric("surety_spans_exported_total") == 4)
        self.assertEqual(server.metric("surety_spans_dropped_total"), 0)

    def test_without_a_collector_requests_are_answered_and_spans_counted(self):
        server = Server(self, "--otlp-endpoint", "http://127.0.0.1:9", env=QUIET)
        server.complete()
        begin = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(30), 0)
        self.assertLess(time.monotonic() - begin, 10)
        server.reader.join(10)
        self.assertIn("traces: cannot connect to 127.0.0.1:9", "".join(server.log))

    def test_the_environment_says_where(self):
        server, collector = self.traced(env={"OTEL_EXPORTER_OTLP_ENDPOINT": "URL/base", "OTEL_SERVICE_NAME": "desk",
                                             "OTEL_EXPORTER_OTLP_HEADERS": "x-team=a%20b"})
        server.complete()
        self.assertEqual(server.stop(), 0)
        self.assertEqual(len(collector.servers()), 1)
        path, headers, request = collector.requests[0]
        self.assertEqual((path, headers["x-team"]), ("/base/v1/traces", "a b"))
        self.assertIn({"key": "service.name", "value": {"stringValue": "desk"}},
                      request["resourceSpans"][0]["resource"]["attributes"])
        self.fails(2, "serve", "-m", MODEL, "--otlp-endpoint", "https://x", says="--otlp-endpoint")
        self.fails(2, "serve", "-m", MODEL, "--trace-sample", "2", says="--trace-sample")
        self.fails(2, "serve", "-m", MODEL, env={"OTEL_EXPORTER_OTLP_ENDPOINT": "x"},
                   says="$OTEL_EXPORTER_OTLP_ENDPOINT")


if __name__ == "__main__":
    common.main()
