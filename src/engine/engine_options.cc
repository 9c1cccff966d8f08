#include "engine/engine_options.h"

#include "base/memory_info.h"

namespace surety::engine {

Status WrongValue(std::string_view field, int64_t value, std::string_view rule) {
  return InvalidArgumentError(std::string(field) + " is " + std::to_string(value) + ", but must be " +
                              std::string(rule));
}

Status EngineOptions::Validate() const {
  if (context_tokens < 2) return WrongValue("context_tokens", context_tokens, "at least 2");
  if (page_tokens <= 0 || page_tokens % kKvLaneTokens != 0) {
    return WrongValue("page_tokens", page_tokens, "a positive multiple of 16");
  }
  if (kv_budget_bytes < 0) return WrongValue("kv_budget_bytes", kv_budget_bytes, "0 (one full context) or positive");
  if (max_sequences < 1 || max_sequences > 4096) return WrongValue("max_sequences", max_sequences, "from 1 to 4096");
  if (max_rows < max_sequences || max_rows > 65536) {
    return WrongValue("max_rows", max_rows, "from max_sequences (" + std::to_string(max_sequences) + ") to 65536");
  }
  if (min_chunk_rows < 1) {
    return WrongValue("min_chunk_rows", min_chunk_rows, "positive");
  }
  if (itl_target_ms < 0 || itl_target_ms > 3'600'000) return WrongValue("itl_target_ms", itl_target_ms, "0 to 3600000");
  if (!(itl_stretch >= 1 && itl_stretch <= 1000)) {
    return InvalidArgumentError("itl_stretch is " + std::to_string(itl_stretch) + ", but must be from 1 to 1000");
  }
  if (max_prompt_logprob_rows < 0 || max_prompt_logprob_rows > 65536) {
    return WrongValue("max_prompt_logprob_rows", max_prompt_logprob_rows, "from 0 to 65536");
  }
  if (host_cache_bytes < 0) return WrongValue("host_cache_bytes", host_cache_bytes, "0 or positive");
  if (disk_cache_bytes < 0) return WrongValue("disk_cache_bytes", disk_cache_bytes, "0 or positive");
  SURETY_RETURN_IF_ERROR(speculation.Validate());
  SURETY_RETURN_IF_ERROR(cache_policy.Validate());
  return OkStatus();
}

Result<int> PagesFor(const EngineOptions& options, const KvLayout& layout) {
  const int64_t pages_for_one = (int64_t{options.context_tokens} + options.page_tokens - 1) / options.page_tokens;
  int64_t n_pages = pages_for_one;
  if (options.kv_budget_bytes > 0) {
    n_pages = options.kv_budget_bytes / layout.PageStrideBytes();
    if (n_pages < pages_for_one) {
      return Error(ResourceExhaustedError(
          "a KV budget of " + std::to_string(options.kv_budget_bytes) + " bytes holds " +
          std::to_string(n_pages * options.page_tokens) + " tokens, but a context of " +
          std::to_string(options.context_tokens) + " needs " +
          std::to_string(pages_for_one * layout.PageStrideBytes())));
    }
  }
  if (n_pages > (int64_t{1} << 30)) return Error(ResourceExhaustedError("the KV cache would have over 2^30 pages"));
  const int64_t needed = n_pages * layout.PageStrideBytes(), available = AvailableMemoryBytes();
  if (available >= 0 && needed > available) {
    return Error(ResourceExhaustedError("the KV cache of " + std::to_string(n_pages * options.page_tokens) +
                                        " tokens takes " + std::to_string(needed >> 20) + " MiB, but only " +
                                        std::to_string(available >> 20) +
                                        " MiB of memory are available; use a shorter context or a smaller KV type"));
  }
  return static_cast<int>(n_pages);
}

}  // namespace surety::engine
