#include "kernels/cpu/isa.h"

#include <array>
#include <string>

#include "kernels/cpu/matmul_targets.h"
// After matmul_targets.
#include "hwy/targets.h"

#if SURETY_KERNELS_HAVE_TILES
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace surety::kernels::cpu {
namespace {

struct IsaInfo {
  Isa isa;
  std::string_view name;
  int64_t target;  // Highway's bit
  bool tiles = false;
};

// Weakest first within an architecture.
constexpr std::array<IsaInfo, 6> kInfos = {{
    {Isa::kSse4, "sse4", HWY_SSE4},
    {Isa::kAvx2, "avx2", HWY_AVX2},
    {Isa::kAvx512, "avx512", HWY_AVX3},
    {Isa::kAvx512Vnni, "avx512_vnni", HWY_AVX3_DL},
    {Isa::kAvx512Amx, "avx512_amx", HWY_AVX3_DL, true},
    {Isa::kNeon, "neon", HWY_NEON},
}};

// What the processor can run, whatever SetIsa has hidden; read once, before any hiding.
int64_t ProcessorTargets() {
  static const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

// Whether the processor has tiles of bytes and the system lets this process use them. Linux saves their 8 KiB for each
// thread that uses them, so it wants to be asked.
bool AskForTiles() {
#if SURETY_KERNELS_HAVE_TILES
  constexpr unsigned kTile = 1u << 24, kInt8 = 1u << 25;  // CPUID 7.0, EDX
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // arch_prctl(2)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTile) == 0 || (d & kInt8) == 0) return false;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool ProcessHasTiles() {
  static const bool has = (ProcessorTargets() & HWY_AVX3_DL) != 0 && AskForTiles();
  return has;
}

bool IsSupported(const IsaInfo& info) {
  return (ProcessorTargets() & info.target) != 0 && (!info.tiles || ProcessHasTiles());
}

// The choice: tiles are used unless SetIsa chose a set without them.
bool tiles_hidden = false;

}  // namespace

bool IsaHasTiles() { return !tiles_hidden && ProcessHasTiles(); }

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
    if (IsSupported(info)) isas.push_back(info.isa);
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
    if ((targets & info.target) == 0 || (info.tiles && (tiles_hidden || !ProcessHasTiles()))) continue;
    best = info.isa;
  }
  return best;
}

Status SetIsa(Isa isa) {
  int64_t allowed = 0;
  bool found = false, tiles = false;
  for (const IsaInfo& info : kInfos) {
    if (found || !IsSupported(info)) continue;
    allowed |= info.target;
    tiles = info.tiles;
    found = info.isa == isa;
  }
  if (!found) {
    std::string known;
    for (Isa other : SupportedIsas()) known += (known.empty() ? "" : ", ") + std::string(NameOf(other));
    return InvalidArgumentError("instruction set " + std::string(NameOf(isa)) + " is not available here; these are: " +
                                known);
  }
  tiles_hidden = !tiles;
  hwy::SetSupportedTargetsForTest(allowed);
  hwy::GetChosenTarget().Update(allowed);
  return OkStatus();
}

}  // namespace surety::kernels::cpu
