#include "http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <thread>

#include "http/testing/raw_client.h"
#include "http/testing/test_server.h"

namespace surety::http {
namespace {

using ::testing::HasSubstr;

// The four members of OpenAI's error object, and nothing else.
void ExpectError(const RawResponse& response, int status, const std::string& code) {
  EXPECT_EQ(response.status, status) << response.body;
  EXPECT_TRUE(response.complete);
  boost::system::error_code ec;
  const auto parsed = boost::json::parse(response.body, ec);
  ASSERT_FALSE(ec) << response.body;
  const auto& error = parsed.at("error").as_object();
  EXPECT_EQ(error.size(), 4U);
  EXPECT_FALSE(error.at("message").as_string().empty());
  EXPECT_FALSE(error.at("type").as_string().empty());
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_EQ(error.at("code").as_string(), code);
  EXPECT_TRUE(response.headers.contains("x-request-id"));
}

RawResponse Ask(int port, const std::string& request) {
  RawClient client(port);
  EXPECT_TRUE(client.Send(request));
  return client.Read();
}

TEST(ServerTest, AnswersAndKeepsTheConnection) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send(MakeRequest("GET", "/hello")));
    const RawResponse response = client.Read();
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "hello");
    EXPECT_EQ(response.headers.at("content-length"), "5");
    EXPECT_EQ(response.headers.at("content-type"), "text/plain");
    EXPECT_TRUE(response.headers.contains("date"));
    EXPECT_THAT(response.headers.at("x-request-id"), ::testing::StartsWith("req_"));
    EXPECT_FALSE(response.headers.contains("connection"));
  }
  EXPECT_EQ(server.server().n_connections(), 1);
}

TEST(ServerTest, AnswersRequestsSentAheadInTheirOrder) {
  TestServer server;
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body " + std::to_string(i);
    requests += i % 3 == 0 ? MakeRequest("GET", "/stream?n=2") : MakeRequest("POST", "/echo", "", body);
    requests += "\r\n";  // an empty line between requests is let pass
  }
  ASSERT_TRUE(client.Send(requests));
  for (int i = 0; i < 50; ++i) {
    const RawResponse response = client.Read();
    ASSERT_EQ(response.status, 200) << i;
    EXPECT_EQ(response.body, i % 3 == 0 ? "piece 0\npiece 1\n" : "body " + std::to_string(i));
  }
}

TEST(ServerTest, AnswersWhatAHalfClosedClientSentBefore) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/hello") + MakeRequest("POST", "/echo", "", "last")));
  client.ShutdownSend();
  EXPECT_EQ(client.Read().body, "hello");
  EXPECT_EQ(client.Read().body, "last");
  EXPECT_TRUE(client.AtEnd(3000));
}

TEST(ServerTest, ConnectionCloseIsHonoured) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/hello", "Connection: close\r\n")));
  EXPECT_EQ(client.Read().headers.at("connection"), "close");
  EXPECT_TRUE(client.AtEnd(3000));
}

TEST(ServerTest, Http10GetsNoChunksAndItsConnectionEndsTheBody) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("GET /stream?n=2 HTTP/1.0\r\n\r\n"));
  const RawResponse response = client.Read();
  EXPECT_EQ(response.body, "piece 0\npiece 1\n");
  EXPECT_FALSE(response.headers.contains("transfer-encoding"));
  RawClient kept(server.port());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(kept.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    EXPECT_EQ(kept.Read().headers.at("connection"), "keep-alive");
  }
}

TEST(ServerTest, HeadHasTheHeadersOfGetAndNoBody) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("HEAD", "/hello") + MakeRequest("HEAD", "/stream")));
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/hello")));
  EXPECT_EQ(client.Read(true).headers.at("content-length"), "5");
  EXPECT_EQ(client.Read(true).headers.at("transfer-encoding"), "chunked");
  EXPECT_EQ(client.Read().body, "hello");
}

TEST(ServerTest, UnknownPathsAndMethodsAreToldApart) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/nothing") + MakeRequest("GET", "/method")));
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/hello")));
  ExpectError(client.Read(), 404, "unknown_url");
  const RawResponse not_allowed = client.Read();
  ExpectError(not_allowed, 405, "method_not_allowed");
  EXPECT_EQ(not_allowed.headers.at("allow"), "OPTIONS, POST");
  EXPECT_EQ(client.Read().status, 200);  // neither ends the connection
}

