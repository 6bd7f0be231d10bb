// Provides the processor, with one thread, as the device of the tests.
#include "tensor/cpu/cpu_ops.h"
#include "tests/keras/model_testing.h"

namespace paracord {

std::unique_ptr<Ops> TestOps() { return MakeCpuOps(1); }

}  // namespace paracord
