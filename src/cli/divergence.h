// How far one next-token distribution is from another, from raw logits, in double.
//
// Source: Kullback and Leibler 1951: KL(p || q) = sum p (ln p - ln q). Threads: any.
#pragma once

#include <span>
#include <string_view>

namespace surety::cli {

// What keeps logits from being a distribution: a value that is not a number, plus infinity, or minus infinity alone.
// Empty if nothing does.
std::string_view FaultOfLogits(std::span<const float> logits);
// ln sum exp(x), without overflow.
double LogSumExp(std::span<const float> logits);
// Natural log of softmax(logits)[index].
double LogProbability(std::span<const float> logits, int index);
// KL(softmax(reference) || softmax(ours)), in nats. Both of the same length.
double KlDivergence(std::span<const float> reference, std::span<const float> ours);
// Index of the largest, the lowest on ties.
int ArgMax(std::span<const float> logits);

}  // namespace surety::cli