TEST(ServerTest, PathsAreDecodedAndQueriesTakenApart) {
  TestServer server;
  EXPECT_EQ(Ask(server.port(), MakeRequest("GET", "/things/a%20b/c?x=1+2&x=%26&y")).body, "/things/a b/c");
  const HttpRequest request = server.last_request();
  EXPECT_EQ(request.query, (std::map<std::string, std::string>{{"x", "&"}, {"y", ""}}));
  EXPECT_EQ(Ask(server.port(), MakeRequest("GET", "http://127.0.0.1/things/z")).body, "/things/z");
  EXPECT_EQ(Ask(server.port(), MakeRequest("GET", "/things/")).status, 404);
  for (const char* path : {"/things/%", "/things/%0a", "/things/%00", "/things/%zz", "/things/../hello",
                           "/things/%2e%2e/x", "hello"}) {
    ExpectError(Ask(server.port(), MakeRequest("GET", path)), 400, "bad_request");
  }
}

TEST(ServerTest, RequestIdsOfTheCallerAreKeptIfTheyAreSane) {
  TestServer server;
  EXPECT_EQ(Ask(server.port(), MakeRequest("GET", "/hello", "X-Request-ID: my-1.2:3\r\n")).headers.at("x-request-id"),
            "my-1.2:3");
  EXPECT_THAT(Ask(server.port(), MakeRequest("GET", "/hello", "x-request-id: a b\r\n")).headers.at("x-request-id"),
              ::testing::StartsWith("req_"));
}

TEST(ServerTest, ListenersHaveTheirOwnRoutesAndRoles) {
  TestServer server;
  ExpectError(Ask(server.port(), MakeRequest("GET", "/admin")), 403, "insufficient_permissions");
  EXPECT_EQ(Ask(server.admin_port(), MakeRequest("GET", "/admin")).status, 200);
  EXPECT_EQ(server.last_request().identity.role, Role::kAdmin);
  EXPECT_EQ(server.last_request().identity.scope, api::Scope{});
}

TEST(ServerTest, HandlersThatThrowOrForgetAreAnsweredFor) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/fail") + MakeRequest("GET", "/drop") + MakeRequest("GET", "/cut")));
  ExpectError(client.Read(), 500, "internal_error");
  ExpectError(client.Read(), 500, "internal_error");
  const RawResponse cut = client.Read();
  EXPECT_FALSE(cut.complete) << "a stream without an end must not look complete";
}

TEST(ServerTest, HandlersCannotBreakTheFraming) {
  TestServer server;
  const RawResponse response = Ask(server.port(), MakeRequest("POST", "/echo", "", "x"));
  EXPECT_EQ(response.headers.at("x-extra"), "1");
  EXPECT_EQ(response.body, "x");
  EXPECT_FALSE(response.headers.contains("name"));
}

TEST(ServerTest, ChunkedBodiesArriveWhole) {
  TestServer server;
  const std::string request =
      "POST /echo HTTP/1.1\r\nHost: a.localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;ext=\"v\"\r\nhello\r\n00A\r\n, world!!!\r\n0\r\nTrailer: x\r\n\r\n";
  RawClient client(server.port());
  for (const char byte : request) ASSERT_TRUE(client.Send(std::string(1, byte)));
  EXPECT_EQ(client.Read().body, "hello, world!!!");
  ASSERT_TRUE(client.Send(request + MakeRequest("GET", "/hello")));
  EXPECT_EQ(client.Read().body, "hello, world!!!");
  EXPECT_EQ(client.Read().body, "hello");
}

TEST(ServerTest, ExpectedContinueIsSentBeforeTheBodyAndOnlyWhereItIsWanted) {
  TestServer server;
  RawClient client(server.port());
  const std::string head = "Host: localhost\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\n" + head));
  EXPECT_EQ(client.Read(false, true).status, 100);
  ASSERT_TRUE(client.Send("body"));
  EXPECT_EQ(client.Read(false, true).body, "body");
  // Refused before the body: the final answer comes at once.
  RawClient refused(server.port());
  ASSERT_TRUE(refused.Send("POST /nothing HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n"));
  EXPECT_EQ(refused.Read(false, true).status, 403);  // 'x' is no loopback name
  RawClient unknown(server.port());
  ASSERT_TRUE(unknown.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nExpect: tea\r\nContent-Length: 4\r\n\r\n"));
  ExpectError(unknown.Read(), 417, "expectation_failed");
}

