#include "tensor/kv_layout.h"

#include <string>

namespace surety {
namespace {

int64_t Pad64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

Status Wrong(std::string_view field, int value, std::string_view rule) {
  return InvalidArgumentError("KV layout: " + std::string(field) + " is " + std::to_string(value) + ", but must be " +
                              std::string(rule));
}

}  // namespace

std::string_view NameOf(KvType type) {
  switch (type) {
    case KvType::kF32: return "f32";
    case KvType::kF16: return "f16";
    case KvType::kBF16: return "bf16";
    case KvType::kQ8_0: return "q8_0";
  }
  return "?";
}

Result<KvType> KvTypeFromName(std::string_view name) {
  for (KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    if (NameOf(type) == name) return type;
  }
  return Error(InvalidArgumentError("unknown KV type '" + std::string(name) + "': use f32, f16, bf16 or q8_0"));
}

Status KvLayout::Validate() const {
  const auto within = [](std::string_view field, int value, int most) {
    return value > 0 && value <= most ? OkStatus() : Wrong(field, value, "1 to " + std::to_string(most));
  };
  SURETY_RETURN_IF_ERROR(within("n_layers", n_layers, kMaxKvLayers));
  SURETY_RETURN_IF_ERROR(within("n_kv_heads", n_kv_heads, kMaxKvHeads));
  SURETY_RETURN_IF_ERROR(within("k_dim", k_dim, kMaxKeyDim));
  SURETY_RETURN_IF_ERROR(within("v_dim", v_dim, kMaxValueDim));
  if (page_tokens <= 0 || page_tokens % kKvLaneTokens != 0 || page_tokens > kMaxPageTokens) {
    return Wrong("page_tokens", page_tokens, "a positive multiple of 16, at most " + std::to_string(kMaxPageTokens));
  }
  if (companion_bytes < 0 || companion_bytes % 64 != 0) {
    return InvalidArgumentError("KV layout: companion_bytes is " + std::to_string(companion_bytes) +
                                ", but must be a multiple of 64");
  }
  if (latent) {
    if (n_kv_heads != 1) return Wrong("n_kv_heads", n_kv_heads, "1 in a latent cache");
    if (v_dim > k_dim) return Wrong("v_dim", v_dim, "at most k_dim in a latent cache");
    if (type == KvType::kQ8_0) {
      return InvalidArgumentError("KV layout: a latent cache takes f32, f16 or bf16, not q8_0");
    }
  }
  if (type == KvType::kQ8_0) {
    if (k_dim % 32 != 0) return Wrong("k_dim", k_dim, "a multiple of 32 with q8_0");
    if (v_dim % 32 != 0) return Wrong("v_dim", v_dim, "a multiple of 32 with q8_0");
  }
  return OkStatus();
}

int64_t KvLayout::KeyBytes() const { return Pad64(int64_t{page_tokens} * k_dim * ElementBytes()); }
int64_t KvLayout::KeyScaleBytes() const {
  return type == KvType::kQ8_0 ? Pad64(int64_t{page_tokens} * (k_dim / 32) * 2) : 0;
}
int64_t KvLayout::ValueBytes() const {
  return latent ? 0 : Pad64(int64_t{page_tokens} * v_dim * ElementBytes());
}
int64_t KvLayout::ValueScaleBytes() const {
  return type == KvType::kQ8_0 && !latent ? Pad64(int64_t{page_tokens} * (v_dim / 32) * 2) : 0;
}

int64_t KvLayout::PageStrideBytes() const {
  constexpr int64_t kPeriod = 64 << 10;  // bytes after which a cache's sets repeat: 512 KiB in 8 ways
  const int64_t page = PageBytes(), layer = LayerPageBytes(), rest = page % kPeriod;
  if (n_layers == 1 || 2 * layer > kPeriod) return page;
  if (rest < layer) return page + layer - rest;
  if (rest > kPeriod - layer) return page + kPeriod - rest + layer;
  return page;
}

double KvLayout::BytesPerToken() const {
  const double numbers = static_cast<double>(k_dim) + (latent ? 0 : v_dim);
  const double bytes = type == KvType::kQ8_0 ? 1.0 + 2.0 / 32 : static_cast<double>(ElementBytes());
  return n_layers * static_cast<double>(n_kv_heads) * numbers * bytes;
}

}  // namespace surety
