#include "observe/otlp_http.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

namespace surety::observe {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Accepts one connection after the other, reads one request from each and answers with the next of its texts; an empty
// text: it closes without an answer. The last text is "hang" for one that says nothing until the client has left.
class RawCollector {
 public:
  explicit RawCollector(std::vector<std::string> answers)
      : acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), answers_(std::move(answers)) {
    thread_ = std::thread([this] {
      for (const std::string& answer : answers_) Serve(answer);
    });
  }
  ~RawCollector() { thread_.join(); }

  std::string Url() { return "http://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  std::vector<std::string> requests() {  // after all answers
    thread_.join();
    thread_ = std::thread([] {});
    return requests_;
  }

 private:
  void Serve(const std::string& answer) {
    tcp::socket socket = acceptor_.accept();
    std::string request;
    boost::system::error_code error;
    const size_t head = asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n", error);
    const size_t at = request.find("Content-Length: ");
    const size_t length = at == std::string::npos ? 0 : std::stoul(request.substr(at + 16));
    if (request.size() < head + length) {
      asio::read(socket, asio::dynamic_buffer(request), asio::transfer_exactly(head + length - request.size()), error);
    }
    requests_.push_back(request);
    if (answer == "hang") {
      asio::read(socket, asio::dynamic_buffer(request), error);
    } else {
      asio::write(socket, asio::buffer(answer), error);
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  const std::vector<std::string> answers_;
  std::vector<std::string> requests_;
  std::thread thread_;
};

std::unique_ptr<SpanTransport> TransportTo(const std::string& url, const char* headers = "") {
  return MakeOtlpTransport(*ParseOtlpEndpoint(url, false), *ParseOtlpHeaders(headers), "surety/test");
}

TEST(OtlpTransportTest, PostsJsonAndReadsTheAnswer) {
  RawCollector collector({"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
                          "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"});
  const auto transport = TransportTo(collector.Url(), "authorization=Bearer%20x,x-team=a");
  const SpanTransport::Reply ok = transport->Post("{\"a\":1}", 5000);
  EXPECT_EQ(ok.status, 200);
  EXPECT_EQ(ok.body, "{}");
  EXPECT_LT(ok.retry_after_s, 0);
  const SpanTransport::Reply busy = transport->Post("{}", 5000);
  EXPECT_EQ(busy.status, 503);
  EXPECT_EQ(busy.retry_after_s, 7);
  const auto requests = collector.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_TRUE(requests[0].starts_with("POST /v1/traces HTTP/1.1\r\n")) << requests[0];
  for (const char* part : {"\r\nContent-Type: application/json\r\n", "\r\nauthorization: Bearer x\r\n",
                           "\r\nx-team: a\r\n", "\r\nHost: 127.0.0.1:", "\r\nUser-Agent: surety/test\r\n",
                           "\r\n\r\n{\"a\":1}"}) {
    EXPECT_NE(requests[0].find(part), std::string::npos) << part << " in " << requests[0];
  }
}

TEST(OtlpTransportTest, WithoutAnAnswerItSaysWhy) {
  std::string url;
  {
    RawCollector collector({"", "HTTP/1.1 200 OK\r\nContent-Len", "no http at all"});
    url = collector.Url();
    const auto transport = TransportTo(url);
    for (int i = 0; i < 3; ++i) {
      const SpanTransport::Reply reply = transport->Post("{}", 5000);
      EXPECT_EQ(reply.status, 0) << i;
      EXPECT_NE(reply.problem, "") << i;
    }
  }
  const SpanTransport::Reply reply = TransportTo(url)->Post("{}", 5000);  // nobody listens any more
  EXPECT_EQ(reply.status, 0);
  EXPECT_NE(reply.problem.find("cannot connect to 127.0.0.1"), std::string::npos) << reply.problem;
}

TEST(OtlpTransportTest, ACollectorThatHangsIsLeftInTime) {
  RawCollector collector({"hang", "hang"});
  const auto transport = TransportTo(collector.Url());
  EXPECT_EQ(transport->Post("{}", 50).problem, "no answer in time");
  const auto begin = std::chrono::steady_clock::now();
  std::thread abort([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    transport->Abort();
  });
  EXPECT_EQ(transport->Post("{}", 60'000).problem, "given up");
  abort.join();
  EXPECT_EQ(transport->Post("{}", 60'000).problem, "given up");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST(OtlpEndpointTest, ReadsAddresses) {
  const auto plain = ParseOtlpEndpoint("http://collector:4318", false);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->host, "collector");
  EXPECT_EQ(plain->port, "4318");
  EXPECT_EQ(plain->path, "/v1/traces");
  EXPECT_EQ(ParseOtlpEndpoint("http://collector:4318/", false)->path, "/v1/traces");
  EXPECT_EQ(ParseOtlpEndpoint("http://collector/base/", false)->path, "/base/v1/traces");
  EXPECT_EQ(ParseOtlpEndpoint("http://collector/base/", false)->port, "80");
  EXPECT_EQ(ParseOtlpEndpoint("http://collector:1/own/path", true)->path, "/own/path");
  EXPECT_EQ(ParseOtlpEndpoint("http://collector:1", true)->path, "/");
  const auto six = ParseOtlpEndpoint("http://[::1]:4318", false);
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->authority, "[::1]:4318");
  for (const char* bad : {"", "collector:4318", "https://collector", "http://", "http://:4318", "http://a:",
                          "http://a:0", "http://a:65536", "http://a:x", "http://a b", "http://user@a", "http://[::1",
                          "http://a?b", "http://a\r\nb"}) {
    EXPECT_FALSE(ParseOtlpEndpoint(bad, false)) << bad;
  }
}

TEST(OtlpHeadersTest, ReadsNamesAndEncodedValues) {
  const auto headers = ParseOtlpHeaders("authorization=Basic%20YTpi%3D, x-team = a=b ,,empty=");
  ASSERT_TRUE(headers);
  EXPECT_EQ(*headers, (OtlpHeaders{{"authorization", "Basic YTpi="}, {"x-team", "a=b"}, {"empty", ""}}));
  EXPECT_TRUE(ParseOtlpHeaders("")->empty());
  for (const char* bad : {"a", "=b", "a b=c", "a=%", "a=%4", "a=%zz", "a=%0d%0aB:c", "a:b=c"}) {
    EXPECT_FALSE(ParseOtlpHeaders(bad)) << bad;
  }
  EXPECT_EQ(ParseOtlpHeaders("a=%zzsecret").error().message().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace surety::observe
