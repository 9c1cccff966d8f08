#include "cli/review_session.h"

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "cli/review_client.h"
#include "gateway/review_store.h"

namespace surety::cli {
namespace {

namespace json = boost::json;
namespace beast = boost::beast;

std::map<std::string, gateway::ReviewQueueSpec> DeskQueues() {
  std::map<std::string, gateway::ReviewQueueSpec> queues;
  queues["plain"] = {};
  queues["pair"].approvals = 2;
  return queues;
}

// A store, its service, and a person at a desk with a list of things to type.
class ReviewSessionTest : public testing::Test {
 protected:
  ReviewSessionTest()
      : store_(gateway::ReviewStore::Open(":memory:", DeskQueues(), Clock::Real()).value()),
        service_(*store_, DeskQueues()) {}

  std::string Add(const std::string& question, const std::string& queue = "plain", const std::string& by = "author") {
    gateway::Ticket ticket;
    ticket.decision = "dec_" + question;
    ticket.queue = queue;
    ticket.tenant = "acme";
    ticket.subject = by;
    ticket.question = question;
    ticket.draft = "Draft of " + question;
    ticket.context = {{"verdicts", json::array{"citations: pass"}}};
    return store_->Create(ticket).value().id;
  }
  Result<json::object> Serve(const std::string& who, const gateway::ReviewCall& call) {
    const gateway::ReviewRequest request = gateway::ReviewRequestOf(call);
    SURETY_ASSIGN_OR_RETURN(const auto read, gateway::ReviewCallOf(request.method, request.target, request.body));
    return service_.Handle({who, {}, "acme"}, read.action, read.arguments);
  }
  Status Sit(const std::string& who, std::deque<std::string> typed, const std::string& queue = "") {
    ReviewDesk desk;
    desk.call = [&](const gateway::ReviewCall& call) { return Serve(who, call); };
    desk.print = [&](std::string_view text) { printed_ += text; };
    desk.ask = [&](std::string_view) -> std::optional<std::string> {
      if (typed.empty()) return std::nullopt;
      std::string line = typed.front();
      typed.pop_front();
      return line;
    };
    desk.edit = [&](const std::string& text) -> Result<std::string> { return text + " (edited)"; };
    ReviewSession session(desk, queue);
    const Status status = session.Run();
    n_decided_ = session.n_decided();
    return status;
  }
  gateway::Ticket Now(const std::string& id) { return store_->Get({"op", {}, "*"}, id).value(); }

