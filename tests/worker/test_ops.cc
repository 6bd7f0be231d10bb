// The processor, with one thread.
#include "tests/worker/model_testing.h"
#include "worker/ops/cpu/cpu_ops.h"

namespace paracord {

std::unique_ptr<Ops> TestOps() { return MakeCpuOps(1); }

}  // namespace paracord
