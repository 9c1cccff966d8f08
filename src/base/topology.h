// Which processors workers are put on, from what the system says of cores, kinds of cores and memory nodes.
//
// Threads: any. Errors: none; what the system does not say is taken as unknown: every processor a core of its own, all
// equally fast, one memory node.
// Source: /sys/devices/system/cpu and /sys/devices/system/node as the Linux kernel documents them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/executor.h"

namespace surety {

struct Processor {
  int id = 0;
  int core = 0;       // the lowest id among the processors that share its core's units (SMT)
  int node = 0;       // of memory
  int64_t speed = 0;  // compared among processors alone: the scheduler's capacity, else the highest frequency
};

struct Topology {
  std::vector<Processor> processors;  // by id

  int n_nodes() const;
};

// Of these processors. `root`: the folder that sys is in; "" on a machine, another in tests.
Topology ReadTopology(const std::string& root, std::span<const int> allowed);

// The processors of the process's affinity mask, on this machine.
Topology ThisTopology();

struct WorkerPlan {
  // Worker i is put on processors[i]. First one processor of each core, memory node by memory node and fast cores first
  // in each; then, for whoever asks for more workers, the cores' further processors and the slow cores.
  std::vector<int> processors;
  // How many are worth using: cores at least half as fast as the fastest, no more than the quota. A second processor of
  // a core adds little, and at every barrier all wait for the slowest; of fewer than four cores all processors work.
  int n_workers = 1;
};

// `quota`: processors' worth of time that the process may take; 0: no limit.
WorkerPlan PlanWorkers(const Topology& topology, double quota);

// While it lives, memory that the executor's workers touch first, the caller's thread among them, lies on the nodes in
// turn, page by page, where `topology` has more than one: all workers read weights equally fast, and from all nodes'
// channels. A thread with a policy of its own (numactl, or another of these) keeps it.
//
// Threads: made and destroyed by the executor's caller, between runs.
class InterleavedMemory {
 public:
  InterleavedMemory(const Topology& topology, Executor& executor);
  ~InterleavedMemory();
  InterleavedMemory(const InterleavedMemory&) = delete;
  InterleavedMemory& operator=(const InterleavedMemory&) = delete;

 private:
  Executor& executor_;
  std::vector<char> active_;  // by worker; empty: nothing was done
};

}  // namespace surety
