// Parses the bytes as a checkpoint's manifest, as they are and with a right checksum. An accepted
// manifest must survive printing.
#include <string>

#include "absl/strings/str_format.h"
#include "storage/checkpoint.h"
#include "storage/crc32c.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  ParseManifest(text, "/MANIFEST.json").status().IgnoreError();
  ParseCheckpointName(text.substr(0, 80));
  const size_t end = text.rfind(",\n \"");
  const std::string_view body = text.substr(0, end);
  // The key of the checksum is the writer's.
  const std::string sealed = absl::StrFormat("%s,\n \"manifest_crc32c\": \"%08x\"\n}\n",
                                             std::string(body), Crc32c({body.data(), body.size()}));
  const absl::StatusOr<Manifest> manifest = ParseManifest(sealed, "/MANIFEST.json");
  if (!manifest.ok()) return 0;
  const std::string printed = ManifestToText(*manifest);
  const absl::StatusOr<Manifest> again = ParseManifest(printed, "/MANIFEST.json");
  Demand(again.ok() && ManifestToText(*again) == printed, "a manifest survives being printed");
  (void)LeastApplied(*manifest);
  (void)manifest->healthy();
  return 0;
}

}  // namespace paracord::fuzz
