#include "kernels/cpu/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "kernels/cpu/matmul_kernels.h"
#include "kernels/cpu/packed_matrix.h"
#include "kernels/cpu/quantized_x.h"

namespace surety::kernels::cpu {
namespace {

constexpr int64_t kMaxRowBlock = 512;  // rows that a unit of work has at most
// Float types: x is read again for each group, so a unit has no more rows than stay in half of a common L2 cache.
constexpr int64_t kMinFloatRows = 72;
constexpr int64_t kMaxFloatRows = 240;
constexpr int64_t kRowUnit = 24;
constexpr int64_t kRowBlockBytes = 256 << 10;
// Quantised types: so many rows of x stay in the first-level cache while unpacked groups pass by out of the second.
constexpr int64_t kRowTile = 16;
constexpr int64_t kOneGroupRows = 2 * kRowTile;  // up to here one group at a time, which then stays in the first level
constexpr int64_t kMaxChunk = 32;                // blocks of a group unpacked at a time
constexpr int64_t kPanelsInL2 = 256;             // unpacked blocks in all: about 200 KiB
constexpr int64_t kMaxSums = 4096;               // rows times groups whose sums wait for the next chunk
constexpr int64_t kUnitsPerWorker = 16;  // pieces of work for each, to even out their speeds
constexpr int64_t kLargeUnitsPerWorker = 4;  // of many rows, which gain from several groups at once
constexpr int64_t kMinUnitBytes = 8 << 10;      // of weights in a piece
constexpr int64_t kSerialBytes = 24 << 10;      // weights times rows that are not worth waking a worker
constexpr int64_t kSerialQuantize = 4 << 10;    // elements of x that the caller rounds alone

struct alignas(64) Scratch {
  float acc[kMaxSums * kGroup];
  union {
    PanelBlock panel[kPanelsInL2];
    float floats[kChunk * kGroup];
  };
};

const CpuPackedMatrix& WeightOf(const MatMulTask& task) { return static_cast<const CpuPackedMatrix&>(*task.weight); }

// The work of one call, cut into units: a range of one task's groups for a range of rows.
struct Plan {
  ConstMatrixF x;
  std::span<const MatMulTask> tasks;
  XBlock* xq = nullptr;  // null: no task is quantised
  XBlock* extras = nullptr;         // kMaxExtras for each segment of each row
  uint8_t* extra_counts = nullptr;  // of each segment of each row
  int64_t blocks_per_row = 0;
  int64_t segments_per_row = 0;
  int64_t row_block = 0;
  int64_t unit_bytes = 0;
  int64_t units_per_row_block = 0;
  int64_t n_units = 0;

