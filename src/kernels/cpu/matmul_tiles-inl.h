// The product of several rows by AMX: one instruction multiplies 16 rows of 32 activations by a block of 16 outputs.
//
// A block's sums leave the tile as exact integers and enter the rows' float sums as everywhere else, so the bits are
// those of the other instruction sets. A panel's quads are the tile's layout as they are; codes have their offset taken
// out, since tiles multiply signed bytes. Types with a scale for each 16 inputs take two products of half a block.
//
// A thread's tile registers are set up by BeginTiles and given back by EndTiles.
// Included once a target (foreach_target.h).
#if defined(SURETY_KERNELS_CPU_MATMUL_TILES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SURETY_KERNELS_CPU_MATMUL_TILES_INL_H_
#undef SURETY_KERNELS_CPU_MATMUL_TILES_INL_H_
#else
#define SURETY_KERNELS_CPU_MATMUL_TILES_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/cpu/matmul_quant-inl.h"

#if HWY_TARGET == HWY_AVX3_DL && SURETY_KERNELS_HAVE_TILES

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

inline constexpr int kTileRows = 16;

// What LDTILECFG reads.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Registers 0 and 1: sums of 16 rows, 2 and 3: of the last rows % 16; 4 and 5: a block of weights; 6: 16 rows of x,
// 7: the last ones.
template <Kind K>
void BeginTiles(int64_t n_rows) {
  constexpr int kInputs = K.sub ? kBlock / 2 : kBlock;
  TileConfig config;
  const auto rest = static_cast<uint8_t>(n_rows % kTileRows);
  for (int t = 0; t < 8; ++t) {
    config.row_bytes[t] = 64;
    config.rows[t] = t < 2 ? kTileRows : rest;
  }
  for (int t = 4; t < 6; ++t) config.rows[t] = kInputs / 4;
  config.rows[6] = kTileRows;
  config.row_bytes[6] = config.row_bytes[7] = kInputs;
  if (rest == 0) {  // a register without rows would make the set-up invalid
    config.rows[2] = config.rows[3] = config.rows[7] = 1;
  }
  asm volatile("" : : "r"(&config) : "memory");  // the compiler's intrinsic claims to read the first word only
  _tile_loadconfig(&config);
}
inline void EndTiles() { _tile_release(); }

// The exact sums of one block for 16 rows, [row][output]; of its two halves where the type scales them apart.
template <Kind K>
struct alignas(64) TileSums {
  int32_t of[K.sub ? 2 : 1][kTileRows * kGroup];
};

// SUMS, X and WEIGHTS must be digits: the compiler's own macros paste them into the instruction.
#define SURETY_TILE_PRODUCT(SUMS, X, WEIGHTS)                            \
  _tile_zero(SUMS);                                                      \
  _tile_loadd(X, x->q + half * (kBlock / 2), row_bytes);                 \
  _tile_loadd(WEIGHTS, panel->codes[half * 4], 4 * kGroup);              \
  _tile_dpbssd(SUMS, X, WEIGHTS);                                        \
  _tile_stored(SUMS, sums.of[half], kGroup * sizeof(int32_t))

// Multiplies a block of weights with the rows at x; kOdd: which registers.
template <Kind K, bool kFull, bool kOdd>
HWY_INLINE void MultiplyTile(const PanelBlock* panel, const XBlock* x, int64_t row_bytes, TileSums<K>& sums) {
  HWY_UNROLL(2)
  for (int half = 0; half < (K.sub ? 2 : 1); ++half) {
    if constexpr (kFull && !kOdd) {
      SURETY_TILE_PRODUCT(0, 6, 4);
    } else if constexpr (kFull) {
      SURETY_TILE_PRODUCT(1, 6, 5);
    } else if constexpr (!kOdd) {
      SURETY_TILE_PRODUCT(2, 7, 4);
    } else {
      SURETY_TILE_PRODUCT(3, 7, 5);
    }
  }
}
#undef SURETY_TILE_PRODUCT

