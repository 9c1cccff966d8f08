// Clients that are slow, greedy, gone or many: what the server gives up on, and that nobody else notices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <boost/json.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "http/server.h"
#include "http/testing/raw_client.h"
#include "http/testing/test_server.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kInstrumented = true;
#else
constexpr bool kInstrumented = false;
#endif

namespace surety::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

int64_t MsSince(steady_clock::time_point start) {
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start).count();
}

// Resident pages of this process.
int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TestServer::Options WithLimits(const std::function<void(ServerLimits&)>& change) {
  TestServer::Options options;
  change(options.server.limits);
  return options;
}

TEST(ServerLimitsTest, BodiesOverTheLimitGet413WhetherCountedOrChunked) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.max_body_bytes = 2000; }));
  RawClient exact(server.port());
  ASSERT_TRUE(exact.Send(MakeRequest("POST", "/echo", "", std::string(2000, 'x'))));
  EXPECT_EQ(exact.Read().body.size(), 2000U);
  RawClient counted(server.port());
  ASSERT_TRUE(counted.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2001\r\n\r\n"));
  EXPECT_EQ(counted.Read().status, 413) << "known from the head alone";
  EXPECT_TRUE(counted.AtEnd(3000));
  RawClient chunked(server.port());
  std::string request = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i) request += "80\r\n" + std::string(128, 'x') + "\r\n";
  ASSERT_TRUE(chunked.Send(request));
  const RawResponse response = chunked.Read();
  EXPECT_EQ(response.status, 413);
  EXPECT_THAT(response.body, ::testing::HasSubstr("request_too_large"));
  EXPECT_EQ(server.n_calls(), 1);
}

TEST(ServerLimitsTest, AnAnswerBeforeTheWholeBodyReachesTheClient) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.max_body_bytes = 2000; }));
  RawClient client(server.port());
  // The client sends everything before it reads; a connection that was just closed would reset it.
  (void)client.Send(MakeRequest("POST", "/echo", "", std::string(3 << 20, 'x')));
  EXPECT_EQ(client.Read().status, 413);
}

TEST(ServerLimitsTest, HeadsOverTheLimitGet431) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.max_header_bytes = 2048; }));
  const auto status_of = [&](const std::string& request) {
    RawClient client(server.port());
    EXPECT_TRUE(client.Send(request));
    return client.Read().status;
  };
  EXPECT_EQ(status_of(MakeRequest("GET", "/hello", "x-long: " + std::string(1800, 'a') + "\r\n")), 200);
  EXPECT_EQ(status_of(MakeRequest("GET", "/hello", "x-long: " + std::string(3000, 'a') + "\r\n")), 431);
  EXPECT_EQ(status_of("GET /" + std::string(4000, 'a')), 431);
  std::string many;
  for (int i = 0; i < 60; ++i) many += "x-" + std::to_string(i) + ": " + std::string(40, 'a') + "\r\n";
  EXPECT_EQ(status_of(MakeRequest("GET", "/hello", many)), 431) << "each field is short, the sum is not";
  std::string fields;
  for (int i = 0; i < 120; ++i) fields += "x:y\r\n";
  EXPECT_EQ(status_of(MakeRequest("GET", "/hello", fields)), 431) << "too many fields";
}

TEST(ServerLimitsTest, ChunkOverheadWithoutEndIsRefused) {
  TestServer server;
  RawClient client(server.port());
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  ASSERT_TRUE(client.Send(head + "1;" + std::string(20'000, 'x')));
  EXPECT_EQ(client.Read().status, 431);
}

TEST(ServerLimitsTest, ConnectionsOverTheLimitGet503) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.max_connections = 3; }));
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(clients.back()->Send(MakeRequest("GET", "/hello")));
    EXPECT_EQ(clients.back()->Read().status, 200);
  }
  RawClient refused(server.port());
  const RawResponse response = refused.Read();
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.at("retry-after"), "1");
  EXPECT_THAT(response.body, ::testing::HasSubstr("too_many_connections"));
  EXPECT_TRUE(refused.AtEnd(3000));
  refused.Close();
  clients.pop_back();
  for (int i = 0; i < 200 && server.server().n_connections() > 2; ++i) std::this_thread::sleep_for(milliseconds(5));
  RawClient again(server.port());
  ASSERT_TRUE(again.Send(MakeRequest("GET", "/hello")));
  EXPECT_EQ(again.Read().status, 200);
}