  int64_t GroupsPerUnit(const CpuPackedMatrix& w) const {
    const int64_t groups = std::max<int64_t>(1, unit_bytes / w.group_bytes());
    if (!IsFloat(w.dtype()) || x.rows > kFewRows) return groups;
    return (groups + kFloatGroups - 1) / kFloatGroups * kFloatGroups;
  }
  int64_t UnitsOf(const CpuPackedMatrix& w) const {
    const int64_t groups = GroupsPerUnit(w);
    return (w.n_groups() + groups - 1) / groups;
  }
};

struct Unit {
  const MatMulTask* task;
  int64_t first_group, n_groups;
  int64_t first_row, n_rows;
};

Plan MakePlan(ConstMatrixF x, std::span<const MatMulTask> tasks, XBlock* xq, int n_workers) {
  Plan plan;
  plan.x = x;
  plan.tasks = tasks;
  plan.blocks_per_row = x.cols / kBlock;
  plan.segments_per_row = (plan.blocks_per_row + kSegment - 1) / kSegment;
  int64_t weight_bytes = 0;
  bool quantized = false;
  for (const MatMulTask& task : tasks) {
    const CpuPackedMatrix& w = WeightOf(task);
    weight_bytes += w.n_groups() * w.group_bytes();
    quantized |= !IsFloat(w.dtype());
  }
  plan.xq = quantized ? xq : nullptr;
  const int64_t most = quantized ? kMaxRowBlock
                                 : std::clamp(kRowBlockBytes / (x.cols * 4), kMinFloatRows, kMaxFloatRows) / kRowUnit *
                                       kRowUnit;
  const int64_t n_row_blocks = (x.rows + most - 1) / most;
  const int64_t multiple = quantized ? kRowTile : kRowUnit;
  plan.row_block = ((x.rows + n_row_blocks - 1) / n_row_blocks + multiple - 1) / multiple * multiple;
  const int64_t per_worker = x.rows > kOneGroupRows ? kLargeUnitsPerWorker : kUnitsPerWorker;
  plan.unit_bytes = std::max(weight_bytes / (per_worker * n_workers), kMinUnitBytes);
  for (const MatMulTask& task : tasks) plan.units_per_row_block += plan.UnitsOf(WeightOf(task));
  plan.n_units = plan.units_per_row_block * ((x.rows + plan.row_block - 1) / plan.row_block);
  return plan;
}

Unit UnitAt(const Plan& plan, int64_t index) {
  Unit unit;
  unit.first_row = index / plan.units_per_row_block * plan.row_block;
  unit.n_rows = std::min(plan.row_block, plan.x.rows - unit.first_row);
  index %= plan.units_per_row_block;
  for (const MatMulTask& task : plan.tasks) {
    const CpuPackedMatrix& w = WeightOf(task);
    const int64_t units = plan.UnitsOf(w);
    if (index < units) {
      unit.task = &task;
      unit.first_group = index * plan.GroupsPerUnit(w);
      unit.n_groups = std::min(plan.GroupsPerUnit(w), w.n_groups() - unit.first_group);
      return unit;
    }
    index -= units;
  }
  SURETY_CHECK_MSG(false, "unit out of range");
  __builtin_unreachable();
}

// A worker's share of the rounding of x.
void QuantizeShare(const Plan& plan, int worker, int n_workers) {
  const Share share = ShareOf(plan.x.rows * plan.segments_per_row, worker, n_workers);
  for (int64_t s = share.begin; s < share.end; ++s) {
    const int64_t row = s / plan.segments_per_row, first = s % plan.segments_per_row * kSegment;
    const int64_t n = std::min<int64_t>(kSegment, plan.blocks_per_row - first);
    plan.extra_counts[s] = static_cast<uint8_t>(
        QuantizeSegment(plan.x.Row(row) + first * kBlock, static_cast<int>(n), static_cast<int>(first),
                        plan.xq + row * plan.blocks_per_row + first, plan.extras + s * kMaxExtras));
  }
}

// Adds the extra blocks of n_rows rows to acc.
void AddExtras(const Plan& plan, int64_t first_row, int64_t n_rows, const QuantKernel& kernel, const std::byte* group,
               float* acc) {
  const int64_t first = first_row * plan.segments_per_row, n = n_rows * plan.segments_per_row;
  const uint8_t* counts = plan.extra_counts + first;
  for (int64_t s = 0; s < n;) {
    uint64_t eight;  // most segments have none
    if (s + 8 <= n && (std::memcpy(&eight, counts + s, 8), eight == 0)) {
      s += 8;
      continue;
    }
    const XBlock* extras = plan.extras + (first + s) * kMaxExtras;
    for (int e = 0; e < counts[s]; ++e) {
      kernel.one(group, extras[e].index, extras + e, acc + s / plan.segments_per_row * kGroup);
    }
    ++s;
  }
}

// Asks for the places that Finish will write. Stores leave a processor in order, so one that waits for memory would
// hold up all behind it, which the next sums are among.
void FetchOutputs(const MatMulTask& task, int64_t group, int64_t first_row, int64_t n_rows) {
  for (int64_t t = 0; t < n_rows; ++t) {
    const float* out = task.out.Row(first_row + t) + group * kGroup;
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*out));  // the compiler has this form for newer processors only; older skip it
#else
    __builtin_prefetch(out, 1);
#endif
  }
}

// Writes the sums of group g: plus bias, plus what stands there if the task accumulates.
void Finish(const MatMulTask& task, int64_t group, int64_t first_row, int64_t n_rows, const float* acc) {
  const int64_t n0 = group * kGroup;
  const int64_t n = std::min<int64_t>(kGroup, task.weight->n_outputs() - n0);
  for (int64_t t = 0; t < n_rows; ++t, acc += kGroup) {
    float* out = task.out.Row(first_row + t) + n0;
    if (task.bias == nullptr && !task.accumulate) {
      if (n == kGroup) {
        std::memcpy(out, acc, kGroup * sizeof(float));  // a size known here is no call
      } else {
        std::memcpy(out, acc, static_cast<size_t>(n) * sizeof(float));
      }
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      const float sum = task.bias == nullptr ? acc[i] : acc[i] + task.bias[n0 + i];
      out[i] = task.accumulate ? out[i] + sum : sum;
    }
  }
}

