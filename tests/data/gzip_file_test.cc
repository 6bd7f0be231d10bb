// A compressed file whose disk fails.
#include "data/gzip_file.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>

namespace paracord {
namespace {

class DiskThatFails : public WriteFile {
 public:
  explicit DiskThatFails(bool syncs) : syncs_(syncs) {}
  absl::Status Append(std::string_view) override {
    return syncs_ ? absl::OkStatus() : absl::UnavailableError("out.gz: no space left");
  }
  absl::Status Sync() override { return absl::UnavailableError("out.gz: input/output error"); }

 private:
  const bool syncs_;
};

TEST_CASE("the error of the disk is what every later call on a compressed file returns") {
  const bool at_sync = GENERATE(false, true);
  GzipFile file(std::make_unique<DiskThatFails>(at_sync));
  CHECK(file.Append("a line\n").ok() == at_sync);
  const absl::Status failed = file.Sync();
  CHECK(absl::IsUnavailable(failed));
  CHECK(file.Sync() == failed);
  CHECK(file.Append("another\n") == failed);
}

}  // namespace
}  // namespace paracord
