// What HTTP makes of a governed answer that is kept back or has no room.
#include <string>

#include <gtest/gtest.h>

#include "http/openai_exchange.h"
#include "http/testing/openai_rig.h"

namespace surety::http {
namespace {

using namespace testing;  // NOLINT: the rig's words
using api::FinishReason;

api::Event Decided(api::Event event) {
  api::Decision decision;
  decision.id = "dec_1";
  decision.draft = true;
  event.decision = std::make_shared<const api::Decision>(std::move(decision));
  return event;
}

TEST(GovernedAnswerTest, AResponseThatWasKeptBackDoesNotRepeatItsDraft) {
  const auto last_of = [](FinishReason finish, Status error) {
    ApiRig rig;
    api::Event end = Decided(End(finish));
    end.error = std::move(error);
    rig.backend->scripts = {{Text("we guarantee"), end}};
    const auto record = rig.Post("/v1/responses", R"({"input":"hi","stream":true})");
    bool done;
    return Chunks(record->body, done).back();
  };
  const auto kept = last_of(FinishReason::kFiltered, {});
  EXPECT_EQ(kept.at("type"), "response.failed");
  EXPECT_EQ(kept.at("response").at("error").at("code"), "content_filter");
  EXPECT_TRUE(kept.at("response").at("output").as_array().empty());
  EXPECT_EQ(boost::json::serialize(kept).find("guarantee"), std::string::npos);
  const auto broken = last_of(FinishReason::kError, InternalError("lost"));   // the control
  EXPECT_EQ(broken.at("response").at("error").at("code"), "internal_error");
  EXPECT_EQ(broken.at("response").at("output").as_array().size(), 1u);
}

TEST(GovernedAnswerTest, AContextOverItsBudgetIs413) {
  const auto status_of = [](api::Event event) {
    ApiRig rig;
    event.error = OutOfRangeError("the question needs 9000 tokens, but the context has room for 7680");
    rig.backend->scripts = {{event}};
    const auto record = rig.Post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}]})");
    EXPECT_EQ(record->Json().at("error").at("type"), "invalid_request_error");
    return record->status;
  };
  EXPECT_EQ(status_of(Decided(End(FinishReason::kError))), 413);
  EXPECT_EQ(status_of(End(FinishReason::kError)), 400);   // of a model that is not governed: as before
}

}  // namespace
}  // namespace surety::http
