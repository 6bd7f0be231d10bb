// Builds the Keras program on one CPU thread, for OpenWorkload.
#pragma once

#include "keras/build.h"
#include "program/workload.h"
#include "tensor/cpu/cpu_ops.h"

namespace paracord {

inline BuildProgramFn OnOneThread() {
  return [](const Job& job, const Batch& schema) {
    return BuildKerasProgram(job, schema, MakeCpuOps(/*threads=*/1));
  };
}

}  // namespace paracord
