// What a worker, a node and an evaluator compute with: the device that --device says, its threads
// and programs. Used in main.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "common/memory_budget.h"
#include "config/flags.h"
#include "daemon/daemon_process.h"
#include "keras/job_program.h"
#include "program/workload.h"

namespace paracord {

// The flags that say what computes.
struct ComputerFlags {
  std::string device = "auto";
  int64_t threads;  // at first as many as this machine has
  bool programs_allowed = false;

  ComputerFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// The computer is what the flags have led to.
struct Computer {
  std::string device;  // as it is shown
  uint32_t devices = 1;
  DeviceUse use;
  std::string note;     // why it is not a GPU
  ProgramUse programs;  // of jobs whose model is one
  uint64_t memory_limit = MemoryBudget::kUnlimited;
  uint64_t memory_parts = 1;  // memory_limit is one of so many equal parts of --memory-limit
};

// Chooses the device for a task. INVALID_ARGUMENT: there is none of that name.
absl::StatusOr<Computer> ChooseComputer(const ComputerFlags& flags, const Task& task,
                                        uint64_t memory_limit);

// Returns what opens data and model of a job with the computer, and with gradients if it `trains`.
// A device that is lost ends the process.
OpenWorkloadFn Opener(Daemon& daemon, Computer computer, const std::string& dir, bool trains);

}  // namespace paracord
