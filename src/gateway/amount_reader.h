// A number as people write amounts: "10,000", "10 000", "10.000,50", "10'000", "10k", "1.5 million", "$2m".
//
// Where a number can be read in two ways the larger one counts, as amounts raise control: "10.000" is ten thousand, a
// separator with three digits behind it groups thousands. A sign is not read: -500 is 500. k, m, mn, mm, mio, bn,
// b and the words hundred, thousand, grand, lakh, million, crore, billion multiply, in any case. Currency letters
// and symbols around the number are skipped.
// Threads: any. Errors: nullopt for what is no number of this form; never a guess.
#pragma once

#include <optional>
#include <string_view>

namespace surety::gateway {

// `text`: by FoldForPattern.
std::optional<double> ReadAmount(std::string_view text);

}  // namespace surety::gateway
