// Calls over HTTP against a server that is scripted byte by byte.
#include "gateway/http_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "gateway/http_reply_parser.h"
#include "gateway/testing/scripted_server.h"
#include "gateway/testing/test_certificates.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;

HttpCall CallTo(const std::string& url, int64_t limit_ms = 5000) {
  HttpCall call;
  call.url = url;
  call.deadline_ns = Clock::Real().NowNanos() + limit_ms * 1'000'000;
  return call;
}

// What a parser makes of the bytes, cut at `at`.
struct ParsedReply {
  Status status;
  int code = 0;
  std::string body;
  std::map<std::string, std::string> headers;
  size_t n_used = 0;
  bool operator==(const ParsedReply& other) const {
    return status.ToString() == other.status.ToString() && code == other.code && body == other.body &&
           headers == other.headers && n_used == other.n_used;
  }
};

ParsedReply ParseCut(std::string_view bytes, std::vector<size_t> cuts, bool head_request = false) {
  HttpReplyParser parser(head_request);
  ParsedReply parsed;
  size_t at = 0;
  cuts.push_back(bytes.size());
  for (const size_t cut : cuts) {
    const Result<size_t> used = parser.Feed(bytes.substr(at, cut - at), [&](std::string_view piece) {
      parsed.body += piece;
      return true;
    });
    if (!used) {
      parsed.status = used.error();
      return parsed;
    }
    parsed.n_used += *used;
    at = cut;
  }
  parsed.status = parser.End();
  parsed.code = parser.status();
  parsed.headers = parser.headers();
  return parsed;
}

struct ReplyCase {
  const char* name;
  std::string bytes;
  int code;
  std::string body;
};