TEST(ServerTest, BrokenHttpGets400AndTheConnectionEnds) {
  TestServer server;
  for (const std::string request : {
           "\x16\x03\x01\x02", "GET\r\n\r\n", "GET / HTTP/2.0\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
           "GET /hello HTTP/1.1\r\n\r\n",                                      // no Host
           "GET /hello HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
           "GET /hello HTTP/1.1\r\nHost : localhost\r\n\r\n",
           "GET /hello HTTP/1.1\nHost: localhost\n\n",
           "GET /he llo HTTP/1.1\r\nHost: localhost\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1, 2\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\nab\r\n",
           "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"}) {
    RawClient client(server.port());
    ASSERT_TRUE(client.Send(request));
    client.ShutdownSend();
    const RawResponse response = client.Read();
    ExpectError(response, 400, "bad_request");
    EXPECT_EQ(response.headers.at("connection"), "close") << request;
    EXPECT_TRUE(client.AtEnd(3000)) << request;
  }
  EXPECT_EQ(server.n_calls(), 0);
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"));
  ExpectError(client.Read(), 501, "not_implemented");
}

TEST(ServerTest, RequestsCutAtEveryByteDisturbNobody) {
  TestServer server;
  RawClient bystander(server.port());
  ASSERT_TRUE(bystander.Send(MakeRequest("GET", "/idle")));
  const auto stream = server.NextWaiting();
  const std::vector<std::string> requests = {
      MakeRequest("POST", "/echo", "Content-Type: application/json\r\n", "{\"a\": [1, 2]}"),
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"};
  for (const std::string& request : requests) {
    for (size_t cut = 1; cut < request.size(); ++cut) {
      RawClient client(server.port());
      ASSERT_TRUE(client.Send(request.substr(0, cut)));
      if (cut % 2 == 0) {
        client.Reset();
        continue;
      }
      client.ShutdownSend();
      ExpectError(client.Read(), 400, "bad_request");
    }
  }
  EXPECT_EQ(server.n_calls(), 1);
  ASSERT_TRUE(stream->Write("data: undisturbed\n\n"));
  stream->FinishStream();
  EXPECT_EQ(bystander.Read().body, "data: first\n\ndata: undisturbed\n\n");
}

TEST(ServerTest, OptionsTellsMethodsAndCorsIsOffByDefault) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("OPTIONS", "/hello") + MakeRequest("OPTIONS", "*")));
  ASSERT_TRUE(client.Send(MakeRequest("OPTIONS", "/no")));
  const RawResponse response = client.Read();
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("allow"), "GET, HEAD, OPTIONS");
  EXPECT_FALSE(response.headers.contains("access-control-allow-origin"));
  EXPECT_EQ(client.Read().status, 204);
  EXPECT_EQ(client.Read().status, 404);
}

TEST(ServerTest, CorsAnswersTheListedOriginsAlone) {
  TestServer::Options options;
  options.server.cors_origins = {"https://app.example"};
  TestServer server(options);
  const std::string preflight =
      "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
      "Access-Control-Request-Headers: x-a, content-type\r\n";
  RawResponse response = Ask(server.port(), MakeRequest("OPTIONS", "/echo", preflight));
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "https://app.example");
  EXPECT_EQ(response.headers.at("access-control-allow-methods"), "OPTIONS, POST");
  EXPECT_EQ(response.headers.at("access-control-allow-headers"), "x-a, content-type");
  EXPECT_EQ(response.headers.at("vary"), "Origin");
  response = Ask(server.port(), MakeRequest("GET", "/nothing", "Origin: https://app.example\r\n"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.headers.at("access-control-allow-origin"), "https://app.example") << "errors must be readable too";
  response = Ask(server.port(), MakeRequest("GET", "/hello", "Origin: https://other.example\r\n"));
  EXPECT_FALSE(response.headers.contains("access-control-allow-origin"));
}

TEST(ServerTest, OpenServersRefuseForeignPagesAndNames) {
  TestServer server;
  ExpectError(Ask(server.port(), MakeRequest("POST", "/echo", "Origin: https://evil.example\r\n", "x")), 403,
              "origin_not_allowed");
  ExpectError(Ask(server.port(), "GET /hello HTTP/1.1\r\nHost: rebound.example:80\r\n\r\n"), 403, "host_not_allowed");
  EXPECT_EQ(server.n_calls(), 0);
  const std::string own = "127.0.0.1:" + std::to_string(server.port());
  const std::string from_own = "Host: " + own + "\r\nOrigin: http://" + own + "\r\n\r\n";
  EXPECT_EQ(Ask(server.port(), "GET /hello HTTP/1.1\r\n" + from_own).status, 200);
  EXPECT_EQ(Ask(server.port(), "GET /hello HTTP/1.1\r\nHost: [::1]:80\r\n\r\n").status, 200);
  EXPECT_EQ(Ask(server.port(), "GET /hello HTTP/1.1\r\nHost: LocalHost\r\n\r\n").status, 200);
}

