#include "gateway/review_service.h"

#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gateway/testing/review_cases.h"

namespace surety::gateway {
namespace {

namespace json = boost::json;

class ReviewServiceTest : public testing::Test {
 protected:
  ReviewServiceTest()
      : store_(ReviewStore::Open(":memory:", ReviewTestQueues(), clock_).value()),
        service_(*store_, ReviewTestQueues(),
                 {[this](const Ticket& ticket) { return may_approve_ ? may_approve_(ticket) : OkStatus(); },
                  [this](const Ticket& ticket) -> json::object {
                    EXPECT_EQ(store_->GetForDecision(ticket.decision).value().state, ticket.state);  // durable by then
                    decided_.push_back(ticket);
                    return {{"state", "noted"}};
                  }}) {}

  // As over HTTP: there and back through the paths.
  Result<json::object> Do(const std::string& who, const std::string& action, json::object arguments = {}) {
    const ReviewRequest request = ReviewRequestOf({action, std::move(arguments)});
    SURETY_ASSIGN_OR_RETURN(const ReviewCall call, ReviewCallOf(request.method, request.target, request.body));
    EXPECT_EQ(call.action, action);
    return service_.Handle(ReviewPerson(who), call.action, call.arguments);
  }
  Status Refusal(const std::string& action, json::object arguments) {
    const auto answer = service_.Handle(ReviewPerson("ann"), action, arguments);
    EXPECT_FALSE(answer) << action;
    return answer ? OkStatus() : answer.error();
  }

