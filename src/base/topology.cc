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
#include <utility>

namespace surety {
namespace {

constexpr int kInterleave = 3;  // MPOL_INTERLEAVE of linux/mempolicy.h
constexpr int kDefaultPolicy = 0;
constexpr int kMostNodes = 1024;
constexpr int kFewCores = 4;

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
      if (!(file >> last) || last < first || last > first + CPU_SETSIZE) return {};
    }
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
    const auto core = NumberIn(folder + "topology/core_id");
    // One that says nothing, or -1 as virtual machines do, shares its core with nobody.
    processor.core = core && *core >= 0 ? static_cast<int>(*core) : -1 - id;
    processor.package = static_cast<int>(NumberIn(folder + "topology/physical_package_id").value_or(0));
    const auto node = nodes.find(id);
    processor.node = node == nodes.end() ? 0 : node->second;
    const auto capacity = NumberIn(folder + "cpu_capacity");
    processor.speed = capacity ? *capacity : NumberIn(folder + "cpufreq/cpuinfo_max_freq").value_or(0);
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
  std::set<std::pair<int, int>> cores, seen;
  for (const Processor& processor : topology.processors) cores.emplace(processor.package, processor.core);
  const bool use_all = cores.size() < kFewCores;
  std::vector<Processor> good, others;
  for (const Processor& processor : topology.processors) {
    const bool first_of_core = seen.emplace(processor.package, processor.core).second;
    const bool fast = processor.speed == 0 || 2 * processor.speed >= fastest;
    ((first_of_core || use_all) && fast ? good : others).push_back(processor);
  }
  const auto before = [](const Processor& a, const Processor& b) {
    return std::tuple(a.node, -a.speed, a.id) < std::tuple(b.node, -b.speed, b.id);
  };
  std::sort(good.begin(), good.end(), before);
  std::stable_sort(others.begin(), others.end(), [](const Processor& a, const Processor& b) {
    return a.speed > b.speed;
  });
  WorkerPlan plan;
  for (const Processor& processor : good) plan.processors.push_back(processor.id);
  for (const Processor& processor : others) plan.processors.push_back(processor.id);
  plan.n_workers = std::max(1, static_cast<int>(good.size()));
  if (quota > 0) plan.n_workers = std::clamp(static_cast<int>(std::ceil(quota)), 1, plan.n_workers);
  return plan;
}

InterleavedMemory::InterleavedMemory(const Topology& topology) {
  if (topology.n_nodes() < 2) return;
  unsigned long mask[kMostNodes / (8 * sizeof(unsigned long))] = {};  // NOLINT(google-runtime-int): the call's type
  constexpr int kBits = 8 * sizeof(mask[0]);
  for (const Processor& processor : topology.processors) {
    const int node = processor.node;
    if (node >= 0 && node < kMostNodes) mask[node / kBits] |= 1UL << node % kBits;
  }
  active_ = ::syscall(SYS_set_mempolicy, kInterleave, mask, kMostNodes + 1) == 0;
}

InterleavedMemory::~InterleavedMemory() {
  if (active_) ::syscall(SYS_set_mempolicy, kDefaultPolicy, nullptr, 0);
}

}  // namespace surety
