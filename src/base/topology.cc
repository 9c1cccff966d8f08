#include "base/topology.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <tuple>

namespace surety {
namespace {

constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of linux/mempolicy.h
constexpr int kDefaultPolicy = 0;
constexpr int kMostNodes = 1024;
constexpr int kFewCores = 4;
constexpr int kHighestNumber = 1 << 16;  // of processors and nodes

struct NodeMask {
  static constexpr int kBits = 8 * sizeof(unsigned long);  // NOLINT(google-runtime-int): the call's type
  unsigned long bits[kMostNodes / kBits] = {};             // NOLINT(google-runtime-int)

  void Add(int node) {
    if (node >= 0 && node < kMostNodes) bits[node / kBits] |= 1UL << node % kBits;
  }
};

std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// "0-3,8" as numbers; empty where it is no such list.
std::vector<int> NumbersIn(const std::string& path) {
  std::ifstream file(path);
  std::vector<int> numbers;
  for (char comma = ','; comma == ',';) {
    int first = 0, last = 0;
    if (!(file >> first) || first < 0) return {};
    last = first;
    if (file.peek() == '-') {
      file.get();
      if (!(file >> last) || last < first) return {};
    }
    if (last > kHighestNumber) return {};
    for (int i = first; i <= last; ++i) numbers.push_back(i);
    if (!file.get(comma)) break;
  }
  return numbers;
}

std::map<int, int> NodeOfProcessors(const std::string& root) {
  std::map<int, int> nodes;
  const std::string folder = root + "/sys/devices/system/node/";
  for (const int node : NumbersIn(folder + "online")) {
    for (const int id : NumbersIn(folder + "node" + std::to_string(node) + "/cpulist")) nodes[id] = node;
  }
  return nodes;
}

}  // namespace

int Topology::n_nodes() const {
  std::set<int> nodes;
  for (const Processor& processor : processors) nodes.insert(processor.node);
  return std::max(1, static_cast<int>(nodes.size()));
}

Topology ReadTopology(const std::string& root, std::span<const int> allowed) {
  Topology topology;
  const std::map<int, int> nodes = NodeOfProcessors(root);
  for (const int id : allowed) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(id) + "/";
    Processor processor;
    processor.id = id;
    // Numbers of cores are unique on no more than a die or a cluster; who shares a core is said outright.
    std::vector<int> sharing = NumbersIn(folder + "topology/core_cpus_list");
    if (sharing.empty()) sharing = NumbersIn(folder + "topology/thread_siblings_list");  // before Linux 5.2
    processor.core = id;
    for (const int other : sharing) processor.core = std::min(processor.core, other);
    const auto node = nodes.find(id);
    processor.node = node == nodes.end() ? 0 : node->second;
    const auto capacity = NumberIn(folder + "cpu_capacity");
    processor.speed = capacity ? *capacity : NumberIn(folder + "cpufreq/cpuinfo_max_freq").value_or(0);
    processor.speed = std::max<int64_t>(processor.speed, 0);
    topology.processors.push_back(processor);
  }
  std::sort(topology.processors.begin(), topology.processors.end(),
            [](const Processor& a, const Processor& b) { return a.id < b.id; });
  return topology;
}

Topology ThisTopology() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> allowed;
  if (::sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      if (CPU_ISSET(i, &set)) allowed.push_back(i);
    }
  }
  return ReadTopology("", allowed);
}

WorkerPlan PlanWorkers(const Topology& topology, double quota) {
  int64_t fastest = 0;
  for (const Processor& processor : topology.processors) fastest = std::max(fastest, processor.speed);
  std::set<int> cores, seen;
  for (const Processor& processor : topology.processors) cores.insert(processor.core);
  std::vector<Processor> firsts, further, slow;
  for (const Processor& processor : topology.processors) {
    const bool fast = processor.speed == 0 || processor.speed >= fastest - processor.speed;
    (!fast ? slow : seen.insert(processor.core).second ? firsts : further).push_back(processor);
  }
  WorkerPlan plan;
  for (std::vector<Processor>* part : {&firsts, &further, &slow}) {
    std::sort(part->begin(), part->end(), [](const Processor& a, const Processor& b) {
      return std::tuple(a.node, -a.speed, a.id) < std::tuple(b.node, -b.speed, b.id);
    });
    for (const Processor& processor : *part) plan.processors.push_back(processor.id);
  }
  const size_t n_good = firsts.size() + (cores.size() < kFewCores ? further.size() : 0);
  plan.n_workers = std::max(1, static_cast<int>(n_good));
  if (quota > 0) plan.n_workers = std::clamp(static_cast<int>(std::ceil(quota)), 1, plan.n_workers);
  return plan;
}

InterleavedMemory::InterleavedMemory(const Topology& topology, Executor& executor) : executor_(executor) {
  if (topology.n_nodes() < 2) return;
  NodeMask mask;
  for (const Processor& processor : topology.processors) mask.Add(processor.node);
  active_.resize(static_cast<size_t>(executor.n_workers()));
  executor.Run([&](int worker) {
    int policy = -1;
    if (::syscall(SYS_get_mempolicy, &policy, nullptr, 0, nullptr, 0) != 0 || policy != kDefaultPolicy) return;
    active_[static_cast<size_t>(worker)] =
        ::syscall(SYS_set_mempolicy, kInterleave, mask.bits, kMostNodes + 1) == 0 ? 1 : 0;
  });
}

InterleavedMemory::~InterleavedMemory() {
  if (active_.empty()) return;
  executor_.Run([&](int worker) {
    if (active_[static_cast<size_t>(worker)] != 0) ::syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
  });
}

}  // namespace surety
