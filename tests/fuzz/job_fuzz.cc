// Parses the bytes as a job in canonical form, and as a job file. An accepted job must survive
// printing.
#include <string>

#include "config/job.h"
#include "config/json_fields.h"
#include "tests/batches.h"
#include "tests/data/memory_files.h"
#include "tests/fuzz/input.h"

namespace paracord::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (const absl::StatusOr<Job> job = ParseJob(text); job.ok()) {
    const std::string printed = JobToJson(*job);
    const absl::StatusOr<Job> again = ParseJob(printed);
    Demand(again.ok() && JobToJson(*again) == printed, "a job survives being printed");
    (void)PsSettings(*job);
    Demand(CheckResumable(*job, *again, PlanOf(1, 1, 8)).ok(), "a job may go on as itself");
  }
  MemoryFiles files;
  files.contents["/job.json"] = text;
  files.contents["/model.json"] = R"({"class_name": "Sequential", "config": {"layers": []}})";
  Problems problems;
  (void)ReadJobFile(files, "/job.json", {}, problems);
  return 0;
}

}  // namespace paracord::fuzz
