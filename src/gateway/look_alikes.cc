#include "gateway/look_alikes.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace surety::gateway {
namespace {

// Latin character, then all that look like it.
constexpr std::pair<char32_t, std::u32string_view> kLookAlikes[] = {
    {U'a', U"\u0430\u0410\u03B1\u0391\u1D00\u0251\u13AA"},
    {U'b', U"\u0432\u0412\u042C\u044C\u03B2\u0392\u0299\u0184\u0185\u13F4\u0180"},
    {U'c', U"\u0441\u0421\u03F2\u03F9\u1D04\u13DF\u0188"},
    {U'd', U"\u0501\u0500\u1D05\u13A0\u0111\u0110\u0257"},
    {U'e', U"\u0435\u0415\u0454\u0404\u03B5\u0395\u1D07\u0247\u04BD\u13AC\u025B\u0190"},
    {U'f', U"\uA730\u0192\u0191\u03DD\u03DC\u0584"},
    {U'g', U"\u0261\u0262\u0581\u050D\u050C\u01E5\u0260\u13C0"},
    {U'h', U"\u04BB\u04BA\u041D\u043D\u0397\u0570\u029C\u0127\u0126\u13BB\u13C2"},
    {U'i', U"\u0456\u0406\u03B9\u0399\u0131\u026A\u0269\u04C0\u13A5"},
    {U'j', U"\u0458\u0408\u03F3\u037F\u1D0A\u13AB"},
    {U'k', U"\u043A\u041A\u03BA\u039A\u1D0B\u0199\u0198\u13E6"},
    {U'l', U"\u04CF\u029F\u0142\u0141\u019A\u01C0\u2223\u13DE"},
    {U'm', U"\u043C\u041C\u039C\u03FA\u1D0D\u13B7"},
    {U'n', U"\u043F\u041F\u03B7\u039D\u0578\u057C\u0274\u0272\u014B"},
    {U'o', U"\u043E\u041E\u03BF\u039F\u03C3\u0585\u0555\u1D0F\u00F8\u00D8\u0275\u0473\u03B8\u0398"},
    {U'p', U"\u0440\u0420\u03C1\u03A1\u1D18\u01A5\u13E2"},
    {U'q', U"\u051B\u051A\u0566\u01EB\uA757"},
    {U'r', U"\u0433\u0413\u0280\u13A1\u027C\u024D"},
    {U's', U"\u0455\u0405\uA731\u13DA\u01BD\u054F"},
    {U't', U"\u0442\u0422\u03C4\u03A4\u1D1B\u0167\u0166\u13A2"},
    {U'u', U"\u03C5\u057D\u1D1C\u03BC\u00B5\u0438\u028B\u0289\u054D"},
    {U'v', U"\u0475\u0474\u03BD\u1D20\u13D9\u2228"},
    {U'w', U"\u051D\u051C\u03C9\u0448\u0428\u0461\u0561\u1D21\u13B3"},
    {U'x', U"\u0445\u0425\u03C7\u03A7\u00D7\u2715\u2A2F"},
    {U'y', U"\u0443\u0423\u04AF\u04AE\u03B3\u03A5\u028F\u01B4\u13A9"},
    {U'z', U"\u0396\u03B6\u1D22\u01B6\u13C3"},
    {U'-', U"\u2010\u2011\u2012\u2013\u2014\u2015\u2043\u2212\u2E3A\u2E3B\u30FB\u058A\u05BE\u1806\u00B7\u2022\u2027"},
};

using LookAlikePair = std::pair<char32_t, char32_t>;  // what looks like a Latin letter, the letter

const std::vector<LookAlikePair>& LookAlikePairs() {
  static const std::vector<LookAlikePair> pairs = [] {
    std::vector<LookAlikePair> all;
    for (const auto& [latin, looks] : kLookAlikes) {
      for (const char32_t c : looks) all.emplace_back(c, latin);
    }
    std::ranges::sort(all);
    return all;
  }();
  return pairs;
}

}  // namespace

char32_t LookAlike(char32_t c) {
  if (c < 0x80) return 0;
  // Enclosed capitals and regional indicators, in alphabetical order.
  for (const char32_t first : {U'\U0001F130', U'\U0001F150', U'\U0001F170', U'\U0001F1E6'}) {
    if (c >= first && c < first + 26) return U'a' + (c - first);
  }
  const auto& pairs = LookAlikePairs();
  const auto found = std::ranges::lower_bound(pairs, c, {}, &LookAlikePair::first);
  return found != pairs.end() && found->first == c ? found->second : 0;
}

}  // namespace surety::gateway