// After the first time the group is in the cache.
void RunDirect(const Plan& plan, const Unit& unit, const QuantKernel& kernel, Scratch& scratch) {
  const CpuPackedMatrix& w = WeightOf(*unit.task);
  const int64_t n_blocks = plan.blocks_per_row;
  const XBlock* x = plan.xq + unit.first_row * n_blocks;
  for (int64_t g = unit.first_group; g < unit.first_group + unit.n_groups; ++g) {
    std::memset(scratch.acc, 0, static_cast<size_t>(unit.n_rows) * kGroup * sizeof(float));
    for (int64_t t = 0; t < unit.n_rows; t += kernel.few_rows) {
      const int64_t rows = std::min<int64_t>(kernel.few_rows, unit.n_rows - t);
      kernel.few[rows - 1](w.Group(g), n_blocks, x + t * n_blocks, n_blocks, scratch.acc + t * kGroup);
    }
    AddExtras(plan, unit.first_row, unit.n_rows, kernel, w.Group(g), scratch.acc);
    Finish(*unit.task, g, unit.first_row, unit.n_rows, scratch.acc);
  }
}

// Blocks [block, block + n) of groups [group, group + n_groups), unpacked, for all rows of a unit.
struct Chunk {
  int64_t group, n_groups;
  int64_t block, n;
  int64_t n_most;  // of any chunk of the unit
};

// Chunks of a row of n blocks are of about the same size, whole supers each.
int64_t ChunkBlocks(int64_t n_blocks) {
  const int64_t n_chunks = (n_blocks + kMaxChunk - 1) / kMaxChunk;
  const int64_t blocks = (n_blocks + n_chunks - 1) / n_chunks;
  return std::min(n_blocks, (blocks + kPanelBlocks - 1) / kPanelBlocks * kPanelBlocks);
}

// What of the weights comes after a chunk of one group, in the same unit.
Ahead AheadOf(const CpuPackedMatrix& w, const Unit& unit, const Chunk& chunk, int64_t n_blocks) {
  const PackedLayout layout = PackedLayoutOf(w.dtype());
  const int64_t bytes_per_block = layout.super_bytes() / layout.blocks_per_super;
  const bool same_group = chunk.block + chunk.n < n_blocks;
  if (!same_group && chunk.group + 1 == unit.first_group + unit.n_groups) return {};
  const int64_t n_next = std::min(chunk.n_most, same_group ? n_blocks - chunk.block - chunk.n : n_blocks);
  const std::byte* from = same_group ? w.Group(chunk.group) + (chunk.block + chunk.n) * bytes_per_block
                                     : w.Group(chunk.group + 1);
  const int64_t share = (n_next * bytes_per_block + chunk.n - 1) / chunk.n;
  return {from, (share + 63) / 64 * 64};
}

void RunChunk(const Plan& plan, const Unit& unit, const QuantKernel& kernel, const Chunk& chunk, Scratch& scratch) {
  const CpuPackedMatrix& w = WeightOf(*unit.task);
  const int64_t n_blocks = plan.blocks_per_row;
  const bool first = chunk.block == 0, last = chunk.block + chunk.n == n_blocks;
  for (int64_t g = 0; g < chunk.n_groups; ++g) {
    kernel.unpack(w.Group(chunk.group + g), chunk.block, chunk.n, scratch.panel + g * chunk.n);
  }
  Ahead ahead = chunk.n_groups == 1 ? AheadOf(w, unit, chunk, n_blocks) : Ahead{};
  for (int64_t t = 0; t < unit.n_rows; t += kRowTile) {
    const int64_t rows = std::min(kRowTile, unit.n_rows - t);
    const XBlock* x = plan.xq + (unit.first_row + t) * n_blocks + chunk.block;
    for (int64_t g = 0; g < chunk.n_groups; ++g) {
      // Sums that wait for another chunk stand apart; others use the same small place.
      float* acc = first && last ? scratch.acc : scratch.acc + (g * unit.n_rows + t) * kGroup;
      if (first) std::memset(acc, 0, static_cast<size_t>(rows) * kGroup * sizeof(float));
      if (last) FetchOutputs(*unit.task, chunk.group + g, unit.first_row + t, rows);
      kernel.many(scratch.panel + g * chunk.n, chunk.n, x, n_blocks, rows, ahead, acc);
      ahead = {};
      if (!last) continue;
      AddExtras(plan, unit.first_row + t, rows, kernel, w.Group(chunk.group + g), acc);
      Finish(*unit.task, chunk.group + g, unit.first_row + t, rows, acc);
    }
  }
}

