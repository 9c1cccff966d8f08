#include "http/ops_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include <atomic>

#include "http/server.h"
#include "http/testing/raw_client.h"

namespace surety::http {
namespace {

TEST(OpsRoutesTest, HealthFollowsTheBackendAndMetricsAreExposed) {
  const auto registry = observe::Registry::Make();
  std::atomic<api::Health> health = api::Health::kStarting;
  std::vector<std::string> alarms;  // set between requests
  ListenerOptions listener;
  listener.routes = OpsRoutes(
      {[&] { return health.load(); }, registry.get(), "1.2.3", Role::kUser, [&] { return alarms; }});
  auto server = Server::Start({}, {listener}, {registry.get(), &Clock::Real(), nullptr, {}});
  ASSERT_TRUE(server) << server.error().message();
  RawClient client((*server)->port("api"));
  const auto ask = [&](const std::string& path) {
    EXPECT_TRUE(client.Send(MakeRequest("GET", path)));
    return client.Read();
  };
  for (const std::string path : {"/health", "/health/ready", "/healthz", "/readyz"}) {
    for (const auto state :
         {api::Health::kStarting, api::Health::kStalled, api::Health::kDraining, api::Health::kStopped}) {
      health = state;
      const RawResponse response = ask(path);
      EXPECT_EQ(response.status, 503) << path;
      EXPECT_EQ(response.headers.at("retry-after"), "1");
      const auto body = boost::json::parse(response.body);
      EXPECT_EQ(body.at("status").as_string(), api::NameOf(state));
      EXPECT_FALSE(body.at("error").at("message").as_string().empty());
      EXPECT_EQ(ask("/health/live").status, 200);
    }
    health = api::Health::kReady;
    EXPECT_EQ(ask(path).body, R"({"status":"ok"})");
  }
  alarms = {"cross_partition_hits"};
  EXPECT_EQ(ask("/readyz").body, R"({"status":"ok","alarms":["cross_partition_hits"]})");
  EXPECT_EQ(ask("/livez").status, 200);
  EXPECT_EQ(ask("/version").body, R"({"version":"1.2.3"})");
  const RawResponse metrics = ask("/metrics");
  EXPECT_EQ(metrics.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_THAT(metrics.body, ::testing::HasSubstr("# TYPE surety_http_requests_total counter"));
  (*server)->Stop(100);
}

}  // namespace
}  // namespace surety::http