std::vector<ReplyCase> GoodReplies() {
  return {
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
      {"no reason", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
      {"empty", "HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n", 200, ""},
      {"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\nA;x=\"y\"\r\n0123456789\r\n"
                 "0\r\n\r\n", 200, "abc0123456789"},
      {"trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n", 200, "a"},
      {"close", "HTTP/1.1 200 OK\r\n\r\neverything up to the end", 200, "everything up to the end"},
      {"old", "HTTP/1.0 404 Not Found\r\n\r\nno", 404, "no"},
      {"interim", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n"
                  "Content-Length: 1\r\n\r\nx", 200, "x"},
      {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
      {"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", 304, ""},
      {"line feeds", "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 200, "ok"},
      {"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
      {"redirect", "HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", 302, ""},
  };
}

TEST(HttpReplyParserTest, ReadsEveryFormWhereverTheBytesAreCut) {
  for (const ReplyCase& reply : GoodReplies()) {
    const ParsedReply whole = ParseCut(reply.bytes, {});
    ASSERT_TRUE(whole.status.ok()) << reply.name << ": " << whole.status.ToString();
    EXPECT_EQ(whole.code, reply.code) << reply.name;
    EXPECT_EQ(whole.body, reply.body) << reply.name;
    EXPECT_EQ(whole.n_used, reply.bytes.size()) << reply.name;
    for (size_t i = 0; i <= reply.bytes.size(); ++i) {
      ASSERT_EQ(ParseCut(reply.bytes, {i}), whole) << reply.name << " cut at " << i;
    }
    std::vector<size_t> every;
    for (size_t i = 1; i < reply.bytes.size(); ++i) every.push_back(i);
    EXPECT_EQ(ParseCut(reply.bytes, every), whole) << reply.name << " byte by byte";
  }
}

TEST(HttpReplyParserTest, ATruncatedReplyIsNeverTakenForAWholeOne) {
  for (const ReplyCase& reply : GoodReplies()) {
    if (std::string_view(reply.name) == "close" || std::string_view(reply.name) == "old") continue;
    for (size_t n = 0; n < reply.bytes.size(); ++n) {
      const ParsedReply parsed = ParseCut(reply.bytes.substr(0, n), {});
      EXPECT_EQ(parsed.status.code(), StatusCode::kUnavailable) << reply.name << " of " << n << " bytes";
    }
  }
}

TEST(HttpReplyParserTest, BytesBehindAReplyAreNotPartOfIt) {
  const std::string reply = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
  const ParsedReply parsed = ParseCut(reply + "HTTP/1.1 500 no\r\n\r\n", {});
  EXPECT_TRUE(parsed.status.ok());
  EXPECT_EQ(parsed.n_used, reply.size());
  EXPECT_EQ(ParseCut("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", {}, true).code, 200) << "to HEAD: no body";
}

TEST(HttpReplyParserTest, RefusesWhatTwoReadersCouldReadInTwoWays) {
  const std::vector<std::string> bad = {
      "SSH-2.0-OpenSSH_9\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n", "HTTP/1.1 2000 OK\r\n\r\n",
      "HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 abc OK\r\n\r\n", "http/1.1 200 OK\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP/1.1 099 x\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nok", "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
      "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ng\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
      "HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "HTTP/1.1 200 OK\r\n: empty\r\n\r\n",
      "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
      "HTTP/1.1 200 OK\r\nA: b\rC: d\r\n\r\n", std::string("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", 27),
      "HTTP/1.1 200 OK\r\nA: " + std::string(70'000, 'a') + "\r\n\r\n",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(5000, 'a') + "\r\n",
  };
  for (const std::string& bytes : bad) {
    const ParsedReply whole = ParseCut(bytes, {});
    EXPECT_EQ(whole.status.code(), StatusCode::kUnavailable) << bytes.substr(0, 80);
    EXPECT_THAT(whole.status.message(), HasSubstr("no HTTP")) << bytes.substr(0, 80);
    for (size_t i = 0; i < std::min<size_t>(bytes.size(), 200); ++i) {
      EXPECT_FALSE(ParseCut(bytes, {i}).status.ok()) << bytes.substr(0, 80);
    }
  }
  std::string interim;
  for (int i = 0; i < 4000; ++i) interim += "HTTP/1.1 100 Continue\r\n\r\n";
  EXPECT_FALSE(ParseCut(interim, {}).status.ok()) << "interim replies without end";
}

TEST(HttpAddressTest, ReadsWhatItMayAndRefusesTheRest) {
  const auto address = ParseHttpAddress("https://api.example.com:8443/v1/x?q=1");
  ASSERT_TRUE(address.has_value());
  EXPECT_TRUE(address->tls);
  EXPECT_EQ(address->host, "api.example.com");
  EXPECT_EQ(address->port, "8443");
  EXPECT_EQ(address->path, "/v1/x?q=1");
  EXPECT_EQ(address->authority, "api.example.com:8443");
  EXPECT_EQ(ParseHttpAddress("http://[::1]:80")->host, "::1");
  EXPECT_EQ(ParseHttpAddress("http://h?x")->path, "/?x");
  EXPECT_EQ(ParseHttpAddress("https://h")->port, "443");
  for (const char* bad : {"", "ftp://h/", "http://", "http:///x", "http://h:0/", "http://h:65536/", "http://h:/",
                          "http://h:80a/", "http://user:pass@h/", "http://h/#x", "http://h/a b", "http://h/\r\nX: y",
                          "http://h\\@evil/", "http://[::1/", "http://h\xc3\xa9/", "http://h/\xc3\xa9", "//h/"}) {
    const auto refused = ParseHttpAddress(bad);
    ASSERT_FALSE(refused.has_value()) << bad;
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument) << bad;
  }
}

TEST(HttpClientTest, SendsTheRequestAndReadsTheReply) {
  ScriptedServer server(ScriptedServer::Answering([](const ScriptedRequest& request) {
    return HttpOk("{\"got\":\"" + request.body + "\"}", "X-A: 1\r\nX-A: 2\r\n");
  }));
  HttpCall call = CallTo(server.Url("/path?q=%20"));
  call.method = "POST";
  call.body = "body";
  call.headers = {{"X-Mine", "tab\tand \xc3\xa9"}, {"Content-Type", "text/plain"}};
  const auto reply = CallHttp(call);
  ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(reply->body, "{\"got\":\"body\"}");
  EXPECT_EQ(reply->headers.at("x-a"), "1, 2");
  const ScriptedRequest request = server.requests().at(0);
  EXPECT_EQ(request.method, "POST");
  EXPECT_EQ(request.target, "/path?q=%20");
  EXPECT_EQ(request.headers.at("host"), "127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(request.headers.at("x-mine"), "tab\tand \xc3\xa9");
  EXPECT_EQ(request.headers.at("content-length"), "4");
}

TEST(HttpClientTest, EveryCutOfAReplyOverTheWireIsTheSameReply) {
  const std::string bytes = HttpChunked("0123456789abcdef", 7, "X-B: c\r\n");
  std::atomic<size_t> cut{0};
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    while (connection.ReadRequest(request)) {
      if (!connection.SendSplit(bytes, cut)) return;
    }
  });
  for (cut = 0; cut <= bytes.size(); ++cut) {
    const auto reply = CallHttp(CallTo(server.Url()));
    ASSERT_TRUE(reply.has_value()) << cut << ": " << reply.error().ToString();
    ASSERT_EQ(reply->body, "0123456789abcdef") << cut;
    ASSERT_EQ(reply->headers.at("x-b"), "c") << cut;
  }
  EXPECT_EQ(server.n_connections(), 1) << "one connection serves all of them";
}

TEST(HttpClientTest, HeaderInjectionIsRefusedBeforeAnythingIsSent) {
  ScriptedServer server(ScriptedServer::Answering([](const ScriptedRequest&) { return HttpOk("{}"); }));
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"X", "a\r\nEvil: 1"}, {"X", "a\nb"}, {"X", "a\rb"}, {"X", std::string("a\0b", 3)}, {"X\r\nEvil", "1"},
      {"X:", "1"}, {"", "1"}, {"X Y", "1"}, {"Content-Length", "5"}, {"host", "evil"},
      {"Transfer-Encoding", "chunked"}};
  for (const auto& header : bad) {
    HttpCall call = CallTo(server.Url());
    call.headers = {header};
    const auto reply = CallHttp(call);
    ASSERT_FALSE(reply.has_value()) << header.first;
    EXPECT_EQ(reply.error().code(), StatusCode::kInvalidArgument);
  }
  HttpCall call = CallTo(server.Url());
  call.method = "GET / HTTP/1.1\r\nX: y\r\n\r\nGET";
  EXPECT_EQ(CallHttp(call).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(server.requests().size(), 0u);
  EXPECT_TRUE(CallHttp(CallTo(server.Url())).has_value()) << "the server does answer";
}

TEST(HttpClientTest, RedirectsAreRepliesAndNotFollowed) {
  ScriptedServer target(ScriptedServer::Answering([](const ScriptedRequest&) { return HttpOk("{}"); }));
  ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) {
    return HttpOk("", "Location: " + target.Url() + "\r\n", "307 Temporary Redirect");
  }));
  const auto reply = CallHttp(CallTo(server.Url()));
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->status, 307);
  EXPECT_EQ(reply->headers.at("location"), target.Url());
  EXPECT_EQ(target.n_connections(), 0);
}

