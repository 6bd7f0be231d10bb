// The device that --device names, its threads and the programs that a worker, a node or an
// evaluator computes with. Used in main.
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

// Flags about the device and the threads that compute gradients.
struct ComputerFlags {
  std::string device = "auto";
  int64_t threads;  // default: all cores of the machine
  bool programs_allowed = false;

  ComputerFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// What ChooseComputer makes of the flags.
struct Computer {
  std::string device;  // for display
  uint32_t devices = 1;
  DeviceUse use;
  std::string note;     // why no GPU computes
  ProgramUse programs;  // for jobs whose model is a program
  uint64_t memory_limit = MemoryBudget::kUnlimited;
  uint64_t memory_parts = 1;  // equal parts that --memory-limit is cut into
};

// Chooses the device for a task. INVALID_ARGUMENT: no device has the name.
absl::StatusOr<Computer> ChooseComputer(const ComputerFlags& flags, const Task& task,
                                        uint64_t memory_limit);

// Returns a function that opens a job's data and model on the computer, with gradients if it
// `trains`. A lost device ends the process.
OpenWorkloadFn Opener(Daemon& daemon, Computer computer, const std::string& dir, bool trains);

}  // namespace paracord
