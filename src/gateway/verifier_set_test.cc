#include "gateway/verifier_set.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace surety::gateway {
namespace {

using ::testing::HasSubstr;
using Outcome = Verdict::Outcome;
using Action = Judgement::Action;
constexpr int64_t kMillisecond = 1'000'000;

// Answers with what it is given.
class ScriptedVerifier : public Verifier {
 public:
  using Script = std::function<Verdict(const AnswerText&, const Evidence&)>;
  ScriptedVerifier(VerifierSpec spec, Script script) : spec_(std::move(spec)), script_(std::move(script)) {}
  const VerifierSpec& spec() const override { return spec_; }
  std::string version() const override { return "7"; }
  Verdict Check(const AnswerText& answer, const Evidence& evidence, int64_t) const override {
    return script_(answer, evidence);
  }
  void Stop() override { ++stops; }
  static inline std::atomic<int> stops{0};

 private:
  VerifierSpec spec_;
  Script script_;
};

Verdict Says(Outcome outcome) {
  Verdict verdict;
  verdict.outcome = outcome;
  return verdict;
}

VerifierSpec SetSpec(std::string name, int64_t deadline_ns = 5'000 * kMillisecond) {
  VerifierSpec spec;
  spec.name = std::move(name);
  spec.deadline_ns = deadline_ns;
  return spec;
}

std::unique_ptr<Verifier> Scripted(VerifierSpec spec, ScriptedVerifier::Script script) {
  return std::make_unique<ScriptedVerifier>(std::move(spec), std::move(script));
}
std::unique_ptr<Verifier> Passing(const std::string& name) {
  return Scripted(SetSpec(name), [](const auto&, const auto&) { return Says(Outcome::kPass); });
}

template <typename... Verifiers>
std::unique_ptr<VerifierSet> SetOf(VerifierSetOptions options, Verifiers... verifiers) {
  std::vector<std::unique_ptr<Verifier>> all;
  (all.push_back(std::move(verifiers)), ...);
  return MakeVerifierSet(std::move(all), Clock::Real(), options);
}

Judgement JudgeOnce(VerifierSet& set, const std::vector<std::string>& names, bool open_allowed = false) {
  return set.Judge(names, std::make_shared<AnswerText>(), std::make_shared<Evidence>(), open_allowed);
}

// Checks wait in it until it opens.
class Gate {
 public:
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  void WaitFor(int n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, n] { return waiting_ >= n; });
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waiting_ = 0;
};

TEST(VerifierSetTest, AllPassedIsReleased) {
  const auto set = SetOf({}, Passing("a"), Passing("b"));
  const Judgement judgement = JudgeOnce(*set, {"b", "a"});
  EXPECT_EQ(judgement.action, Action::kRelease);
  ASSERT_EQ(judgement.verdicts.size(), 2u);
  EXPECT_EQ(judgement.verdicts[0].verifier, "b");
  EXPECT_EQ(judgement.verdicts[0].version, "7");
  EXPECT_EQ(judgement.verdicts[0].outcome, Outcome::kPass);
  EXPECT_EQ(set->Versions({"b", "a"}), "b@7, a@7");
}

TEST(VerifierSetTest, TheStrictestActionWins) {
  const VerifierSpec::Action actions[] = {VerifierSpec::Action::kRepair, VerifierSpec::Action::kReview,
                                          VerifierSpec::Action::kBlock};
  const Action expected[] = {Action::kRepair, Action::kReview, Action::kBlock};
  for (int first = 0; first < 3; ++first) {
    for (int second = 0; second < 3; ++second) {
      std::vector<std::unique_ptr<Verifier>> all;
      for (const int which : {first, second}) {
        VerifierSpec spec = SetSpec(all.empty() ? "a" : "b");
        spec.fail = actions[which];
        all.push_back(Scripted(spec, [](const auto&, const auto&) { return Says(Outcome::kFail); }));
      }
      all.push_back(Passing("c"));
      const auto set = MakeVerifierSet(std::move(all), Clock::Real());
      const Judgement judgement = JudgeOnce(*set, {"a", "c", "b"});
      EXPECT_EQ(judgement.action, expected[std::max(first, second)]);
      EXPECT_EQ(judgement.verifier, second > first ? "b" : "a");
      EXPECT_EQ(judgement.reason, "no reason given");
    }
  }
}

