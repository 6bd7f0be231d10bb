// Reads the bytes as a Keras model, and builds its graph as far as shapes are known.
#include <string>

#include "config/job.h"
#include "config/json_fields.h"
#include "config/limits.h"
#include "keras/build.h"
#include "keras/json.h"
#include "tensor/cpu/cpu_ops.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  absl::StatusOr<nlohmann::json> model = ParseJson(text, kJobBytesMax, kJobDepthMax);
  if (!model.ok()) return 0;
  ReadKerasModel(*model).status().IgnoreError();
  Job job;
  job.model = *std::move(model);
  job.loss.name = "mean_squared_error";
  job.batch = 2;
  CheckKerasModel(job, MakeCpuOps(1)).IgnoreError();
  (void)DeclaredVariables(job, MakeCpuOps(1));
  return 0;
}

}  // namespace paracord::fuzz
