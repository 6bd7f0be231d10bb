// The flags that say on which device, with how many threads and with which programs a worker, a
// node or an evaluator computes. Used in main.
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
  int64_t threads;  // default: the number of the machine's cores
  bool programs_allowed = false;

  ComputerFlags();
  void AddTo(Flags& flags);  // must outlive `flags`
};

// What ChooseComputer makes of the flags.
struct Computer {
  std::string device;    // the chosen device or devices, for display
  uint32_t devices = 1;  // how many devices `device` names
  DeviceUse use;
  std::string note;     // why no GPU was chosen, for the log; "": nothing to say
  ProgramUse programs;  // for jobs whose model is a program
  uint64_t memory_limit = MemoryBudget::kUnlimited;  // bytes
  uint64_t memory_parts = 1;  // memory_limit is one of so many equal parts of --memory-limit
};

// Chooses the device for a task. INVALID_ARGUMENT: there is no device of the name --device.
absl::StatusOr<Computer> ChooseComputer(const ComputerFlags& flags, const Task& task,
                                        uint64_t memory_limit);

// Returns a function that opens a job's data and builds its model on the computer: to train, or to
// evaluate the test data if not `trains`. `dir`: the job's directory, for caches; "": none. When
// the device is lost, the process ends with the exit code kDeviceFailed.
OpenWorkloadFn Opener(Daemon& daemon, Computer computer, const std::string& dir, bool trains);

}  // namespace paracord
