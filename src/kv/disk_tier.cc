#include "kv/disk_tier.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <string>

#include "base/check.h"

namespace surety::kv {
namespace {

// Slots begin at borders of the file system's blocks.
int64_t SlotBytes(int64_t page_bytes) { return (page_bytes + 4095) / 4096 * 4096; }

}  // namespace

struct DiskTier::Cipher {
  std::array<uint8_t, 32> key;
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();

  ~Cipher() {
    OPENSSL_cleanse(key.data(), key.size());
    EVP_CIPHER_CTX_free(context);
  }

  // One pass of AES-256-GCM; false where decryption finds another tag than `tag`.
  bool Run(bool encrypt, uint64_t nonce, std::span<const uint8_t> associated, std::span<const std::byte> in,
           std::byte* out, Tag& tag) {
    std::array<uint8_t, 12> iv{};
    std::memcpy(iv.data(), &nonce, sizeof nonce);
    int n = 0;
    SURETY_CHECK(EVP_CipherInit_ex(context, EVP_aes_256_gcm(), nullptr, key.data(), iv.data(), encrypt ? 1 : 0) == 1);
    SURETY_CHECK(EVP_CipherUpdate(context, nullptr, &n, associated.data(), static_cast<int>(associated.size())) == 1);
    for (size_t at = 0; at < in.size();) {
      const size_t part = std::min<size_t>(in.size() - at, INT_MAX / 2);
      SURETY_CHECK(EVP_CipherUpdate(context, reinterpret_cast<uint8_t*>(out + at), &n,
                                    reinterpret_cast<const uint8_t*>(in.data() + at), static_cast<int>(part)) == 1);
      at += part;
    }
    uint8_t rest[16];
    if (!encrypt) {
      SURETY_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
      return EVP_CipherFinal_ex(context, rest, &n) == 1;
    }
    SURETY_CHECK(EVP_CipherFinal_ex(context, rest, &n) == 1);
    SURETY_CHECK(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, static_cast<int>(tag.size()), tag.data()) == 1);
    return true;
  }
};

Result<std::unique_ptr<DiskTier>> DiskTier::Make(std::unique_ptr<TierFile> file, int64_t page_bytes,
                                                 int64_t capacity_bytes) {
  const int64_t slot_bytes = SlotBytes(page_bytes);
  const int64_t n_slots = page_bytes > 0 ? capacity_bytes / slot_bytes : 0;
  if (n_slots < 1 || n_slots > INT_MAX) {
    return Error(InvalidArgumentError("disk KV tier: " + std::to_string(capacity_bytes) + " bytes hold " +
                                      std::to_string(n_slots) + " pages of " + std::to_string(slot_bytes) +
                                      " bytes, but there must be 1 to " + std::to_string(INT_MAX)));
  }
  auto cipher = std::make_unique<Cipher>();
  SURETY_CHECK(cipher->context != nullptr);
  if (RAND_bytes(cipher->key.data(), static_cast<int>(cipher->key.size())) != 1) {
    return Error(UnavailableError("disk KV tier: the system gave no random bytes"));
  }
  return std::unique_ptr<DiskTier>(
      new DiskTier(std::move(file), page_bytes, static_cast<int>(n_slots), std::move(cipher)));
}

DiskTier::DiskTier(std::unique_ptr<TierFile> file, int64_t page_bytes, int n_slots, std::unique_ptr<Cipher> cipher)
    : file_(std::move(file)), page_bytes_(static_cast<size_t>(page_bytes)), slot_bytes_(SlotBytes(page_bytes)),
      table_(n_slots), cipher_(std::move(cipher)), tags_(static_cast<size_t>(n_slots)),
      nonces_(static_cast<size_t>(n_slots)), scratch_(page_bytes_), zeros_(page_bytes_) {}

DiskTier::~DiskTier() {
  while (table_.oldest() >= 0) Free(table_.oldest());
}

void DiskTier::NoteIo(bool ok, int& n_in_row) {
  stats_.io_errors += ok ? 0 : 1;
  if (in_service()) n_in_row = ok ? 0 : n_in_row + 1;
}

bool DiskTier::Free(int slot) {
  bool overwritten = true;
  if (table_.at(slot).zero) {
    overwritten = file_->WriteAt(slot * slot_bytes_, zeros_).ok();
    NoteIo(overwritten, n_write_errors_);
    if (overwritten) stats_.zeroed_bytes += static_cast<int64_t>(page_bytes_);
  }
  table_.Free(slot);
  return overwritten;
}

