// The instruction sets that the CPU kernels are compiled for, and which of them the process uses.
//
// Threads: SetIsa only while no kernel runs; the others at any time. The choice holds for the whole process.
// Errors: SetIsa: kInvalidArgument for an instruction set that this build or this processor lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace surety::kernels::cpu {

enum class Isa : uint8_t {
  kSse4,
  kAvx2,
  kAvx512,
  kAvx512Vnni,
  kAvx512Amx,  // the same, with AMX tiles for products of several rows
  kNeon,
};

// "sse4", "avx2", "avx512", "avx512_vnni", "avx512_amx", "neon".
std::string_view NameOf(Isa isa);
std::optional<Isa> IsaFromName(std::string_view name);

// Those that this build has kernels for and this processor can run, weakest first; never empty.
std::vector<Isa> SupportedIsas();
// The last of SupportedIsas().
Isa BestIsa();
// The one in use: BestIsa() until SetIsa() says otherwise.
Isa CurrentIsa();
Status SetIsa(Isa isa);
// Whether the one in use has tiles. The system's leave to use them is asked for once, on first use.
bool IsaHasTiles();

}  // namespace surety::kernels::cpu