TEST(VerifierSetTest, CrashesAndGarbageAreErrors) {
  const auto set = SetOf(
      {}, Scripted(SetSpec("crash"), [](const auto&, const auto&) -> Verdict {
        const std::runtime_error boom("boom");
        throw boom;
      }),
      Scripted(SetSpec("odd crash"), [](const auto&, const auto&) -> Verdict { throw 5; }),
      Scripted(SetSpec("garbage"), [](const auto&, const auto&) { return Says(static_cast<Outcome>(9)); }),
      Scripted(SetSpec("contradiction"), [](const auto&, const auto&) {
        Verdict verdict = Says(Outcome::kPass);
        verdict.findings.push_back({"a fault", "text", 0, 0});
        return verdict;
      }),
      Passing("fine"));
  for (const char* name : {"crash", "odd crash", "garbage", "contradiction"}) {
    const Judgement judgement = JudgeOnce(*set, {"fine", name});
    EXPECT_EQ(judgement.action, Action::kReview) << name;     // the spec's action on errors
    EXPECT_EQ(judgement.verifier, name);
    EXPECT_EQ(judgement.verdicts[1].outcome, Outcome::kError) << name;
    EXPECT_FALSE(judgement.reason.empty());
    EXPECT_EQ(judgement.verdicts[0].outcome, Outcome::kPass);
  }
  EXPECT_THAT(JudgeOnce(*set, {"crash"}).reason, HasSubstr("boom"));
  EXPECT_EQ(JudgeOnce(*set, {"unknown"}).action, Action::kBlock);
}

TEST(VerifierSetTest, OpenOnErrorCountsOnlyWhereItIsAllowed) {
  VerifierSpec spec = SetSpec("open");
  spec.open_on_error = true;
  spec.error = VerifierSpec::Action::kBlock;
  std::atomic<int> outcome{2};
  const auto set = SetOf({}, Scripted(spec, [&outcome](const auto&, const auto&) {
    return Says(static_cast<Outcome>(outcome.load()));
  }));
  EXPECT_EQ(JudgeOnce(*set, {"open"}, true).action, Action::kRelease);
  EXPECT_EQ(JudgeOnce(*set, {"open"}, false).action, Action::kBlock);
  outcome = 1;   // a failure is no error
  EXPECT_EQ(JudgeOnce(*set, {"open"}, true).action, Action::kBlock);
}

TEST(VerifierSetTest, ALateOneHoldsNobodyUpAndKeepsWhatItReads) {
  Gate gate;
  std::atomic<bool> read{false};
  auto set = SetOf({}, Scripted(SetSpec("slow", 60 * kMillisecond),
                                [&](const AnswerText& answer, const Evidence& evidence) {
                                  gate.Pass();
                                  read = answer.text == "kept" && evidence.retrieval_snapshot == "kept too";
                                  return Says(Outcome::kPass);
                                }),
                   Passing("quick"));
  auto answer = std::make_shared<AnswerText>();
  answer->text = "kept";
  auto evidence = std::make_shared<Evidence>();
  evidence->retrieval_snapshot = "kept too";
  const std::weak_ptr<AnswerText> watched = answer;
  const Judgement judgement = set->Judge({"slow", "quick"}, std::move(answer), std::move(evidence), false);
  EXPECT_EQ(judgement.action, Action::kReview);
  EXPECT_EQ(judgement.verdicts[0].outcome, Outcome::kError);
  EXPECT_THAT(judgement.verdicts[0].reason, HasSubstr("late"));
  EXPECT_GE(judgement.verdicts[0].duration_ns, 60 * kMillisecond);
  EXPECT_EQ(judgement.verdicts[1].outcome, Outcome::kPass);
  EXPECT_FALSE(watched.expired());
  gate.Open();
  set.reset();   // waits for it
  EXPECT_TRUE(read);
  EXPECT_TRUE(watched.expired());
}

TEST(VerifierSetTest, WhereAllThreadsAreStuckOthersFailAtTheirDeadlines) {
  Gate gate;
  VerifierSetOptions options;
  options.threads = 2;
  const auto set = SetOf(options, Scripted(SetSpec("stuck", 30 * kMillisecond), [&gate](const auto&, const auto&) {
    gate.Pass();
    return Says(Outcome::kPass);
  }), Scripted(SetSpec("quick", 50 * kMillisecond), [](const auto&, const auto&) { return Says(Outcome::kPass); }));
  EXPECT_EQ(JudgeOnce(*set, {"stuck", "stuck"}).action, Action::kReview);
  gate.WaitFor(2);
  const Judgement judgement = JudgeOnce(*set, {"quick"});
  EXPECT_EQ(judgement.action, Action::kReview);
  EXPECT_THAT(judgement.reason, HasSubstr("late"));
  gate.Open();
  // The control: with free threads the same one passes.
  EXPECT_EQ(JudgeOnce(*set, {"quick"}).action, Action::kRelease);
}

