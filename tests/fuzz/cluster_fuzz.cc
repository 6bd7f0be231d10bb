// Parses the bytes as TF_CONFIG.
#include <string>

#include "config/cluster.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<std::optional<Cluster>> cluster = ParseTfConfig(text);
  Demand(cluster.ok() || !cluster.status().message().empty(), "a refusal says why");
  if (cluster.ok() && cluster->has_value()) (void)TaskElsewhere(**cluster);
  ParseTask(text).status().IgnoreError();
  CheckAddress(text, "key").IgnoreError();
  return 0;
}

}  // namespace paracord::fuzz
