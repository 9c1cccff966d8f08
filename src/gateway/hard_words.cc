#include "gateway/hard_words.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace surety::gateway::hard {
namespace {

using HardWordSet = std::unordered_set<std::string_view>;

// Splits a literal, which lives for ever, at spaces.
std::vector<std::string_view> HardWordsOf(std::string_view list) {
  std::vector<std::string_view> words;
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    if (end > 0) words.push_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return words;
}

HardWordSet HardWordSetOf(std::string_view list) {
  const auto words = HardWordsOf(list);
  return {words.begin(), words.end()};
}

// Each line: the fact, then the words that state it.
constexpr std::string_view kHardEqualFacts[] = {
    "second seconds", "minute minutes", "hour hours hourly", "day days daily", "week weeks weekly",
    "month months monthly", "quarter quarters quarterly", "year years yearly annual annually", "decade decades",
    "today tonight", "tomorrow", "yesterday", "weekend weekends", "holiday holidays", "now currently",
    "monday mondays", "tuesday tuesdays", "wednesday wednesdays", "thursday thursdays", "friday fridays",
    "saturday saturdays", "sunday sundays", "january", "february", "april", "june", "july", "august", "september",
    "october", "november", "december",
    "> over above exceeding exceed exceeds exceeded more greater higher larger",
    "< under below less fewer lower smaller",
    ">= least minimum min", "<= most maximum max", "before until till prior ahead", "after since following afterwards",
    "during", "between", "except excluding besides unless", "only solely exclusively", "all every each always",
    "some sometimes", "both", "either", "once", "twice", "half", "double", "triple", "dozen",
    "usd dollar dollars", "eur euro euros", "gbp pound pounds sterling", "jpy yen", "chf franc francs",
    "cent cents penny pence", "bp bps", "instead rather", "against", "if",
    "still", "already", "again", "yet", "joint jointly", "self",
};

// Each entry: the poles of one group, parted by '|'.
constexpr std::string_view kHardRivalGroups[] = {
    "credit credits credited|debit debits debited|prepaid",
    "checking current|savings saving|brokerage|deposit",
    "deposit deposits deposited|withdraw withdraws withdrawal withdrawals withdrawing withdrawn",
    "send sends sent sending outgoing outbound|receive receives received receiving incoming inbound",
    "sender payer debtor|recipient payee beneficiary creditor",
    "lend lends lent lending lender|borrow borrows borrowed borrowing borrower",
    "buy buys bought buying purchase purchases purchased|sell sells sold selling sale",
    "open opens opened opening|close closes closed closing closure",
    "add adds added adding|remove removes removed removing delete deletes deleted deleting",
    "activate activates activated activation|deactivate deactivates deactivated deactivation",
    "enable enables enabled enabling|disable disables disabled disabling",
    "start starts started starting begin begins|stop stops stopped stopping end ends ended ending|continue",
    "increase increases increased increasing raise raises raised rise rises|"
    "decrease decreases decreased decreasing reduce reduces reduced lower lowers fall falls",
    "approve approves approved approval accept accepts accepted|"
    "decline declines declined reject rejects rejected refuse refused deny denied denial",
    "block blocks blocked blocking|unblock unblocks unblocked unblocking",
    "freeze freezes froze frozen freezing|unfreeze unfreezes unfrozen thaw",
    "lock locks locked locking|unlock unlocks unlocked unlocking",
    "lost lose losing missing|found find",
    "domestic local national|international foreign abroad overseas cross-border",
    "fixed|variable adjustable floating", "early earlier earliest|late later latest", "old former|new",
    "first|last final", "high higher highest|low lower lowest", "long longer longest|short shorter shortest",
    "large larger largest big bigger biggest|small smaller smallest", "fast faster fastest|slow slower slowest",
    "cheap cheaper cheapest|expensive dearer dearest", "best better|worst worse", "personal private|business corporate",
    "gross|net", "principal|interest", "income earnings|expense expenses spending", "profit gain gains|loss losses",
    "asset assets|liability liabilities", "taxable|exempt", "buyer|seller merchant", "employer|employee",
    "landlord|tenant", "husband|wife", "mother|father", "primary|secondary", "upgrade upgraded|downgrade downgraded",
    "in|out", "on|off", "up|down", "online|branch offline person",
    "wire wires|ach|sepa|zelle|venmo|paypal|cheque cheques",
    "visa|mastercard|amex", "mortgage mortgages|heloc|auto|student", "when|why|where|who whom whose",
    "much many|long|often|far|soon", "can could may might allowed permitted|must required obliged mandatory",
    "i me my mine myself we us our ours|he she him her his hers they them their theirs someone somebody anyone anybody",
    "legal lawful|illegal unlawful", "refund refunds refunded|charge charges charged", "win won|lose lost",
    "pass passed|fail failed fails failing", "true|false", "yes|no", "public|confidential", "temporary|permanent",
    "opt-in|opt-out", "male man men|female woman women", "adult adults|minor minors child children",
};

struct HardNumber {
  std::string_view word;
  NumberWord number;
};
constexpr std::string_view kHardNumbers[] = {
    "zero", "one",    "two",    "three",    "four",     "five",    "six",     "seven",     "eight",    "nine",
    "ten",  "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::string_view kHardOrdinals[] = {
    "zeroth",  "first",      "secondly",   "third",     "fourth",    "fifth",       "sixth",
    "seventh", "eighth",     "ninth",      "tenth",     "eleventh",  "twelfth",     "thirteenth",
    "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"};
constexpr std::string_view kHardTens[] = {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr HardNumber kHardScales[] = {{"hundred", {100, true, false}},         {"thousand", {1000, true, false}},
                                  {"million", {1'000'000, true, false}},   {"millions", {1'000'000, true, false}},
                                  {"hundreds", {100, true, false}},        {"thousands", {1000, true, false}},
                                  {"billion", {1'000'000'000, true, false}}};

std::unordered_map<std::string_view, std::string_view> MakeEqualFacts() {
  std::unordered_map<std::string_view, std::string_view> facts;
  for (const std::string_view line : kHardEqualFacts) {
    const auto words = HardWordsOf(line);
    for (const std::string_view word : words) facts.emplace(word, words[0]);
  }
  return facts;
}

std::unordered_map<std::string_view, std::vector<Rival>> MakeRivals() {
  std::unordered_map<std::string_view, std::vector<Rival>> rivals;
  int group = 0;
  for (std::string_view line : kHardRivalGroups) {
    uint32_t pole = 1;
    while (!line.empty()) {
      const size_t end = std::min(line.find('|'), line.size());
      for (const std::string_view word : HardWordsOf(line.substr(0, end))) rivals[word].push_back({group, pole});
      line.remove_prefix(std::min(end + 1, line.size()));
      pole *= 2;
    }
    ++group;
  }
  return rivals;
}

std::unordered_map<std::string_view, NumberWord> MakeNumberWords() {
  std::unordered_map<std::string_view, NumberWord> words;
  for (int64_t i = 0; i < 20; ++i) {
    words[kHardNumbers[i]] = {i, false, false};
    words[kHardOrdinals[i]] = {i, false, true};
  }
  for (int64_t i = 0; i < 8; ++i) words[kHardTens[i]] = {20 + 10 * i, false, false};
  for (const auto& [word, number] : kHardScales) words[word] = number;
  return words;
}

}  // namespace

static_assert(std::size(kHardRivalGroups) <= kMaxRivalGroups);

bool IsNegation(std::string_view word) {
  static const HardWordSet kWords = HardWordSetOf(
      "no not non never none nothing nobody nowhere neither nor without cannot cant dont wont isnt arent doesnt didnt "
      "havent hasnt hadnt wasnt werent couldnt shouldnt wouldnt mustnt aint nope hardly barely lacking lack lacks "
      "nunca sin ninguno ninguna tampoco nadie nada jam\u00e1s ne pas sans jamais aucun aucune rien "
      "nicht kein keine keinen keinem keiner ohne nie niemals nichts");
  return kWords.contains(word) || word.ends_with("n't");
}

bool IsFunctionWord(std::string_view word) {
  static const HardWordSet kWords = HardWordSetOf(
      "a an the this that these those of for with by at as to into onto is are was were be been being am do does did "
      "done doing have has had having will would shall should can could may might must and or but so then there here "
      "it its itself you your yours yourself i me my mine myself we us our ours he she him her his hers they them "
      "their theirs what which how who whom whose when where why please kindly just also too very really about i'm "
      "i'd i've i'll what's how's it's that's there's let's in on up out off from");
  return kWords.contains(word);
}

bool IsOpeningWord(std::string_view word) {
  static const HardWordSet kWords = HardWordSetOf(
      "tell show explain give help send transfer move open close pay change reset block cancel list compare describe "
      "find get let make need want report request order replace activate update add remove stop start calculate check "
      "confirm define summarise summarize hello hi hey dear thanks thank good okay ok yes name say see use withdraw "
      "deposit lock unlock freeze unblock increase decrease raise lower reduce");
  return kWords.contains(word);
}

std::optional<std::string_view> EqualFactOf(std::string_view word) {
  static const auto kFacts = MakeEqualFacts();
  const auto found = kFacts.find(word);
  if (found == kFacts.end()) return std::nullopt;
  return found->second;
}

std::span<const Rival> RivalsOf(std::string_view word) {
  static const auto kRivals = MakeRivals();
  const auto found = kRivals.find(word);
  if (found == kRivals.end()) return {};
  return found->second;
}

std::optional<NumberWord> NumberWordOf(std::string_view word) {
  static const auto kWords = MakeNumberWords();
  const auto found = kWords.find(word);
  if (found == kWords.end()) return std::nullopt;
  return found->second;
}

}  // namespace surety::gateway::hard
