// The device of this test program: the CPU with one thread.
#include "tensor/cpu/cpu_ops.h"
#include "tests/keras/model_testing.h"

namespace paracord {

std::unique_ptr<Ops> TestOps() { return MakeCpuOps(1); }

}  // namespace paracord