// Short answers are checked on the caller's thread, with the same rules; services and long answers are not.
TEST(VerifierSetTest, ShortAnswersAreCheckedHere) {
  VerifierSetOptions options;
  options.here_bytes = 100;
  std::mutex mutex;
  std::map<std::string, std::thread::id> ran;
  const auto note = [&](const char* name) {
    return [&, name](const auto&, const auto&) {
      const std::lock_guard lock(mutex);
      ran[name] = std::this_thread::get_id();
      return Says(Outcome::kPass);
    };
  };
  VerifierSpec service = SetSpec("service");
  service.kind = VerifierSpec::Kind::kHttp;
  VerifierSpec schema = SetSpec("schema");
  schema.kind = VerifierSpec::Kind::kSchema;
  const auto set = SetOf(options, Scripted(SetSpec("quick"), note("quick")), Scripted(service, note("service")),
                         Scripted(schema, note("schema")),
                         Scripted(SetSpec("slow", 20 * kMillisecond), [](const auto&, const auto&) {
                           std::this_thread::sleep_for(std::chrono::milliseconds(40));
                           return Says(Outcome::kPass);
                         }));
  // Services and schemas never.
  const auto judge = [&](std::vector<std::string> names, size_t bytes) {
    return set->JudgeUntil(names, std::make_shared<AnswerText>(AnswerText{std::string(bytes, 'x'), {}, {}}),
                           std::make_shared<Evidence>(), false, std::numeric_limits<int64_t>::max());
  };
  EXPECT_EQ(judge({"quick", "service", "schema"}, 99).action, Action::kRelease);
  EXPECT_NE(ran["schema"], std::this_thread::get_id());
  EXPECT_EQ(ran["quick"], std::this_thread::get_id());
  EXPECT_NE(ran["service"], std::this_thread::get_id());
  EXPECT_EQ(judge({"quick"}, 100).action, Action::kRelease);
  EXPECT_NE(ran["quick"], std::this_thread::get_id());
  const Judgement late = judge({"quick", "slow"}, 5);
  EXPECT_EQ(late.action, Action::kReview);
  EXPECT_THAT(late.reason, HasSubstr("late"));
}

TEST(VerifierSetTest, AFullQueueIsAnErrorAtOnce) {
  Gate gate;
  VerifierSetOptions options;
  options.threads = 1;
  options.max_waiting = 1;
  const auto set = SetOf(options, Scripted(SetSpec("stuck"), [&gate](const auto&, const auto&) {
    gate.Pass();
    return Says(Outcome::kPass);
  }), Passing("b"), Passing("c"));
  std::thread first([&] { EXPECT_EQ(JudgeOnce(*set, {"stuck"}).action, Action::kRelease); });
  gate.WaitFor(1);
  std::thread opener([&gate] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    gate.Open();
  });
  const Judgement judgement = JudgeOnce(*set, {"b", "c"});
  EXPECT_EQ(judgement.verdicts[0].outcome, Outcome::kPass);
  EXPECT_THAT(judgement.verdicts[1].reason, HasSubstr("too many"));
  first.join();
  opener.join();
}

TEST(VerifierSetTest, ASlowServiceDoesNotHoldUpPureChecks) {
  Gate gate;
  VerifierSpec service = SetSpec("judge", 50 * kMillisecond);
  service.kind = VerifierSpec::Kind::kHttp;
  VerifierSetOptions options;
  options.threads = 1;
  options.service_threads = 1;
  ScriptedVerifier::stops = 0;
  auto set = SetOf(options, Scripted(service, [&gate](const auto&, const auto&) {
    gate.Pass();
    return Says(Outcome::kPass);
  }), Passing("pure"));
  EXPECT_EQ(JudgeOnce(*set, {"judge"}).action, Action::kReview);
  EXPECT_EQ(JudgeOnce(*set, {"pure"}).action, Action::kRelease);
  gate.Open();
  set.reset();
  EXPECT_EQ(ScriptedVerifier::stops, 2);
}