std::array<uint8_t, 48> DiskTier::AssociatedData(const TierKey& key, int slot, uint64_t generation) const {
  std::array<uint8_t, 48> data{};
  const auto slot_number = static_cast<uint64_t>(slot);
  std::memcpy(data.data(), key.bytes().data(), 32);
  std::memcpy(data.data() + 32, &slot_number, 8);
  std::memcpy(data.data() + 40, &generation, 8);
  return data;
}

void DiskTier::Put(TierEntry entry, std::span<const std::byte> page, int64_t now_ns) {
  SURETY_CHECK(page.size() == page_bytes_);
  if (const int same = table_.Find(entry.key); same >= 0) Free(same);
  if (!in_service() || entry.policy.lowest < level()) return;
  if (table_.n_free() == 0) {
    const int out = table_.oldest();
    ++(table_.at(out).expires_ns <= now_ns ? stats_.expired_pages : stats_.dropped_pages);
    Free(out);
  }
  const int slot = table_.FreeSlot();
  const uint64_t nonce = ++last_nonce_;
  const bool zero = entry.policy.zero_on_release;
  table_.Bind(std::move(entry));
  const TierSlot& bound = table_.at(slot);
  Tag& tag = tags_[static_cast<size_t>(slot)];
  nonces_[static_cast<size_t>(slot)] = nonce;
  cipher_->Run(true, nonce, AssociatedData(bound.entry->key, slot, bound.generation), page, scratch_.data(), tag);
  const Status written = file_->WriteAt(slot * slot_bytes_, scratch_);
  NoteIo(written.ok(), n_write_errors_);
  if (written.ok()) {
    ++stats_.stored_pages;
    return;
  }
  // Nothing is worth overwriting in half a page of ciphertext on a disk that refuses; the tag will not match it again.
  if (zero) table_.at(slot).zero = false;
  Free(slot);
}

std::optional<TierHit> DiskTier::Take(const TierKey& key, std::span<const int32_t> tokens, int64_t now_ns,
                                      std::span<std::byte> page) {
  SURETY_CHECK(page.size() == page_bytes_);
  const int slot = table_.FindLive(key, tokens, now_ns);
  if (slot < 0 || !in_service()) return std::nullopt;
  const TierSlot& bound = table_.at(slot);
  const TierHit hit{.created_ns = bound.entry->created_ns, .level = level()};
  const bool ok = file_->ReadAt(slot * slot_bytes_, scratch_).ok() &&
                  cipher_->Run(false, nonces_[static_cast<size_t>(slot)], AssociatedData(key, slot, bound.generation),
                               scratch_, page.data(), tags_[static_cast<size_t>(slot)]);
  NoteIo(ok, n_read_errors_);
  Free(slot);
  if (!ok) {
    std::memset(page.data(), 0, page.size());  // unauthenticated bytes go nowhere
    return std::nullopt;
  }
  ++stats_.taken_pages;
  return hit;
}

ForgetReceipt DiskTier::Forget(const ScopeSet& scopes) {
  ForgetReceipt receipt;
  for (int slot = 0; slot < table_.n_slots(); ++slot) {
    TierSlot& one = table_.at(slot);
    if (one.state != TierSlot::State::kEntry || !scopes.Covers(one.entry->scope)) continue;
    one.zero = true;
    ++receipt.pages;
    if (Free(slot)) {
      receipt.bytes += static_cast<int64_t>(page_bytes_);
    } else {
      ++receipt.pages_unwritten;
    }
  }
  return receipt;
}

void DiskTier::SetPolicy(const FamilyKey& family, const TierPolicy& policy) {
  for (int slot = 0; slot < table_.n_slots(); ++slot) {
    TierSlot& one = table_.at(slot);
    if (one.state != TierSlot::State::kEntry || !(one.entry->scope.family() == family)) continue;
    one.entry->policy = policy;
    one.zero |= policy.zero_on_release;
    one.expires_ns = policy.ExpiryOf(one.entry->created_ns);
    if (policy.lowest < level()) Free(slot);
  }
}

void DiskTier::Sweep(int64_t now_ns, int max_slots) {
  for (int i = 0; i < max_slots && i < table_.n_slots(); ++i) {
    const int slot = table_.SweepOne(now_ns);
    if (slot < 0) continue;
    Free(slot);
    ++stats_.expired_pages;
  }
}

TierStats DiskTier::stats() const {
  TierStats stats = stats_;
  stats.capacity_pages = table_.n_slots();
  stats.used_pages = table_.n_slots() - table_.n_free();
  return stats;
}

}  // namespace surety::kv
