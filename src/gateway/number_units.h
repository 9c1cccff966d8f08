// What stands around a number in English: currencies, scales ("5 grand"), and words that turn what is said round
// ("overdrawn by").
//
// Threads: pure functions. `text`: folded (Folding::kPhrase), so lower case.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace surety::gateway {

struct CurrencyName {
  std::string_view text, currency;
};
// Longer ones first where one begins or ends another.
inline constexpr std::array<CurrencyName, 48> kCurrencyNames = {{
    {"us$", "USD"}, {"hk$", "HKD"}, {"nz$", "NZD"}, {"c$", "CAD"}, {"a$", "AUD"}, {"s$", "SGD"}, {"r$", "BRL"},
    {"$", "USD"}, {"\u20AC", "EUR"}, {"\u00A3", "GBP"}, {"\u00A5", "JPY"}, {"\u20B9", "INR"}, {"\u20A9", "KRW"},
    {"usd", "USD"}, {"eur", "EUR"}, {"gbp", "GBP"}, {"jpy", "JPY"}, {"inr", "INR"}, {"cad", "CAD"}, {"aud", "AUD"},
    {"nzd", "NZD"}, {"sgd", "SGD"}, {"hkd", "HKD"}, {"krw", "KRW"}, {"chf", "CHF"}, {"cny", "CNY"}, {"mxn", "MXN"},
    {"brl", "BRL"}, {"sek", "SEK"}, {"nok", "NOK"}, {"dkk", "DKK"}, {"pln", "PLN"}, {"zar", "ZAR"},
    {"dollars", "USD"}, {"dollar", "USD"}, {"bucks", "USD"}, {"euros", "EUR"}, {"euro", "EUR"}, {"pounds", "GBP"},
    {"pound", "GBP"}, {"sterling", "GBP"}, {"quid", "GBP"}, {"yen", "JPY"}, {"rupees", "INR"}, {"rupee", "INR"},
    {"francs", "CHF"}, {"franc", "CHF"}, {"pesos", "MXN"},
}};

struct ScaleWord {
  int places = 0;               // of ten
  size_t length = 0;            // bytes, the space before it too
  bool needs_money = false;     // short for it beside money alone: "$5 m"
  bool is_money = false;        // says money by itself: "5 grand"
};
// At the begin of what follows a number.
std::optional<ScaleWord> ReadScaleWord(std::string_view rest);

// "minus" or "negative" directly before a number, or before its currency: `left` ends where that begins.
bool EndsWithMinusWord(std::string_view left);
// A word by which an amount [begin, end) is one that is owed or missing stands near it in its sentence.
bool SaysOwed(std::string_view text, size_t begin, size_t end);
// Whether SaysOwed can hold anywhere in it.
bool HasOwedWords(std::string_view text);

}  // namespace surety::gateway
