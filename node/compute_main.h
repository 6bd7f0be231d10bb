// The flags that say on which device and with how many threads a worker, a node or an evaluator
// computes, and whether it runs programs of jobs. Used in main.
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

struct ComputerFlags {
  std::string device = "auto";
  int64_t threads;  // default: the number of the machine's cores
  bool programs_allowed = false;

  ComputerFlags();
  void AddTo(Flags& flags);  // this object must outlive `flags`
};

// What ChooseComputer makes of the flags.
struct Computer {
  std::string device;    // the names of the chosen device or devices
  uint32_t devices = 1;  // how many devices `device` names
  DeviceUse use;
  std::string note;     // for the log, why no GPU was chosen; "": nothing to say
  ProgramUse programs;  // for jobs whose model is a program
  uint64_t memory_limit = MemoryBudget::kUnlimited;  // bytes
  uint64_t memory_parts = 1;  // memory_limit is one of so many equal parts of --memory-limit
};

// Chooses the devices for a task. INVALID_ARGUMENT: --device names no usable device.
absl::StatusOr<Computer> ChooseComputer(const ComputerFlags& flags, const Task& task,
                                        uint64_t memory_limit);

// Returns a function that opens a job's data and builds its model for the chosen devices. `trains`:
// to train; false: to evaluate the test data. `dir`: the job's directory, in which facts about data
// files and compiled modules are kept; "": nothing is kept. When a device is lost, the process ends
// with the exit code kDeviceFailed.
OpenWorkloadFn Opener(Daemon& daemon, Computer computer, const std::string& dir, bool trains);

}  // namespace paracord