void RunQuantUnit(const Plan& plan, const Unit& unit, Scratch& scratch) {
  const QuantKernel& kernel = QuantKernelOf(WeightOf(*unit.task).dtype());
  if (unit.n_rows <= kernel.direct_rows) {
    RunDirect(plan, unit, kernel, scratch);
    return;
  }
  const int64_t n_blocks = plan.blocks_per_row;
  const bool one_group = unit.n_rows <= kOneGroupRows;
  const int64_t chunk_blocks = ChunkBlocks(n_blocks);
  int64_t at_once = one_group ? 1 : std::max<int64_t>(1, kPanelsInL2 / chunk_blocks);
  if (chunk_blocks < n_blocks) at_once = std::clamp<int64_t>(kMaxSums / unit.n_rows, 1, at_once);
  if (kernel.begin != nullptr) kernel.begin(unit.n_rows);
  for (int64_t g = 0; g < unit.n_groups; g += at_once) {
    const int64_t n_groups = std::min(at_once, unit.n_groups - g);
    for (int64_t b = 0; b < n_blocks; b += chunk_blocks) {
      const int64_t n = std::min(chunk_blocks, n_blocks - b);
      RunChunk(plan, unit, kernel, {unit.first_group + g, n_groups, b, n, chunk_blocks}, scratch);
    }
  }
  if (kernel.end != nullptr) kernel.end();
}

void RunFloatUnit(const Plan& plan, const Unit& unit, Scratch& scratch) {
  const CpuPackedMatrix& w = WeightOf(*unit.task);
  const FloatKernel& kernel = FloatKernelOf(w.dtype());
  const int64_t n_inputs = w.n_inputs(), input_bytes = PackedLayoutOf(w.dtype()).block_bytes;
  const int64_t end = unit.first_group + unit.n_groups;
  const float* x = plan.x.Row(unit.first_row);
  if (unit.n_rows <= kFewRows) {
    for (int64_t g = unit.first_group; g < end; g += kFloatGroups) {
      const int n = static_cast<int>(std::min<int64_t>(kFloatGroups, end - g));
      kernel.few[unit.n_rows - 1](w.Group(g), w.group_bytes(), n, n_inputs, x, plan.x.stride, scratch.acc);
      for (int i = 0; i < n; ++i) {
        Finish(*unit.task, g + i, unit.first_row, unit.n_rows, scratch.acc + i * unit.n_rows * kGroup);
      }
    }
    return;
  }
  for (int64_t g = unit.first_group; g < end; ++g) {
    std::memset(scratch.acc, 0, static_cast<size_t>(unit.n_rows) * kGroup * sizeof(float));
    for (int64_t k = 0; k < n_inputs; k += kChunk) {
      const int64_t n = std::min<int64_t>(kChunk, n_inputs - k);
      const float* panel = kernel.unpack(w.Group(g) + k * input_bytes, n, scratch.floats);
      kernel.many(panel, n, x + k, plan.x.stride, unit.n_rows, scratch.acc);
    }
    Finish(*unit.task, g, unit.first_row, unit.n_rows, scratch.acc);
  }
}

// Units [begin, end) that wait for one worker, in one word: it takes them from the front, in the order of memory, so
// that what is fetched ahead is what it needs next; workers that are done take from the back.
struct alignas(64) WaitingUnits {
  std::atomic<uint64_t> span;

  static uint64_t Pack(uint64_t begin, uint64_t end) { return begin << 32 | end; }
  static int64_t CountOf(uint64_t packed) {
    return static_cast<int64_t>(packed & 0xFFFFFFFF) - static_cast<int64_t>(packed >> 32);
  }
};

// A unit for this worker, or -1 when none is left.
int64_t TakeUnit(std::span<WaitingUnits> waiting, int worker) {
  std::atomic<uint64_t>& own = waiting[static_cast<size_t>(worker)].span;
  for (uint64_t packed = own.load(std::memory_order_relaxed); WaitingUnits::CountOf(packed) > 0;) {
    if (own.compare_exchange_weak(packed, packed + (uint64_t{1} << 32), std::memory_order_relaxed)) {
      return static_cast<int64_t>(packed >> 32);
    }
  }
  while (true) {
    WaitingUnits* longest = nullptr;
    uint64_t most = 0;
    for (WaitingUnits& other : waiting) {
      const uint64_t packed = other.span.load(std::memory_order_relaxed);
      if (WaitingUnits::CountOf(packed) <= WaitingUnits::CountOf(most)) continue;
      longest = &other;
      most = packed;
    }
    if (longest == nullptr) return -1;
    if (longest->span.compare_exchange_weak(most, most - 1, std::memory_order_relaxed)) {
      return static_cast<int64_t>(most & 0xFFFFFFFF) - 1;
    }
  }
}