TEST(ServerLimitsTest, ManyLongBodiesAtOnceGet503BeforeMemoryRunsOut) {
  TestServer server(WithLimits([](ServerLimits& limits) {
    limits.max_buffered_body_bytes = limits.max_body_bytes = 100'000;
  }));
  RawClient first(server.port());
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 80000\r\n\r\n";
  ASSERT_TRUE(first.Send(head + std::string(79'999, 'x')));
  RawClient second(server.port());
  RawResponse response;
  ASSERT_TRUE(second.Send(head + std::string(79'999, 'x')));
  response = second.Read();
  EXPECT_EQ(response.status, 503);
  ASSERT_TRUE(first.Send("x"));
  EXPECT_EQ(first.Read().body.size(), 80'000U);
  RawClient third(server.port());  // what was held has been given back
  ASSERT_TRUE(third.Send(head + std::string(80'000, 'x')));
  EXPECT_EQ(third.Read().status, 200);
}

TEST(ServerLimitsTest, SlowLorisGets408AndEveryoneElseIsServed) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.header_timeout_ms = 300; }));
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    ASSERT_TRUE(slow.back()->Send("GET /hello HTTP/1.1\r\nHost: localhost\r\n"));
  }
  const auto start = steady_clock::now();
  // A byte now and then buys no time.
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(30));
    for (auto& client : slow) (void)client->Send("x");
    RawClient good(server.port());
    ASSERT_TRUE(good.Send(MakeRequest("GET", "/hello")));
    EXPECT_EQ(good.Read().status, 200);
  }
  for (auto& client : slow) EXPECT_EQ(client->Read().status, 408);
  EXPECT_LT(MsSince(start), 3000);
  RawClient silent(server.port());  // not a byte: closed without a word
  EXPECT_TRUE(silent.AtEnd(3000));
}

TEST(ServerLimitsTest, BodiesThatDoNotComeGet408) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.body_timeout_ms = 150; }));
  RawClient client(server.port());
  ASSERT_TRUE(client.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n123"));
  EXPECT_EQ(client.Read().status, 408);
  EXPECT_TRUE(client.AtEnd(3000));
}

TEST(ServerLimitsTest, IdleConnectionsAreClosedAndStreamsAreNot) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.idle_timeout_ms = limits.write_timeout_ms = 150; }));
  RawClient stream(server.port()), idle(server.port());
  ASSERT_TRUE(stream.Send(MakeRequest("GET", "/idle")));
  const auto writer = server.NextWaiting();
  ASSERT_TRUE(idle.Send(MakeRequest("GET", "/hello")));
  EXPECT_EQ(idle.Read().status, 200);
  const auto start = steady_clock::now();
  EXPECT_TRUE(idle.AtEnd(3000));
  EXPECT_GE(MsSince(start), 100);
  std::this_thread::sleep_for(milliseconds(200));
  EXPECT_TRUE(writer->Write("data: still here\n\n"));
  writer->FinishStream();
  EXPECT_THAT(stream.Read().body, ::testing::HasSubstr("still here"));
}

TEST(ServerLimitsTest, AClientThatLeavesIsNoticedWithinMilliseconds) {
  TestServer server;
  for (const std::string path : {"/wait", "/idle"}) {
    for (const bool reset : {false, true}) {
      RawClient client(server.port());
      ASSERT_TRUE(client.Send(MakeRequest("GET", path)));
      const auto writer = server.NextWaiting();
      if (path == "/idle") {
        ASSERT_TRUE(client.ReadUntil("first", 3000));
      }
      const int before = server.n_disconnects();
      const auto start = steady_clock::now();
      reset ? client.Reset() : client.Close();
      ASSERT_TRUE(server.WaitForDisconnects(before + 1, 5000)) << path;
      EXPECT_LT(MsSince(start), 1000);
      EXPECT_FALSE(writer->Write("into the void"));
      bool called = false;
      writer->OnDisconnect([&] { called = true; });
      EXPECT_TRUE(called) << "at once, if the client has left already";
      writer->FinishStream();
    }
  }
  EXPECT_EQ(server.n_disconnects(), 4);
}

