// A file that is compressed as gzip while it is written. Owned and used by one thread. Sync ends
// the gzip stream: after a Sync that returned OK, every call returns FAILED_PRECONDITION. After an
// error, every call returns that error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/files.h"

namespace paracord {

class GzipFile : public WriteFile {
 public:
  explicit GzipFile(std::unique_ptr<WriteFile> file);
  ~GzipFile() override;

  absl::Status Append(std::string_view bytes) override;
  absl::Status Sync() override;

 private:
  struct Deflater;
  absl::Status Deflate(std::string_view bytes, bool end);

  const std::unique_ptr<WriteFile> file_;
  const std::unique_ptr<Deflater> deflater_;
  // The first error, or an error that says that the stream has ended.
  absl::Status failed_;
};

}  // namespace paracord