void RunUnit(const Plan& plan, int64_t index, Scratch& scratch) {
  const Unit unit = UnitAt(plan, index);
  if (IsFloat(unit.task->weight->dtype())) {
    RunFloatUnit(plan, unit, scratch);
  } else {
    RunQuantUnit(plan, unit, scratch);
  }
}

}  // namespace

const QuantKernel& QuantKernelOf(DType dtype) {
  const QuantKernel* kernel = SimpleQuantKernelOf(dtype);
  if (kernel == nullptr) kernel = SuperQuantKernelOf(dtype);
  SURETY_CHECK_MSG(kernel != nullptr, "not a quantised type");
  return *kernel;
}

Status MatMul::Reserve(int64_t max_rows, int64_t max_inputs, int n_workers) {
  max_rows = std::max(max_rows, max_rows_);
  max_inputs = std::max(max_inputs, max_inputs_);
  n_workers = std::max(n_workers, n_workers_);
  const int64_t blocks = max_rows * ((max_inputs + kBlock - 1) / kBlock);
  const auto segments = static_cast<size_t>(max_rows * ((max_inputs + kBlock * kSegment - 1) / (kBlock * kSegment)));
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer x, AlignedBuffer::TryAllocate(static_cast<size_t>(blocks) * sizeof(XBlock)));
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer extras, AlignedBuffer::TryAllocate(segments * kMaxExtras * sizeof(XBlock)));
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer counts, AlignedBuffer::TryAllocate(segments));
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer scratch,
                          AlignedBuffer::TryAllocate(static_cast<size_t>(n_workers) * sizeof(Scratch)));
  SURETY_ASSIGN_OR_RETURN(AlignedBuffer waiting,
                          AlignedBuffer::TryAllocate(static_cast<size_t>(n_workers) * sizeof(WaitingUnits)));
  waiting_ = std::move(waiting);
  quantized_x_ = std::move(x);
  extras_ = std::move(extras);
  extra_counts_ = std::move(counts);
  scratch_ = std::move(scratch);
  max_rows_ = max_rows;
  max_inputs_ = max_inputs;
  n_workers_ = n_workers;
  return OkStatus();
}

int64_t MatMul::reserved_bytes() const {
  return static_cast<int64_t>(quantized_x_.size_bytes() + extras_.size_bytes() + extra_counts_.size_bytes() +
                              scratch_.size_bytes() + waiting_.size_bytes());
}

void MatMul::Run(Executor& executor, ConstMatrixF x, std::span<const MatMulTask> tasks) {
  if (x.rows == 0 || tasks.empty()) return;
  const int n_workers = executor.n_workers();
  SURETY_CHECK_MSG(x.rows <= max_rows_ && x.cols <= max_inputs_ && n_workers <= n_workers_,
                   "more rows, inputs or workers than reserved");
  int64_t weight_bytes = 0;
  for (const MatMulTask& task : tasks) {
    SURETY_CHECK(task.weight->n_inputs() == x.cols);
    SURETY_CHECK(task.out.rows == x.rows && task.out.cols == task.weight->n_outputs());
    weight_bytes += task.weight->size_bytes();
  }
  Plan plan = MakePlan(x, tasks, quantized_x_.as<XBlock>(), n_workers);
  plan.extras = extras_.as<XBlock>();
  plan.extra_counts = extra_counts_.as<uint8_t>();
  Scratch* scratch = scratch_.as<Scratch>();
  const bool serial = n_workers == 1 || plan.n_units == 1 || weight_bytes * x.rows <= kSerialBytes;
  const bool caller_quantizes = serial || x.rows == 1 || x.rows * x.cols <= kSerialQuantize;
  if (plan.xq != nullptr && caller_quantizes) QuantizeShare(plan, 0, 1);
  if (serial) {
    for (int64_t i = 0; i < plan.n_units; ++i) RunUnit(plan, i, scratch[0]);
    return;
  }
  const std::span<WaitingUnits> waiting(waiting_.as<WaitingUnits>(), static_cast<size_t>(n_workers));
  for (int worker = 0; worker < n_workers; ++worker) {
    const Share share = ShareOf(plan.n_units, worker, n_workers);
    waiting[static_cast<size_t>(worker)].span.store(
        WaitingUnits::Pack(static_cast<uint64_t>(share.begin), static_cast<uint64_t>(share.end)),
        std::memory_order_relaxed);
  }
  executor.Run([&](int worker) {
    if (plan.xq != nullptr && !caller_quantizes) {
      QuantizeShare(plan, worker, n_workers);
      executor.Barrier(worker);
    }
    for (int64_t i; (i = TakeUnit(waiting, worker)) >= 0;) RunUnit(plan, i, scratch[worker]);
  });
}

}  // namespace surety::kernels::cpu
