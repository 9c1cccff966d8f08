#include "kernels/cpu/isa.h"

#include <array>
#include <string>

#include "kernels/cpu/matmul_targets.h"
// After matmul_targets.
#include "hwy/targets.h"

namespace surety::kernels::cpu {
namespace {

struct IsaInfo {
  Isa isa;
  std::string_view name;
  int64_t target;  // Highway's bit
};

// Weakest first within an architecture.
constexpr std::array<IsaInfo, 5> kInfos = {{
    {Isa::kSse4, "sse4", HWY_SSE4},
    {Isa::kAvx2, "avx2", HWY_AVX2},
    {Isa::kAvx512, "avx512", HWY_AVX3},
    {Isa::kAvx512Vnni, "avx512_vnni", HWY_AVX3_DL},
    {Isa::kNeon, "neon", HWY_NEON},
}};

// What the processor can run, whatever SetIsa has hidden; read once, before any hiding.
int64_t ProcessorTargets() {
  static const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

}  // namespace

std::string_view NameOf(Isa isa) {
  for (const IsaInfo& info : kInfos) {
    if (info.isa == isa) return info.name;
  }
  return "unknown";
}

std::optional<Isa> IsaFromName(std::string_view name) {
  for (const IsaInfo& info : kInfos) {
    if (info.name == name) return info.isa;
  }
  return std::nullopt;
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> isas;
  for (const IsaInfo& info : kInfos) {
    if ((ProcessorTargets() & info.target) != 0) isas.push_back(info.isa);
  }
  return isas;
}

Isa BestIsa() {
  const std::vector<Isa> isas = SupportedIsas();
  return isas.empty() ? Isa::kSse4 : isas.back();
}

Isa CurrentIsa() {
  ProcessorTargets();
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  Isa best = Isa::kSse4;
  for (const IsaInfo& info : kInfos) {
    if ((targets & info.target) != 0) best = info.isa;
  }
  return best;
}

Status SetIsa(Isa isa) {
  int64_t allowed = 0;
  bool found = false;
  for (const IsaInfo& info : kInfos) {
    if (found || (ProcessorTargets() & info.target) == 0) continue;
    allowed |= info.target;
    found = info.isa == isa;
  }
  if (!found) {
    std::string known;
    for (Isa other : SupportedIsas()) known += (known.empty() ? "" : ", ") + std::string(NameOf(other));
    return InvalidArgumentError("instruction set " + std::string(NameOf(isa)) + " is not available here; these are: " +
                                known);
  }
  hwy::SetSupportedTargetsForTest(allowed);
  hwy::GetChosenTarget().Update(allowed);
  return OkStatus();
}

}  // namespace surety::kernels::cpu