// acc += one block's sums, in the order that matmul_kernels.h states.
// Rows from n_rows on stand for none: what they read is the last row's.
template <Kind K, int kRows, bool kFull>
HWY_INLINE void AddTile(const PanelBlock* panel, const XBlock* x, int64_t row_bytes, int64_t n_rows,
                        const TileSums<K>& sums, VF (&acc)[kRows]) {
  const PanelSource s = {panel};
  const VF scale = s.Scale(0);
  VF factor[2];
  if constexpr (K.sub) {
    for (int half = 0; half < 2; ++half) {
      factor[half] = hn::Load(DF(), reinterpret_cast<const float*>(panel->sub[half]));
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    const int64_t row = kFull || r < kRows - 3 ? r : std::min<int64_t>(r, n_rows - 1);
    const XBlock& xb = *reinterpret_cast<const XBlock*>(reinterpret_cast<const std::byte*>(x) + row * row_bytes);
    VF dot = hn::ConvertTo(DF(), hn::Load(D32(), sums.of[0] + r * kGroup));
    if constexpr (K.sub) {  // below 2^24: exact
      const VF second = hn::ConvertTo(DF(), hn::Load(D32(), sums.of[1] + r * kGroup));
      dot = hn::MulAdd(second, factor[1], hn::Mul(dot, factor[0]));
    }
    acc[r] = hn::MulAdd(dot, hn::Mul(scale, hn::Set(DF(), xb.d)), acc[r]);
    if constexpr (K.min) acc[r] = hn::MulAdd(s.Min(0), hn::Set(DF(), xb.d_sum), acc[r]);
    if constexpr (K.int_min) {
      const VF minima = hn::ConvertTo(DF(), Madd(s.Extra(0), BroadcastPair(xb.sums)));
      acc[r] = hn::MulAdd(minima, hn::Mul(s.Min(0), hn::Set(DF(), xb.d)), acc[r]);
    }
  }
}

// kRows - 4 < n_rows <= kRows rows; kFull: all 16 of a tile.
template <Kind K, int kRows, bool kFull>
void TileRun(const PanelBlock* panel, int64_t n, const XBlock* x, int64_t stride, int64_t n_rows, const Ahead& ahead,
             float* out) {
  const int64_t row_bytes = stride * static_cast<int64_t>(sizeof(XBlock));
  VF acc[kRows];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    acc[r] = r < n_rows ? hn::LoadU(DF(), out + r * kGroup) : hn::Zero(DF());
  }
  // While one block's sums are on their way to memory, those of the one before are added.
  TileSums<K> even, odd;
  if constexpr (!kFull) std::memset(&even, 0, sizeof(even)), std::memset(&odd, 0, sizeof(odd));
  MultiplyTile<K, kFull, false>(panel, x, row_bytes, even);
  int64_t b = 0;
  for (; b + 2 <= n; b += 2) {
    FetchBlock(ahead, b);
    MultiplyTile<K, kFull, true>(panel + b + 1, x + b + 1, row_bytes, odd);
    AddTile<K, kRows, kFull>(panel + b, x + b, row_bytes, n_rows, even, acc);
    FetchBlock(ahead, b + 1);
    if (b + 2 < n) MultiplyTile<K, kFull, false>(panel + b + 2, x + b + 2, row_bytes, even);
    AddTile<K, kRows, kFull>(panel + b + 1, x + b + 1, row_bytes, n_rows, odd, acc);
  }
  if (b < n) {
    FetchBlock(ahead, b);
    AddTile<K, kRows, kFull>(panel + b, x + b, row_bytes, n_rows, even, acc);
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    if (r < n_rows) hn::StoreU(acc[r], DF(), out + r * kGroup);
  }
}

template <Kind K>
void ManyByTiles(const PanelBlock* panel, int64_t n, const XBlock* x, int64_t stride, int64_t rows, Ahead ahead,
                 float* out) {
  for (; rows >= kTileRows; rows -= kTileRows, x += kTileRows * stride, out += kTileRows * kGroup) {
    TileRun<K, kTileRows, true>(panel, n, x, stride, kTileRows, ahead, out);
    ahead = {};
  }
  if (rows == 0) return;
  const auto run = rows > 12 ? TileRun<K, 16, false> : rows > 8 ? TileRun<K, 12, false>
                   : rows > 4 ? TileRun<K, 8, false> : TileRun<K, 4, false>;
  run(panel, n, x, stride, rows, ahead, out);
}

// What tiles read of a block: its codes as signed bytes, and the scales of its halves as floats.
template <int Q, class Source>
HWY_INLINE void StoreSignedQuads(const Source& s, PanelBlock* to) {
  constexpr Kind K = Source::kKind;
  const V8 codes = s.template W<Q>(0);
  if constexpr (K.is_signed) {
    hn::Store(hn::Xor(codes, Byte(0x80)), D8(), to->codes[Q]);
  } else if constexpr (K.offset != 0) {
    hn::Store(hn::Sub(codes, Byte(K.offset)), D8(), to->codes[Q]);
  } else {
    hn::Store(codes, D8(), to->codes[Q]);
  }
  if constexpr (Q + 1 < kQuads) StoreSignedQuads<Q + 1>(s, to);
}

template <class Source>
HWY_INLINE void StoreBlockForTiles(const Source& s, PanelBlock* to) {
  constexpr Kind K = Source::kKind;
  StoreSignedQuads<0>(s, to);
  hn::Store(s.Scale(0), DF(), to->scale);
  if constexpr (K.min || K.int_min) hn::Store(s.Min(0), DF(), to->min);
  if constexpr (K.sub) {
    for (int half = 0; half < 2; ++half) {
      const V32 factor = hn::ShiftRight<16>(hn::BitCast(D32(), s.Sub(half, 0)));
      hn::Store(hn::ConvertTo(DF(), factor), DF(), reinterpret_cast<float*>(to->sub[half]));
    }
  }
  if constexpr (K.int_min) hn::Store(hn::BitCast(D32(), s.Extra(0)), D32(), to->extra);
}

template <class Source>
constexpr QuantKernel TileKernelOf() {
  QuantKernel kernel = kKernelOf<Source>;
  kernel.unpack = UnpackWith<Source, StoreBlockForTiles<Source>>;
  kernel.many = ManyByTiles<Source::kKind>;
  kernel.begin = BeginTiles<Source::kKind>;
  kernel.end = EndTiles;
  return kernel;
}
template <class Source>
inline constexpr QuantKernel kTileKernelOf = TileKernelOf<Source>();

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3_DL && SURETY_KERNELS_HAVE_TILES

HWY_BEFORE_NAMESPACE();
namespace surety::kernels::cpu {
namespace HWY_NAMESPACE {

template <class Source>
const QuantKernel* KernelOf([[maybe_unused]] bool tiles) {
#if HWY_TARGET == HWY_AVX3_DL && SURETY_KERNELS_HAVE_TILES
  if (tiles) return &kTileKernelOf<Source>;
#endif
  return &kKernelOf<Source>;
}

}  // namespace HWY_NAMESPACE
}  // namespace surety::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