TEST(HttpClientTest, HeadAndNoContentHaveNoBody) {
  ScriptedServer server(ScriptedServer::Answering([](const ScriptedRequest& request) -> std::string {
    if (request.method == "HEAD") return "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";
    return "HTTP/1.1 204 No Content\r\n\r\n";
  }));
  HttpCall call = CallTo(server.Url());
  EXPECT_EQ(CallHttp(call)->status, 204);
  call.method = "HEAD";
  const auto reply = CallHttp(call);
  ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
  EXPECT_EQ(reply->headers.at("content-length"), "1000");
  EXPECT_EQ(reply->body, "");
  EXPECT_EQ(server.n_connections(), 1);
}

TEST(HttpClientTest, BodiesOverTheLimitAreRefusedSaidOrNot) {
  for (const bool said : {true, false}) {
    ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) {
      const std::string body(5000, 'x');
      return said ? HttpOk(body) : HttpChunked(body, 512);
    }));
    HttpCall call = CallTo(server.Url());
    call.max_body_bytes = 4999;
    const auto refused = CallHttp(call);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kResourceExhausted);
    call.max_body_bytes = 5000;
    EXPECT_EQ(CallHttp(call)->body.size(), 5000u);
  }
}

// At each stage a peer that falls silent is given up at the deadline, with the stage's name.
TEST(HttpClientTest, StallsAreGivenUpAtTheDeadline) {
  struct Stage {
    const char* sent;
    const char* doing;
  };
  for (const Stage& stage : {Stage{"", "waiting for the answer"}, Stage{"HTTP/1.1 2", "waiting for the answer"},
                             Stage{"HTTP/1.1 200 OK\r\nA: ", "waiting for the answer"},
                             Stage{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "reading the answer"},
                             Stage{"HTTP/1.1 200 OK\r\n\r\nhel", "reading the answer"},
                             Stage{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5", "reading the answer"}}) {
    std::atomic<bool> closed{false};
    ScriptedServer server([&](ScriptedConnection& connection) {
      ScriptedRequest request;
      if (!connection.ReadRequest(request)) return;
      connection.Send(stage.sent);
      closed = connection.WaitForClose(5000);
    });
    const int64_t begun = Clock::Real().NowNanos();
    const auto reply = CallHttp(CallTo(server.Url(), 80));
    ASSERT_FALSE(reply.has_value());
    EXPECT_EQ(reply.error().code(), StatusCode::kDeadlineExceeded) << reply.error().ToString();
    EXPECT_THAT(reply.error().message(), HasSubstr(stage.doing)) << stage.sent;
    const int64_t took = Clock::Real().NowNanos() - begun;
    EXPECT_GE(took, 79'000'000);
    EXPECT_LT(took, 3'000'000'000);
    while (!closed && Clock::Real().NowNanos() - begun < 4'000'000'000) std::this_thread::yield();
    EXPECT_TRUE(closed) << "the connection is closed";
  }
}

TEST(HttpClientTest, APeerThatTricklesOrDoesNotReadIsGivenUpToo) {
  ScriptedServer trickle([](ScriptedConnection& connection) {
    ScriptedRequest request;
    if (!connection.ReadRequest(request)) return;
    connection.Send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.Send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(CallHttp(CallTo(trickle.Url(), 100)).error().code(), StatusCode::kDeadlineExceeded);
  std::atomic<bool> end{false};
  ScriptedServer deaf([&](ScriptedConnection&) {
    while (!end) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  HttpCall call = CallTo(deaf.Url());
  call.method = "POST";
  call.body.assign(32 << 20, 'x');
  call.deadline_ns = Clock::Real().NowNanos() + 3'000'000'000;
  const auto reply = CallHttp(call);
  end = true;
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(reply.error().message(), HasSubstr("sending"));
}

TEST(HttpClientTest, StopGivesUpAtOnce) {
  ScriptedServer server([](ScriptedConnection& connection) { (void)connection.WaitForClose(5000); });
  std::atomic<bool> stop{false};
  HttpCall call = CallTo(server.Url(), 5000);
  call.stop = [&] { return stop.load(); };
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    stop = true;
  });
  const int64_t begun = Clock::Real().NowNanos();
  const auto reply = CallHttp(call);
  stopper.join();
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code(), StatusCode::kCancelled);
  EXPECT_LT(Clock::Real().NowNanos() - begun, 2'000'000'000);
}

TEST(HttpClientTest, NobodyListeningIsUnavailable) {
  int port = 0;
  {
    ScriptedServer gone([](ScriptedConnection&) {});
    port = gone.port();
  }
  const auto reply = CallHttp(CallTo("http://127.0.0.1:" + std::to_string(port) + "/"));
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(reply.error().message(), HasSubstr("connecting"));
  const auto nowhere = CallHttp(CallTo("http://no-such-host.invalid/", 2000));
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_NE(nowhere.error().code(), StatusCode::kInvalidArgument);
}

TEST(HttpClientTest, AnAnswerBeforeTheRequestIsReadIsTaken) {
  ScriptedServer server([](ScriptedConnection& connection) {
    connection.Send(HttpOk("too much", "Connection: close\r\n", "413 Content Too Large"));
    (void)connection.WaitForClose(2000);
  });
  HttpCall call = CallTo(server.Url());
  call.method = "POST";
  call.body.assign(16 << 20, 'x');
  const auto reply = CallHttp(call);
  ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
  EXPECT_EQ(reply->status, 413);
  EXPECT_EQ(reply->body, "too much");
}

TEST(HttpClientTest, StreamsPiecesOfSuccessAndCollectsErrors) {
  std::atomic<bool> fail{false};
  ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) {
    return fail ? HttpOk("broken", {}, "500 Oops") : HttpChunked("abcdef", 2);
  }));
  std::string streamed;
  int status = 0;
  const auto on_head = [&](const HttpReply& head) { status = head.status; };
  const auto on_body = [&](std::string_view piece) {
    EXPECT_NE(status, 0) << "the head comes first";
    streamed += piece;
    return true;
  };
  auto reply = StreamHttp(CallTo(server.Url()), on_body, on_head);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(streamed, "abcdef");
  EXPECT_EQ(reply->body, "");
  EXPECT_EQ(status, 200);
  fail = true;
  streamed.clear();
  reply = StreamHttp(CallTo(server.Url()), on_body, on_head);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(streamed, "");
  EXPECT_EQ(reply->body, "broken");
  fail = false;
  reply = StreamHttp(CallTo(server.Url()), [](std::string_view) { return false; });
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().code(), StatusCode::kCancelled);
}

TEST(HttpPoolTest, CallsShareConnectionsButNotAtTheSameTime) {
  ScriptedServer server(
      ScriptedServer::Answering([](const ScriptedRequest& request) { return HttpOk(request.target); }));
  for (int i = 0; i < 200; ++i) {
    HttpCall call = CallTo(server.Url("/" + std::to_string(i)));
    call.method = i % 2 == 0 ? "GET" : "POST";
    const auto reply = CallHttp(call);
    ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
    ASSERT_EQ(reply->body, "/" + std::to_string(i));
  }
  EXPECT_EQ(server.n_connections(), 1);
  HttpCall fresh = CallTo(server.Url());
  fresh.fresh_connection = true;
  ASSERT_TRUE(CallHttp(fresh).has_value());
  EXPECT_EQ(server.n_connections(), 2);
  std::atomic<int> n_wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::string path = "/" + std::to_string(t) + "-" + std::to_string(i);
        const auto reply = CallHttp(CallTo(server.Url(path)));
        if (!reply || reply->body != path) ++n_wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(n_wrong, 0) << "no reply goes to another call";
  EXPECT_LE(server.n_connections(), 12);
}

TEST(HttpPoolTest, WhatCannotBeReusedIsNot) {
  for (const char* reply_bytes : {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                                  "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
                                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n",
                                  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nKeep-Alive: timeout=0\r\n\r\nok"}) {
    ScriptedServer server(ScriptedServer::Answering([&](const ScriptedRequest&) { return reply_bytes; }));
    for (int i = 0; i < 3; ++i) {
      const auto reply = CallHttp(CallTo(server.Url()));
      ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
      ASSERT_EQ(reply->body, "ok");
    }
    EXPECT_EQ(server.n_connections(), 3) << reply_bytes;
  }
}

// Each connection answers once and closes when its second request comes, as a server at its idle limit may.
TEST(HttpPoolTest, AStaleConnectionIsReplacedOnlyWhereNothingCanHappenTwice) {
  ScriptedServer server([](ScriptedConnection& connection) {
    ScriptedRequest request;
    if (!connection.ReadRequest(request)) return;
    connection.Send(HttpOk("ok"));
    (void)connection.ReadRequest(request);
  });
  HttpCall call = CallTo(server.Url());
  ASSERT_TRUE(CallHttp(call).has_value());
  ASSERT_TRUE(CallHttp(call).has_value()) << "GET goes on a new connection";
  EXPECT_EQ(server.requests().size(), 3u);
  call.method = "POST";
  const auto reply = CallHttp(call);
  ASSERT_FALSE(reply.has_value()) << "its server may have acted on the request";
  EXPECT_EQ(reply.error().code(), StatusCode::kUnavailable);
  EXPECT_EQ(server.requests().size(), 4u) << "and it is not sent again";
}

TEST(HttpPoolTest, AClosedKeptConnectionIsNoticedBeforeItIsUsed) {
  std::atomic<int> n_closed{0};
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    if (!connection.ReadRequest(request)) return;
    connection.Send(HttpOk("ok"));
    connection.CloseNow();
    ++n_closed;
  });
  HttpCall call = CallTo(server.Url());
  call.method = "POST";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(CallHttp(call).has_value()) << i;
    while (n_closed <= i) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(server.n_connections(), 3);
}

class HttpTlsTest : public ::testing::Test {
 protected:
  static ScriptedServer::Script Ok() {
    return ScriptedServer::Answering([](const ScriptedRequest& request) { return HttpOk("tls " + request.body); });
  }
  const TestFolder folder_;
};

TEST_F(HttpTlsTest, TrustsTheGivenAuthorityAndNoOther) {
  const TestCertificates ours = MakeTestCertificates("IP:127.0.0.1");
  const TestCertificates others = MakeTestCertificates("IP:127.0.0.1");
  ScriptedServer server(Ok(), {ours.certificate, ours.key, ""});
  HttpCall call = CallTo(server.Url());
  call.method = "POST";
  call.body.assign(100'000, 'b');
  call.tls.ca_file = folder_.Write("ca.pem", ours.authority);
  for (int i = 0; i < 3; ++i) {
    const auto reply = CallHttp(call);
    ASSERT_TRUE(reply.has_value()) << reply.error().ToString();
    EXPECT_EQ(reply->body.size(), 100'004u);
  }
  EXPECT_EQ(server.n_connections(), 1) << "TLS connections are kept as well";
  for (const std::string& file : {std::string(), folder_.Write("other.pem", others.authority)}) {
    call.tls.ca_file = file;
    const auto refused = CallHttp(call);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
    EXPECT_THAT(refused.error().message(), HasSubstr("TLS"));
  }
  EXPECT_EQ(server.requests().size(), 3u) << "nothing is sent to a server that is not trusted";
  for (const std::string& file : {std::string("/no/such/file"), folder_.Write("bad.pem", "no certificate")}) {
    call.tls.ca_file = file;
    EXPECT_EQ(CallHttp(call).error().code(), StatusCode::kInvalidArgument) << file;
  }
}

TEST_F(HttpTlsTest, TheCertificateMustNameTheHost) {
  const TestCertificates wrong = MakeTestCertificates("DNS:bank.example,IP:127.0.0.2");
  ScriptedServer server(Ok(), {wrong.certificate, wrong.key, ""});
  HttpCall call = CallTo(server.Url());
  call.tls.ca_file = folder_.Write("ca.pem", wrong.authority);
  const auto refused = CallHttp(call);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.error().message(), HasSubstr("mismatch"));
  EXPECT_EQ(server.requests().size(), 0u);
  const TestCertificates named = MakeTestCertificates("DNS:localhost");
  ScriptedServer good(Ok(), {named.certificate, named.key, ""});
  call.url = "https://localhost:" + std::to_string(good.port()) + "/";
  call.tls.ca_file = folder_.Write("named.pem", named.authority);
  const auto reply = CallHttp(call);
  EXPECT_TRUE(reply.has_value()) << reply.error().ToString();
}

TEST_F(HttpTlsTest, ABodyThatEndsWithoutAFarewellIsCutOff) {
  const TestCertificates pair = MakeTestCertificates("IP:127.0.0.1");
  std::atomic<bool> farewell{false};
  ScriptedServer server([&](ScriptedConnection& connection) {
    ScriptedRequest request;
    if (!connection.ReadRequest(request)) return;
    connection.Send("HTTP/1.1 200 OK\r\n\r\nhalf of");
    if (!farewell) connection.CloseNow();
  }, {pair.certificate, pair.key, ""});
  HttpCall call = CallTo(server.Url());
  call.tls.ca_file = folder_.Write("ca.pem", pair.authority);
  const auto cut = CallHttp(call);
  ASSERT_FALSE(cut.has_value());
  EXPECT_EQ(cut.error().code(), StatusCode::kUnavailable);
  farewell = true;
  const auto whole = CallHttp(call);
  ASSERT_TRUE(whole.has_value()) << whole.error().ToString();
  EXPECT_EQ(whole->body, "half of");
}

TEST_F(HttpTlsTest, PlainTextOrSilenceOnATlsPort) {
  ScriptedServer plain([](ScriptedConnection& connection) {
    connection.Send("HTTP/1.1 400 no\r\n\r\n");
    (void)connection.WaitForClose(1000);
  });
  const std::string url = "https://127.0.0.1:" + std::to_string(plain.port()) + "/";
  EXPECT_EQ(CallHttp(CallTo(url)).error().code(), StatusCode::kUnavailable);
  ScriptedServer silent([](ScriptedConnection& connection) { (void)connection.WaitForClose(3000); });
  const auto late = CallHttp(CallTo("https://127.0.0.1:" + std::to_string(silent.port()) + "/", 100));
  ASSERT_FALSE(late.has_value());
  EXPECT_EQ(late.error().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.error().message(), HasSubstr("TLS"));
}

}  // namespace
}  // namespace surety::gateway