Result<std::unique_ptr<Server>> StartOn(const std::string& host, int port, observe::Registry& registry) {
  ListenerOptions listener;
  listener.host = host;
  listener.port = port;
  return Server::Start({}, {listener}, {&registry, &Clock::Real(), nullptr, {}});
}

TEST(ServerTest, StartErrorsSayWhatToDo) {
  const auto registry = observe::Registry::Make();
  const auto open = StartOn("0.0.0.0", 0, *registry);
  ASSERT_FALSE(open);
  EXPECT_EQ(open.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(open.error().message(), HasSubstr("API keys"));
  EXPECT_THAT(open.error().message(), HasSubstr("127.0.0.1"));
  EXPECT_EQ(StartOn("127.0.0.1", 70000, *registry).error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(StartOn("no such host", 0, *registry).error().code(), StatusCode::kInvalidArgument);
  TestServer running;
  const auto taken = StartOn("127.0.0.1", running.port(), *registry);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(taken.error().message(), HasSubstr(std::to_string(running.port())));
  ServerOptions options;
  options.limits.header_timeout_ms = 0;
  const auto limits = Server::Start(options, {}, {registry.get(), &Clock::Real(), nullptr, {}});
  EXPECT_THAT(limits.error().message(), HasSubstr("header_timeout_ms is 0"));
  options = {};
  options.cors_origins = {"app.example"};
  EXPECT_THAT(options.Validate().message(), HasSubstr("'app.example' is no origin"));
}

TEST(ServerTest, EachRequestIsALineInTheLogWithoutItsContent) {
  TestServer server;
  const std::string headers = "Connection: close\r\nx-request-id: id-7\r\n";
  (void)Ask(server.port(), MakeRequest("POST", "/echo?secret=query", headers, "secret body"));
  (void)Ask(server.port(), MakeRequest("GET", "/no\x80", "Connection: close\r\n"));
  server.server().Stop(1000);
  const auto lines = server.log_lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_THAT(lines[0], Not(HasSubstr("secret")));
  const auto line = boost::json::parse(lines[0]).as_object();
  EXPECT_EQ(line.at("request_id").as_string(), "id-7");
  EXPECT_EQ(line.at("route").as_string(), "/echo");
  EXPECT_EQ(line.at("status").as_int64(), 200);
  EXPECT_EQ(line.at("body_bytes").as_int64(), 11);
  EXPECT_EQ(line.at("outcome").as_string(), "complete");
  EXPECT_EQ(line.at("listener").as_string(), "api");
  EXPECT_EQ(line.at("remote").as_string(), "127.0.0.1");
  EXPECT_EQ(line.at("time").as_string().size(), 24U);
  EXPECT_EQ(boost::json::parse(lines[1]).at("status").as_int64(), 404);
  EXPECT_EQ(boost::json::parse(lines[1]).at("path").as_string(), "/no?") << "valid JSON whatever was asked for";
}

TEST(ServerTest, MetricsCountRequestsConnectionsAndBytes) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("POST", "/echo", "", "12345")));
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/none/1") + MakeRequest("GET", "/none/2")));
  for (int i = 0; i < 3; ++i) (void)client.Read();
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/wait")));
  const auto writer = server.NextWaiting();
  const std::string text = server.metrics().Expose();
  const std::string requests = R"(surety_http_requests_total{listener="api",)";
  EXPECT_THAT(text, HasSubstr(requests + R"(method="POST",route="/echo",status="2xx"} 1)"));
  EXPECT_THAT(text, HasSubstr(requests + R"(method="other",route="unmatched",status="4xx"} 2)"));
  EXPECT_THAT(text, HasSubstr(R"(surety_http_request_body_bytes_total{listener="api"} 5)"));
  EXPECT_THAT(text, HasSubstr(R"(surety_http_requests_in_flight{listener="api"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(surety_http_connections_open{listener="api"} 1)"));
  EXPECT_THAT(text, HasSubstr(R"(surety_http_connections_open{listener="admin"} 0)"));
  EXPECT_THAT(text, HasSubstr("surety_http_request_duration_seconds_count{listener=\"api\","
                              "method=\"POST\",route=\"/echo\"} 1"));
  writer->Send(200, "text/plain", "");
  EXPECT_EQ(client.Read().status, 200);
  client.Close();
  server.server().Stop(1000);
  EXPECT_THAT(server.metrics().Expose(), HasSubstr(R"(surety_http_connections_open{listener="api"} 0)"));
  EXPECT_THAT(server.metrics().Expose(), HasSubstr(R"(surety_http_requests_in_flight{listener="api"} 0)"));
}

}  // namespace
}  // namespace surety::http
