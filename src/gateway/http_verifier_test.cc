#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gateway/strict_json.h"
#include "gateway/verifier_set.h"

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using JudgeSocket = boost::asio::ip::tcp::socket;

// Answers one request after the other with given bytes.
class JudgeServer {
 public:
  explicit JudgeServer(std::string reply, int delay_ms = 0) : reply_(std::move(reply)), delay_ms_(delay_ms) {
    thread_ = std::thread([this] { Serve(); });
  }
  ~JudgeServer() {
    stopping_ = true;
    boost::system::error_code ignored;
    JudgeSocket socket(context_);
    socket.connect(acceptor_.local_endpoint(), ignored);   // wakes accept
    thread_.join();
  }
  std::string url() const { return fmt::format("http://127.0.0.1:{}/judge", acceptor_.local_endpoint().port()); }
  const std::string& request() const { return request_; }   // of the last call, once it is answered

 private:
  void Serve() {
    while (!stopping_) {
      boost::system::error_code ec;
      JudgeSocket socket(context_);
      acceptor_.accept(socket, ec);
      if (ec || stopping_) return;
      boost::asio::streambuf buffer;
      const size_t head = boost::asio::read_until(socket, buffer, "\r\n\r\n", ec);
      std::string all(boost::asio::buffers_begin(buffer.data()), boost::asio::buffers_end(buffer.data()));
      const size_t at = all.find("Content-Length: ");
      const size_t length = at == std::string::npos ? 0 : std::stoul(all.substr(at + 16));
      if (all.size() < head + length) {
        boost::asio::read(socket, buffer, boost::asio::transfer_exactly(head + length - all.size()), ec);
      }
      all.assign(boost::asio::buffers_begin(buffer.data()), boost::asio::buffers_end(buffer.data()));
      request_ = all;
      for (int waited = 0; waited < delay_ms_ && !stopping_; waited += 5) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      boost::asio::write(socket, boost::asio::buffer(reply_), ec);
    }
  }

  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_, {boost::asio::ip::make_address("127.0.0.1"), 0}};
  std::string reply_, request_;
  int delay_ms_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

std::string JudgeReply(std::string_view body, int status = 200) {
  return fmt::format("HTTP/1.1 {} X\r\nContent-Length: {}\r\n\r\n{}", status, body.size(), body);
}

VerifierSpec JudgeSpec(const std::string& url, int64_t deadline_ns = 5'000'000'000) {
  VerifierSpec spec;
  spec.name = "judge";
  spec.kind = VerifierSpec::Kind::kHttp;
  spec.url = url;
  spec.deadline_ns = deadline_ns;
  return spec;
}

Verdict AskJudge(const std::string& reply) {
  const JudgeServer server(reply);
  const auto verifier = MakeVerifier(JudgeSpec(server.url()), ".", Clock::Real());
  EXPECT_TRUE(verifier.has_value());
  return (*verifier)->Check(AnswerText(), Evidence(), Clock::Real().NowNanos() + 5'000'000'000);
}

TEST(HttpVerifierTest, TakesVerdictsOfTheClosedFormAlone) {
  EXPECT_EQ(AskJudge(JudgeReply(R"({"verdict":"pass","reason":""})")).outcome, Verdict::Outcome::kPass);
  EXPECT_EQ(AskJudge(JudgeReply(" {\"reason\":\"ok\",\n\"verdict\":\"pass\"}\n")).outcome, Verdict::Outcome::kPass);
  const Verdict failed = AskJudge(JudgeReply(R"({"verdict":"fail","reason":"not\nentailed"})"));
  EXPECT_EQ(failed.outcome, Verdict::Outcome::kFail);
  EXPECT_EQ(failed.reason, "not entailed");
  for (const char* body : {
           "The answer is safe.", "pass", "\"pass\"", "", "{}", "[]", "null", R"({"verdict":"pass"})",
           R"({"verdict":"safe","reason":""})", R"({"verdict":"PASS","reason":""})", R"({"verdict":true,"reason":""})",
           R"({"verdict":"pass","reason":null})", R"({"verdict":"pass","reason":"","score":1})",
           R"({"verdict":"fail","reason":"","verdict":"pass"})", R"({"verdict":"pass","reason":""} Hope this helps!)",
           "```json\n{\"verdict\":\"pass\",\"reason\":\"\"}\n```", R"({"verdict":"pass","reason":")",
           R"([{"verdict":"pass","reason":""}])", "{\"verdict\":\"pass\",\"reason\":\"\xFF\"}"}) {
    EXPECT_EQ(AskJudge(JudgeReply(body)).outcome, Verdict::Outcome::kError) << body;
  }
}

