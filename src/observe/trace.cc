#include "observe/trace.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "base/random.h"

namespace surety::observe {
namespace {

constexpr size_t kTraceparentSize = 55;
constexpr size_t kMaxTracestate = 512;
constexpr double kTwoTo56 = 72057594037927936.0;

int LowerHexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool ReadLowerHex(std::string_view text, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int high = LowerHexDigit(text[2 * i]), low = LowerHexDigit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

std::string LowerHex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool AllZero(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](uint8_t byte) { return byte == 0; });
}

void PutBigEndian(uint64_t word, std::span<uint8_t> bytes) {
  for (size_t i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(word >> (56 - 8 * i));
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view header) {
  if (header.size() < kTraceparentSize) return std::nullopt;
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  std::array<uint8_t, 1> version, flags;
  TraceContext context;
  if (!ReadLowerHex(header.substr(0, 2), version) || !ReadLowerHex(header.substr(3, 32), context.trace_id) ||
      !ReadLowerHex(header.substr(36, 16), context.span_id) || !ReadLowerHex(header.substr(53, 2), flags)) {
    return std::nullopt;
  }
  if (version[0] == 0xFF) return std::nullopt;
  if (header.size() > kTraceparentSize && (version[0] == 0 || header[kTraceparentSize] != '-')) return std::nullopt;
  if (AllZero(context.trace_id) || AllZero(context.span_id)) return std::nullopt;
  context.flags = flags[0];
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  const std::array<uint8_t, 1> flags = {context.flags};
  return "00-" + LowerHex(context.trace_id) + "-" + LowerHex(context.span_id) + "-" + LowerHex(flags);
}

bool IsSaneTracestate(std::string_view header) {
  return header.size() <= kMaxTracestate &&
         std::ranges::all_of(header, [](char c) { return (c >= ' ' && c <= '~') || c == '\t'; });
}

std::string TraceIdText(const TraceId& id) { return LowerHex(id); }
std::string SpanIdText(const SpanId& id) { return LowerHex(id); }

TraceContext Tracer::Begin(const std::optional<TraceContext>& parent) {
  TraceContext context;
  context.span_id = NewSpanId();
  if (parent) {
    context.trace_id = parent->trace_id;
    context.flags = parent->flags & (kTraceSampled | kTraceRandom);
    return context;
  }
  const RandomKey key = {seed_, next_.fetch_add(1, std::memory_order_relaxed), RandomPurpose::kTrace, 1};
  const uint64_t low = RandomBits(key, 1) | 1;  // never all zeros
  PutBigEndian(RandomBits(key, 0), std::span(context.trace_id).first(8));
  PutBigEndian(low, std::span(context.trace_id).last(8));
  const double threshold = (1.0 - ratio_) * kTwoTo56;
  const bool sampled = static_cast<double>(low & ((uint64_t{1} << 56) - 1)) >= threshold;
  context.flags = static_cast<uint8_t>(kTraceRandom | (sampled ? kTraceSampled : 0));
  return context;
}

SpanId Tracer::NewSpanId() {
  const RandomKey key = {seed_, next_.fetch_add(1, std::memory_order_relaxed), RandomPurpose::kTrace, 0};
  SpanId id;
  PutBigEndian(RandomBits(key) | 1, id);
  return id;
}

}  // namespace surety::observe