  std::unique_ptr<gateway::ReviewStore> store_;
  gateway::ReviewService service_;
  std::string printed_;
  int n_decided_ = 0;
};

TEST_F(ReviewSessionTest, ApprovesRejectsAndSkipsOneAfterTheOther) {
  const std::string a = Add("1"), b = Add("2"), c = Add("3");
  ASSERT_TRUE(Sit("ann", {"a", "correct", "", "s", "r", "wrong", "Not so."}).ok());
  EXPECT_EQ(Now(a).state, gateway::TicketState::kApproved);
  EXPECT_EQ(Now(b).state, gateway::TicketState::kOpen);
  EXPECT_EQ(Now(b).leased_by, "");  // skipped: free for others
  EXPECT_EQ(Now(c).state, gateway::TicketState::kRejected);
  EXPECT_EQ(Now(c).reason, "Not so.");
  EXPECT_EQ(n_decided_, 2);
  EXPECT_NE(printed_.find("Draft of 1"), std::string::npos);
  EXPECT_NE(printed_.find("citations: pass"), std::string::npos);
  EXPECT_NE(printed_.find("No other ticket"), std::string::npos);
}

TEST_F(ReviewSessionTest, AnEditorCannotApproveAndTheNextPersonCan) {
  const std::string id = Add("1");
  ASSERT_TRUE(Sit("ann", {"e", "a", "correct", "", "q"}).ok());
  EXPECT_NE(printed_.find("refused: ann edited"), std::string::npos) << printed_;
  EXPECT_EQ(Now(id).leased_by, "");
  ASSERT_TRUE(Sit("bob", {"a", "correct", ""}).ok());
  EXPECT_EQ(Now(id).state, gateway::TicketState::kApproved);
  EXPECT_EQ(Now(id).text, "Draft of 1 (edited)");
}

TEST_F(ReviewSessionTest, OneOfTwoApprovalsIsNotOfferedAgain) {
  const std::string id = Add("1", "pair");
  ASSERT_TRUE(Sit("ann", {"a", "correct", ""}).ok());
  EXPECT_EQ(Now(id).approvers.size(), 1u);
  EXPECT_EQ(n_decided_, 0);
  EXPECT_NE(printed_.find("another person"), std::string::npos);
}

TEST_F(ReviewSessionTest, OnesOwnRequestIsPassedOver) {
  Add("1", "plain", "ann");
  const std::string other = Add("2");
  ASSERT_TRUE(Sit("ann", {"a", "correct", ""}).ok());
  EXPECT_EQ(Now(other).state, gateway::TicketState::kApproved);
}

TEST_F(ReviewSessionTest, TheEndOfInputReleases) {
  const std::string id = Add("1");
  ASSERT_TRUE(Sit("ann", {"a", "correct"}).ok());
  EXPECT_EQ(Now(id).state, gateway::TicketState::kOpen);
  EXPECT_EQ(Now(id).leased_by, "");
  EXPECT_TRUE(Sit("ann", {"x", "", "q"}, "plain").ok());
  EXPECT_FALSE(Sit("ann", {}, "plane").ok());
}

TEST(ReviewViewTest, WhatDeceivesIsShown) {
  EXPECT_EQ(VisibleText("plain \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\n\ttext"),
            "plain \xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\n\ttext");
  EXPECT_EQ(VisibleText("a\x1b[2Kb\rc\x7f"), "a\\x1b[2Kb\\x0dc\\x7f");
  EXPECT_EQ(VisibleText("pay \xe2\x80\xae" "001"), "pay <U+202E>001");
  EXPECT_EQ(VisibleText("a\xe2\x80\x8b" "b\xc2\x9b" "c"), "a<U+200B>b<U+009B>c");
  EXPECT_EQ(VisibleText("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(VisibleText(std::string("a\0b", 3)), "a\\x00b");
  const json::object ticket{{"id", "rev_1"}, {"question", "q\x1b]0;x\x07"}, {"draft", "d\x1b" "d"}, {"text", "t\x1bt"},
                            {"queue", "q\x1b"}, {"subject", "s\x1b"}, {"approvers", json::array{"p\x1b"}},
                            {"context", {{"k\x1b", json::array{"v\x1b", json::object{{"n", "w\x1b"}}}}}}};
  EXPECT_EQ(TicketDocument(ticket).find('\x1b'), std::string::npos);
  EXPECT_EQ(TicketLine(ticket).find('\x1b'), std::string::npos);
  EXPECT_NE(TicketDocument(ticket).find("t\\x1bt"), std::string::npos);
}

TEST(ReviewEditorTest, TheEditorsTextComesBackAndNothingStays) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("surety-editor-{}", getpid());
  std::filesystem::create_directory(folder);
  setenv("TMPDIR", folder.c_str(), 1);
  unsetenv("VISUAL");
  setenv("EDITOR", "sed -i s/old/new/", 1);  // with an argument, as users set it
  EXPECT_EQ(EditInEditor("an old text").value(), "an new text");
  setenv("EDITOR", "echo >>", 1);  // ends the file with a newline that nobody wrote
  EXPECT_EQ(EditInEditor("text").value(), "text");
  EXPECT_EQ(EditInEditor("text\n").value(), "text\n\n");
  setenv("EDITOR", "sh -c 'cp \"$1\" \"$1~\"; mkdir \"$1.d\"; cp \"$1\" \"$1.d/swap\"' sh", 1);  // leaves backups
  EXPECT_EQ(EditInEditor("text").value(), "text");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  setenv("EDITOR", "false", 1);
  EXPECT_FALSE(EditInEditor("text"));
  unsetenv("EDITOR");
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

// One request, one answer, over a socket.
TEST(ReviewClientTest, SpeaksHttp) {
  namespace http = beast::http;
  using boost::asio::ip::tcp;
  boost::asio::io_context io;
  tcp::acceptor acceptor(io, {boost::asio::ip::make_address("127.0.0.1"), 0});
  http::request<http::string_body> seen;
  const auto answer = [&](http::status status, std::string body) {
    return std::thread([&, status, body = std::move(body)] {
      tcp::socket socket = acceptor.accept();
      beast::flat_buffer buffer;
      seen = {};
      http::read(socket, buffer, seen);
      http::response<http::string_body> response(status, 11, body);
      response.set(http::field::connection, "close");
      response.prepare_payload();
      http::write(socket, response);
    });
  };
  const ReviewClient client(fmt::format("http://127.0.0.1:{}/", acceptor.local_endpoint().port()), "key-1");
  std::thread server = answer(http::status::ok, "{\"id\":\"rev_1\"}");
  const auto good = client.Call({"approve", {{"id", "rev_1"}, {"version", 3}}});
  server.join();
  EXPECT_EQ(good.value().at("id"), "rev_1");
  EXPECT_EQ(seen.target(), "/v1/review/tickets/rev_1/approve");
  EXPECT_EQ(seen[http::field::authorization], "Bearer key-1");
  EXPECT_EQ(json::parse(seen.body()), json::parse("{\"version\":3}"));
  server = answer(http::status::conflict, "{\"error\":{\"message\":\"changed\\u001b\"}}");
  const auto refused = client.Call({"get", {{"id", "rev_1"}}});
  server.join();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(refused.error().message(), "changed\\x1b");
  server = answer(http::status::ok, "no json");
  EXPECT_FALSE(client.Call({"stats", {}}));
  server.join();
}

}  // namespace
}  // namespace surety::cli