TEST(ServerLimitsTest, AClientThatSendsAheadAndLeavesIsNoticed) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/wait") + MakeRequest("GET", "/hello")));
  const auto writer = server.NextWaiting();
  client.Close();
  EXPECT_TRUE(server.WaitForDisconnects(1, 5000));
  EXPECT_EQ(server.n_calls(), 1);
}

TEST(ServerLimitsTest, NoDisconnectIsReportedForAnAnswerThatIsComplete) {
  TestServer server;
  RawClient client(server.port());
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/wait")));
  server.NextWaiting()->Send(200, "text/plain", "done");
  EXPECT_EQ(client.Read().body, "done");
  client.Close();
  for (int i = 0; i < 200 && server.server().n_connections() > 0; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(server.n_disconnects(), 0);
}

TEST(ServerLimitsTest, AReaderThatDoesNotReadIsCutOffAndNeverBlocksTheWriter) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.max_stream_buffer_bytes = 64 << 10; }));
  RawClient client(server.port());
  client.SetReceiveBuffer(4096);
  ASSERT_TRUE(client.Send(MakeRequest("GET", "/idle")));
  const auto writer = server.NextWaiting();
  const std::string piece(10'000, 'x');
  int64_t written = 0, slowest_ms = 0;
  bool open = true;
  while (open && written < (256 << 20)) {
    const auto start = steady_clock::now();
    open = writer->Write(piece);
    slowest_ms = std::max(slowest_ms, MsSince(start));
    written += open ? static_cast<int64_t>(piece.size()) : 0;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  EXPECT_FALSE(open);
  EXPECT_LT(slowest_ms, 2000);
  EXPECT_TRUE(server.WaitForDisconnects(1, 5000));
  server.server().Stop(100);
  EXPECT_EQ(boost::json::parse(server.log_lines().front()).at("outcome").as_string(), "too_slow");
}

TEST(ServerLimitsTest, AReaderThatStopsIsClosedAfterTheWriteTimeout) {
  TestServer server(WithLimits([](ServerLimits& limits) { limits.write_timeout_ms = 200; }));
  RawClient client(server.port());
  client.SetReceiveBuffer(4096);
  const std::string body(30 << 20, 'x');  // more than the kernel keeps for a connection
  ASSERT_TRUE(client.Send(MakeRequest("POST", "/echo", "", body)));
  const auto start = steady_clock::now();
  while (server.server().n_connections() > 0 && MsSince(start) < 10'000) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_EQ(server.server().n_connections(), 0);
  EXPECT_LT(MsSince(start), 8'000);
}

TEST(ServerLimitsTest, FiveHundredIdleStreamsAreCheap) {
  TestServer server;
  constexpr int kStreams = 500;
  {  // what the first connections set up for good is not counted
    RawClient warm(server.port());
    ASSERT_TRUE(warm.Send(MakeRequest("GET", "/idle")));
    ASSERT_TRUE(warm.ReadUntil("first", 3000));
    server.NextWaiting()->FinishStream();
  }
  std::vector<std::unique_ptr<RawClient>> clients;
  std::vector<std::shared_ptr<ResponseWriter>> writers;
  clients.reserve(kStreams);
  (void)::malloc_trim(0);  // memory that other tests left free would hide what this one takes
  const int64_t before = ResidentBytes();
  for (int i = 0; i < kStreams; ++i) clients.push_back(std::make_unique<RawClient>(server.port()));
  for (auto& client : clients) {
    ASSERT_TRUE(client->Send(MakeRequest("GET", "/idle", "Authorization: Bearer none\r\nUser-Agent: test\r\n")));
    ASSERT_TRUE(client->ReadUntil("first", 3000));
    writers.push_back(server.NextWaiting());
  }
  const int64_t each = (ResidentBytes() - before) / kStreams;
  RecordProperty("bytes_per_stream", static_cast<int>(each));
  std::cout << "bytes per idle stream, client included: " << each << "\n";
  if (!kInstrumented) {
    EXPECT_LT(each, 20 << 10);
  }
  for (auto& writer : writers) ASSERT_TRUE(writer->Write("data: last\n\n"));
  for (auto& writer : writers) writer->FinishStream();
  for (auto& client : clients) EXPECT_TRUE(client->Read().complete);
  EXPECT_EQ(server.n_disconnects(), 0);
}

TEST(ServerLimitsTest, StopLetsAnswersEndAndRefusesNewConnections) {
  TestServer server;
  const int port = server.port();
  RawClient stream(port), idle(port), half(port);
  ASSERT_TRUE(stream.Send(MakeRequest("GET", "/idle")));
  const auto writer = server.NextWaiting();
  ASSERT_TRUE(idle.Send(MakeRequest("GET", "/hello")));
  EXPECT_EQ(idle.Read().status, 200);
  std::thread stopper([&] { server.server().Stop(10'000); });
  EXPECT_TRUE(idle.AtEnd(3000));
  for (int i = 0; i < 200 && RawClient(port).connected(); ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_FALSE(RawClient(port).connected());
  EXPECT_TRUE(writer->Write("data: end\n\n"));
  writer->FinishStream();
  const RawResponse response = stream.Read();
  EXPECT_TRUE(response.complete);
  EXPECT_THAT(response.body, ::testing::HasSubstr("end"));
  stream.Close();
  stopper.join();
  EXPECT_EQ(server.n_disconnects(), 0);
  EXPECT_EQ(server.server().n_connections(), 0);
}

TEST(ServerLimitsTest, StopCutsWhatRunsOverItsLimitAndLateWritersAreSafe) {
  std::shared_ptr<ResponseWriter> waiting, streaming;
  {
    TestServer server;
    RawClient a(server.port()), b(server.port());
    ASSERT_TRUE(a.Send(MakeRequest("GET", "/wait")));
    waiting = server.NextWaiting();
    ASSERT_TRUE(b.Send(MakeRequest("GET", "/idle")));
    streaming = server.NextWaiting();
    const auto start = steady_clock::now();
    server.server().Stop(100);
    EXPECT_LT(MsSince(start), 3000);
    EXPECT_EQ(server.n_disconnects(), 2);
    EXPECT_EQ(server.server().n_connections(), 0);
    server.server().Stop(100);
  }
  EXPECT_FALSE(streaming->Write("late"));
  streaming->FinishStream();
  waiting->Send(200, "text/plain", "late");
}

TEST(ServerLimitsTest, ManyClientsOfAllKindsAtOnce) {
  TestServer::Options options;
  options.server.io_threads = 3;
  TestServer server(options);
  std::atomic<int> n_good = 0;
  std::atomic<bool> stop = false;
  std::thread engine([&] {  // answers what waits, as an engine's thread would
    while (!stop) {
      (void)RawClient(server.port()).Send(MakeRequest("GET", "/wait"));
      if (const auto writer = server.NextWaiting()) writer->Send(200, "text/plain", "late");
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 60; ++i) {
        RawClient client(server.port());
        switch ((i + t) % 4) {
          case 0: {
            const std::string body(static_cast<size_t>(i) * 997, 'b');
            (void)client.Send(MakeRequest("POST", "/echo", "", body) + MakeRequest("GET", "/stream?n=20"));
            n_good += client.Read().body == body;
            n_good += client.Read().complete;
            break;
          }
          case 1:
            (void)client.Send(MakeRequest("GET", "/stream?n=50"));
            client.Reset();
            break;
          case 2:
            (void)client.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nabc");
            break;
          default:
            (void)client.Send("garbage\r\n\r\n");
            n_good += 2 * (client.Read().status == 400);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  engine.join();
  EXPECT_EQ(n_good, 4 * 60);
}

}  // namespace
}  // namespace surety::http
