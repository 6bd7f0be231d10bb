// Files in memory, for tests of readers.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/files.h"

namespace paracord {

class MemoryFiles : public Files {
 public:
  std::map<std::string, std::string> contents;

  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    const auto at = contents.find(path);
    if (at == contents.end()) return absl::NotFoundError(path + ": no such file");
    return std::make_unique<Reader>(at->second);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    const std::string prefix = path.ends_with('/') ? path : path + "/";
    std::vector<std::string> names;
    for (const auto& [name, bytes] : contents) {
      if (name.rfind(prefix, 0) != 0) continue;
      const std::string rest = name.substr(prefix.size());
      const std::string first = rest.substr(0, rest.find('/'));
      if (names.empty() || names.back() != first) names.push_back(first);
    }
    if (names.empty()) return absl::NotFoundError(path + ": no such directory");
    return names;
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string&) override {
    return absl::UnimplementedError("read only");
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string&) override {
    return absl::UnimplementedError("read only");
  }
  absl::Status CreateExclusive(const std::string&, std::string_view) override {
    return absl::UnimplementedError("read only");
  }
  absl::Status Rename(const std::string&, const std::string&) override {
    return absl::UnimplementedError("read only");
  }
  absl::Status SyncDirectory(const std::string&) override {
    return absl::UnimplementedError("read only");
  }
  absl::Status MakeDirectories(const std::string&) override {
    return absl::UnimplementedError("read only");
  }
  absl::Status RemoveTree(const std::string&) override {
    return absl::UnimplementedError("read only");
  }

 private:
  class Reader : public ReadFile {
   public:
    explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
    uint64_t size() const override { return bytes_.size(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
      if (offset + out.size() > bytes_.size()) return absl::OutOfRangeError("short");
      std::copy_n(bytes_.data() + offset, out.size(), out.data());
      return absl::OkStatus();
    }

   private:
    const std::string bytes_;
  };
};

}  // namespace paracord