  ReviewTestClock clock_;
  std::unique_ptr<ReviewStore> store_;
  std::vector<Ticket> decided_;
  std::function<Status(const Ticket&)> may_approve_;
  ReviewService service_;
};

TEST_F(ReviewServiceTest, ATicketFromListToDecision) {
  const Ticket made = store_->Create(ReviewDraft("dec_1", "pair")).value();
  const auto list = Do("ann", "list", {{"queue", "pair"}, {"state", "open"}, {"limit", 5}}).value();
  EXPECT_EQ(list.at("object"), "list");
  const json::object entry = list.at("data").at(0).as_object();
  EXPECT_EQ(entry.at("id"), json::value(made.id));
  EXPECT_EQ(entry.at("approvals_required"), 2);
  EXPECT_FALSE(entry.contains("text"));
  auto t = Do("ann", "lease", {{"queue", "pair"}}).value();
  EXPECT_EQ(t.at("leased_by"), "ann");
  EXPECT_EQ(t.at("context"), json::value(made.context));
  t = Do("ann", "edit", {{"id", made.id}, {"version", t.at("version")}, {"text", "Better."}}).value();
  t = Do("ann", "release", {{"id", made.id}, {"version", t.at("version")}}).value();
  EXPECT_TRUE(t.at("leased_by").is_null());
  for (const char* who : {"bob", "cleo"}) {
    EXPECT_EQ(decided_.size(), 0u);
    t = Do(who, "lease", {{"id", made.id}, {"version", t.at("version")}}).value();
    t = Do(who, "approve", {{"id", made.id}, {"version", t.at("version")}, {"reason_code", "ok"}}).value();
  }
  EXPECT_EQ(t.at("state"), "approved");
  EXPECT_EQ(t.at("text"), "Better.");
  ASSERT_EQ(decided_.size(), 1u);
  EXPECT_EQ(decided_[0].text, "Better.");
  EXPECT_EQ(t.at("release").at("state"), "noted");
  t.erase("release");
  EXPECT_EQ(Do("ann", "get", {{"id", made.id}}).value(), t);
  EXPECT_EQ(Do("ann", "stats").value().at("queues").at("pair").at("approved"), 1);
  const Ticket second = store_->Create(ReviewDraft("dec_2")).value();
  t = Do("bob", "lease", {{"id", second.id}, {"version", 1}}).value();
  t = Do("bob", "reject", {{"id", second.id}, {"version", 2}, {"reason_code", "no"}, {"reason", nullptr}}).value();
  ASSERT_EQ(decided_.size(), 2u);
  EXPECT_EQ(decided_[1].state, TicketState::kRejected);
}

TEST_F(ReviewServiceTest, ArgumentsAreStrict) {
  const auto said = [&](const std::string& action, json::object arguments, const std::string& part) {
    const Status status = Refusal(action, std::move(arguments));
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status.message();
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  const std::string id = "rev_" + std::string(32, '0');
  said("aprove", {}, "'approve'");
  said("approve", {{"id", id}, {"version", 1}, {"reson", "x"}}, "'reason'");
  said("approve", {{"id", id}}, "'version' is missing");
  said("approve", {{"id", id}, {"version", nullptr}}, "'version' is missing");
  said("get", {{"id", 7}}, "must be a string");
  for (const json::value& version : {json::value(0), json::value(-1), json::value(1.5), json::value("1"),
                                     json::value(true), json::value(1e30)}) {
    said("release", {{"id", id}, {"version", version}}, "whole number");
  }
  said("lease", {}, "'queue'");
  said("lease", {{"id", id}}, "'version'");
  said("lease", {{"queue", "plain"}, {"id", id}, {"version", 1}}, "'queue'");
  said("list", {{"state", "aproved"}}, "'approved'");
  said("list", {{"limit", 1001}}, "1000");
  said("list", {{"limit", int64_t{1} << 40}}, "1000");
  said("list", {{"queue", "plian"}}, "'plain'");
  said("stats", {{"queue", "plain"}}, "unknown member");
  EXPECT_EQ(Refusal("get", {{"id", id}}).code(), StatusCode::kNotFound);
}

TEST(ReviewPathsTest, EveryActionHasOnePath) {
  const std::vector<ReviewCall> calls = {
      {"list", {}}, {"list", {{"queue", "a b&c=d%+\xc3\xbc"}, {"state", "open"}, {"limit", 7}}},
      {"get", {{"id", "rev_1/?#%"}}}, {"lease", {{"queue", "q"}}}, {"lease", {{"id", "x"}, {"version", 3}}},
      {"release", {{"id", "x"}, {"version", 3}}}, {"edit", {{"id", "x"}, {"version", 3}, {"text", "t"}}},
      {"approve", {{"id", "x"}, {"version", 3}}}, {"reject", {{"id", "x"}, {"version", 3}}}, {"stats", {}}};
  std::set<std::string> seen;
  for (const ReviewCall& call : calls) {
    const ReviewRequest request = ReviewRequestOf(call);
    seen.insert(request.method + " " + request.target.substr(0, request.target.find('?')));
    const auto back = ReviewCallOf(request.method, request.target, request.body);
    ASSERT_TRUE(back) << back.error().message();
    EXPECT_EQ(back->action, call.action);
    EXPECT_EQ(back->arguments, call.arguments) << request.target;
    const auto other = ReviewCallOf(request.method == "GET" ? "POST" : "GET", request.target, request.body);
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code(), StatusCode::kUnimplemented);
  }
  EXPECT_TRUE(seen.contains("GET /v1/review/tickets"));
  EXPECT_TRUE(seen.contains("POST /v1/review/lease"));
  EXPECT_TRUE(seen.contains("POST /v1/review/tickets/x/lease"));
  EXPECT_TRUE(seen.contains("POST /v1/review/tickets/x/approve"));
  EXPECT_TRUE(seen.contains("GET /v1/review/stats"));
}

TEST(ReviewPathsTest, OtherPathsAreNone) {
  for (const char* path : {"/v1/review", "/v1/review/", "/v1/review/tickets/", "/v1/review/tickets/x/", "/v1/reviews",
                           "/v1/review/tickets/x/y", "/v1/review/tickets/x/approve/y", "/v1/review/tickets/%zz",
                           "/v1/review/tickets/%4", "/v1/review/lease/x", "", "/"}) {
    for (const char* method : {"GET", "POST"}) {
      const auto call = ReviewCallOf(method, path, {});
      ASSERT_FALSE(call) << path;
      EXPECT_EQ(call.error().code(), StatusCode::kNotFound) << path;
    }
  }
  EXPECT_FALSE(ReviewCallOf("POST", "/v1/review/tickets/x/edit", {{"id", "y"}}));   // which one?
  EXPECT_FALSE(ReviewCallOf("GET", "/v1/review/tickets?limit=1&limit=2", {}));
  EXPECT_FALSE(ReviewCallOf("GET", "/v1/review/tickets?queue=%z", {}));
  EXPECT_EQ(ReviewCallOf("GET", "/v1/review/tickets?limit=07x", {}).value().arguments.at("limit"), "07x");
}

}  // namespace
}  // namespace surety::gateway