TEST(VerifierSetTest, ManyCallersGetTheirOwnVerdicts) {
  const auto set = SetOf({}, Scripted(SetSpec("echo"), [](const AnswerText& answer, const auto&) {
    Verdict verdict = Says(answer.text.empty() ? Outcome::kPass : Outcome::kFail);
    verdict.reason = answer.text;
    return verdict;
  }), Passing("b"));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    callers.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        auto answer = std::make_shared<AnswerText>();
        answer->text = i % 3 == 0 ? "" : std::to_string(t * 1000 + i);
        const std::string expected = answer->text;
        const Judgement judgement = set->Judge({"echo", "b"}, std::move(answer), std::make_shared<Evidence>(), false);
        if (judgement.reason != expected) ++wrong;
        if ((judgement.action == Action::kRelease) != expected.empty()) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(VerifierSetTest, MakeTakesThePolicysVerifiersAndNamesTheWrongOne) {
  Policy policy;
  VerifierSpec spec = SetSpec("promises");
  spec.phrases = {"we guarantee"};
  policy.verifiers["promises"] = spec;
  const auto set = VerifierSet::Make(policy, ".", Clock::Real());
  ASSERT_TRUE(set.has_value());
  auto answer = std::make_shared<AnswerText>();
  answer->text = "We guarantee it.";
  EXPECT_EQ((*set)->Judge({"promises"}, answer, std::make_shared<Evidence>(), false).action, Action::kBlock);
  EXPECT_EQ(JudgeOnce(**set, {"promises"}).action, Action::kRelease);
  EXPECT_THAT((*set)->Versions({"promises"}), ::testing::MatchesRegex("promises@1:[0-9a-f]+"));
  policy.verifiers["promises"].phrases.clear();
  EXPECT_THAT(VerifierSet::Make(policy, ".", Clock::Real()).error().message(), HasSubstr("verifier 'promises'"));
}

TEST(VerifierSetTest, TenKilobytesAreCheckedInTime) {
  Policy policy;
  const auto add = [&policy](const char* name, VerifierSpec::Kind kind) -> VerifierSpec& {
    VerifierSpec spec = SetSpec(name);
    spec.kind = kind;
    return policy.verifiers[name] = spec;
  };
  add("citations", VerifierSpec::Kind::kCitations);
  add("numbers", VerifierSpec::Kind::kNumbers);
  add("pii", VerifierSpec::Kind::kPii);
  add("codes", VerifierSpec::Kind::kTable).table = "tables/nacha_return_codes.json";
  VerifierSpec& phrases = add("promises", VerifierSpec::Kind::kPhrases);
  for (int i = 0; i < 200; ++i) phrases.phrases.push_back("we promise outcome number" + std::to_string(i));
  phrases.patterns = {R"(\bwe (?:will|shall) waive\b)", R"(\brisk[ -]?free\b)"};
  const auto set = VerifierSet::Make(policy, std::string(SURETY_TESTDATA) + "/../policies", Clock::Real());
  ASSERT_TRUE(set.has_value()) << set.error().ToString();
  auto evidence = std::make_shared<Evidence>();
  auto answer = std::make_shared<AnswerText>();
  for (int i = 0; i < 8; ++i) {
    Passage passage;
    passage.document = "fees", passage.chunk = std::to_string(i), passage.version = "1";
    for (int line = 0; line < 40; ++line) {
      passage.text += "Clause " + std::to_string(i) + ": the fee for service " + std::to_string(line) +
                      " is $35.00 an item. ";
    }
    evidence->passages.push_back(passage);
  }
  for (int i = 0; answer->text.size() < 10'000; ++i) {
    answer->text += "The fee for service " + std::to_string(i % 40) +
                    " is $35, with **no** other cost. [fees:3@1 \"fee for service " +
                    std::to_string(i % 40) + " is $35.00 an item\"]\n";
  }
  std::vector<std::string> names;
  for (const auto& [name, spec] : policy.verifiers) names.push_back(name);
  Judgement judgement;
  for (int i = 0; i < 3; ++i) judgement = (*set)->Judge(names, answer, evidence, false);
  EXPECT_EQ(judgement.action, Action::kRelease) << judgement.verifier << ": " << judgement.reason;
  for (const std::string& name : names) {
    const int64_t begin_ns = Clock::Real().NowNanos();
    EXPECT_EQ((*set)->Judge({name}, answer, evidence, false).verdicts[0].outcome, Outcome::kPass);
    const auto microseconds = static_cast<int>((Clock::Real().NowNanos() - begin_ns) / 1000);
    RecordProperty(name + "_us", microseconds);
    std::printf("10 kB, %s: %d microseconds\n", name.c_str(), microseconds);
    EXPECT_LT(microseconds, 5'000'000);
  }
}

}  // namespace
}  // namespace surety::gateway
