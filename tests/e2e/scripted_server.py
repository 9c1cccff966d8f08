"""An OpenAI-compatible server that answers by script: each request's body says, under "script", how.

Fields (milliseconds and counts): first_ms, gap_ms, chunks, per_chunk (tokens in a chunk), usage (bool), chunk_usage
(bool: in every chunk), eos (bool: the end token is counted, not shown), mode: ok, refuse (429), busy (503), error
(500), hang (no answer), reset, cut (half the chunks, then closed), no_done, garbage, bad_json, stream_error,
not_stream, close (Connection: close), split (one byte a write).
"""

import json
import socket
import socketserver
import ssl
import struct
import threading
import time


class Handler(socketserver.StreamRequestHandler):
    disable_nagle_algorithm = True

    def handle(self):
        self.server.connections += 1
        try:
            while self.one():
                pass
        except (ConnectionError, ssl.SSLError):
            pass

    def one(self):
        line = self.rfile.readline()
        if not line:
            return False
        arrived = time.monotonic()
        headers = {}
        while (header := self.rfile.readline().strip()):
            name, _, value = header.partition(b":")
            headers[name.lower().decode()] = value.strip().decode()
        raw = self.rfile.read(int(headers.get("content-length", 0)))
        path = line.split()[1].decode()
        if path == "/v1/models":
            self.plain(200, {"object": "list", "data": [{"id": "scripted", "object": "model"}]})
            return True
        body = json.loads(raw)
        self.server.requests.append({"path": path, "headers": headers, "body": body, "arrived": arrived})
        return self.answer(body, dict(self.server.script, **body.get("script", {})))

    def plain(self, status, value, headers=()):
        text = json.dumps(value).encode()
        extra = "".join(f"{name}: {content}\r\n" for name, content in headers)
        self.wfile.write(f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{extra}"
                         f"Content-Length: {len(text)}\r\n\r\n".encode() + text)

    def chunk(self, data, split=False):
        framed = b"%x\r\n%s\r\n" % (len(data), data)
        if not split:
            self.wfile.write(framed)
            return
        for i in range(len(framed)):
            self.wfile.write(framed[i:i + 1])
            time.sleep(0.0002)

    def failure(self, mode):
        """True if the mode is one that gives no stream."""
        if mode == "hang":
            self.server.released.wait(30)
        elif mode == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
        elif mode == "garbage":
            self.wfile.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
        elif mode in ("refuse", "busy"):
            status = 429 if mode == "refuse" else 503
            self.plain(status, {"error": {"message": "too much load"}}, [("Retry-After", "2")])
        elif mode == "error":
            self.plain(500, {"error": {"message": "it broke"}})
        elif mode == "not_stream":
            self.plain(200, {"choices": [{"message": {"content": "all at once"}}]})
        else:
            return False
        return True

    def answer(self, body, script):
        mode = self.server.modes.pop() if self.server.modes else script.get("mode", "ok")
        if self.failure(mode):
            return mode in ("refuse", "busy", "error", "not_stream")
        close = mode == "close"
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n" +
                         (b"Connection: close\r\n\r\n" if close else b"Transfer-Encoding: chunked\r\n\r\n"))
        write = self.wfile.write if close else lambda data: self.chunk(data, mode == "split")
        chat = "messages" in body
        chunks, per_chunk = script.get("chunks", 4), script.get("per_chunk", 1)
        due = time.monotonic() + script.get("first_ms", 0) / 1e3
        if chat:
            write(self.event({"delta": {"role": "assistant", "content": ""}}))
        for i in range(chunks):
            if mode == "cut" and i == chunks // 2:
                return False
            time.sleep(max(0, due - time.monotonic()))
            due += script.get("gap_ms", 0) / 1e3
            if mode == "bad_json" and i == 1:
                write(b"data: {no json}\n\n")
            if mode == "stream_error" and i == 1:
                write(b'data: {"error": {"message": "ran out"}}\n\n')
            text = " word" * per_chunk
            usage = {"completion_tokens": (i + 1) * per_chunk, "prompt_tokens": 7}
            write(self.event({"delta": {"content": text}} if chat else {"text": text},
                             usage if script.get("chunk_usage") else None))
        if mode != "no_done":
            self.finish(write, body, script, due)
        if not close:
            self.wfile.write(b"0\r\n\r\n")
        return not close

    def finish(self, write, body, script, due):
        eos = script.get("eos", False)
        if eos:
            time.sleep(max(0, due - time.monotonic()))
        last = {"finish_reason": "stop" if eos else "length"}
        write(self.event({**last, "delta": {}} if "messages" in body else {**last, "text": ""}))
        if script.get("usage", True):
            tokens = script.get("chunks", 4) * script.get("per_chunk", 1) + eos
            prompt = len(str(body.get("messages", body.get("prompt", ""))).split())
            usage = {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens,
                     "prompt_tokens_details": {"cached_tokens": 3}}
            write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
        write(b"data: [DONE]\n\n")

    @staticmethod
    def event(choice, usage=None):
        value = {"object": "chunk", "choices": [{"index": 0, **choice}]}
        if usage:
            value["usage"] = usage
        return b"data: " + json.dumps(value).encode() + b"\n\n"


class ScriptedServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 512

    def __init__(self, certificate=None, **script):
        super().__init__(("127.0.0.1", 0), Handler)
        self.script, self.requests, self.connections = script, [], 0
        self.modes = []  # of the next requests, from the last on, in place of the script's
        self.released = threading.Event()
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        self.url = f"http{'s' if certificate else ''}://localhost:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handle_error(self, request, client_address):
        pass

    def stop(self):
        self.released.set()
        self.shutdown()
        self.server_close()