TEST(HttpVerifierTest, OtherStatusesAndBrokenAnswersAreErrors) {
  const std::string pass = R"({"verdict":"pass","reason":""})";
  for (const int status : {201, 204, 301, 404, 429, 500, 503}) {
    const Verdict verdict = AskJudge(JudgeReply(status == 204 ? "" : pass, status));
    EXPECT_EQ(verdict.outcome, Verdict::Outcome::kError) << status;
  }
  const std::string whole = JudgeReply(pass);
  for (size_t n = 0; n < whole.size(); ++n) {   // the connection ends after any byte
    ASSERT_EQ(AskJudge(whole.substr(0, n)).outcome, Verdict::Outcome::kError) << n;
  }
  EXPECT_EQ(AskJudge(JudgeReply(R"({"verdict":"fail","reason":")" + std::string(50'000, 'x') + "\"}")).outcome,
            Verdict::Outcome::kError);
  EXPECT_EQ(AskJudge(JudgeReply(R"({"verdict":"fail","reason":")" + std::string(5'000, 'x') + "\"}")).outcome,
            Verdict::Outcome::kError);
}

TEST(HttpVerifierTest, SendsAnswerAndEvidence) {
  AnswerText answer;
  answer.text = "the \"text\"";
  answer.calls = {{"send", "{}"}};
  Evidence evidence;
  evidence.passages.resize(1);
  evidence.passages[0].text = "passage";
  evidence.facts["product"] = "card";
  const JudgeServer server(JudgeReply(R"({"verdict":"pass","reason":""})"));
  const auto verifier = MakeVerifier(JudgeSpec(server.url()), ".", Clock::Real());
  const int64_t deadline_ns = Clock::Real().NowNanos() + 5'000'000'000;
  ASSERT_EQ((*verifier)->Check(answer, evidence, deadline_ns).outcome, Verdict::Outcome::kPass);
  const std::string& request = server.request();
  EXPECT_THAT(request, ::testing::StartsWith("POST /judge HTTP/1.1\r\n"));
  const auto body = ParseStrictJson(request.substr(request.find("\r\n\r\n") + 4));
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(body->at("answer").at("text").as_string(), "the \"text\"");
  EXPECT_EQ(body->at("answer").at("calls").at(0).at("name").as_string(), "send");
  EXPECT_EQ(body->at("evidence").at("passages").at(0).at("text").as_string(), "passage");
  EXPECT_EQ(body->at("evidence").at("facts").at("product").as_string(), "card");
}

TEST(HttpVerifierTest, ALateJudgeOrNoneIsAnError) {
  Policy policy;
  const JudgeServer server(JudgeReply(R"({"verdict":"pass","reason":""})"), 400);
  policy.verifiers["judge"] = JudgeSpec(server.url(), 80'000'000);
  policy.verifiers["gone"] = JudgeSpec("http://127.0.0.1:1/", 2'000'000'000);
  policy.verifiers["gone"].name = "gone";
  auto set = VerifierSet::Make(policy, ".", Clock::Real());
  ASSERT_TRUE(set.has_value());
  const Judgement judgement =
      (*set)->Judge({"judge", "gone"}, std::make_shared<AnswerText>(), std::make_shared<Evidence>(), false);
  EXPECT_EQ(judgement.action, Judgement::Action::kReview);
  for (const Verdict& verdict : judgement.verdicts) EXPECT_EQ(verdict.outcome, Verdict::Outcome::kError);
}

TEST(HttpVerifierTest, StopGivesACallUp) {
  const JudgeServer server(JudgeReply(R"({"verdict":"pass","reason":""})"), 60'000);
  const auto verifier = MakeVerifier(JudgeSpec(server.url()), ".", Clock::Real());
  std::thread stopper([&verifier] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    (*verifier)->Stop();
  });
  const auto begin = std::chrono::steady_clock::now();
  const Verdict verdict = (*verifier)->Check(AnswerText(), Evidence(), Clock::Real().NowNanos() + 50'000'000'000);
  stopper.join();
  EXPECT_EQ(verdict.outcome, Verdict::Outcome::kError);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(HttpVerifierTest, AWrongAddressIsRefused) {
  const auto made = MakeVerifier(JudgeSpec("ftp://x"), ".", Clock::Real());
  ASSERT_FALSE(made.has_value());
  EXPECT_THAT(made.error().message(), HasSubstr("verifier 'judge': url"));
}

}  // namespace
}  // namespace surety::gateway
