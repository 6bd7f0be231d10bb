// The simulated disk as oracles see it, beyond all faults of the world. Reading never fails.
// Writing always fails.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/files.h"
#include "common/status_macros.h"
#include "sim/world/sim_storage.h"

namespace paracord {

class StoredFiles : public Files {
 public:
  explicit StoredFiles(const SimStorage& storage) : storage_(storage) {}

  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    ASSIGN_OR_RETURN(std::string data, storage_.Contents(path));
    return std::make_unique<Reader>(std::move(data));
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) override {
    ASSIGN_OR_RETURN(const auto directory, storage_.FindDirectory(path));
    std::vector<std::string> names;
    for (const auto& [name, inode] : directory->entries) names.push_back(name);
    return names;
  }
  absl::StatusOr<std::unique_ptr<WriteFile>> Create(const std::string&) override { return No(); }
  absl::StatusOr<std::unique_ptr<WriteFile>> OpenToAppend(const std::string&) override {
    return No();
  }
  absl::Status CreateExclusive(const std::string&, std::string_view) override { return No(); }
  absl::Status Rename(const std::string&, const std::string&) override { return No(); }
  absl::Status SyncDirectory(const std::string&) override { return No(); }
  absl::Status MakeDirectories(const std::string&) override { return No(); }
  absl::Status RemoveTree(const std::string&) override { return No(); }

 private:
  class Reader : public ReadFile {
   public:
    explicit Reader(std::string data) : data_(std::move(data)) {}
    uint64_t size() const override { return data_.size(); }
    absl::Status ReadAt(uint64_t offset, std::span<char> out) const override {
      if (offset > data_.size() || out.size() > data_.size() - offset) {
        return absl::OutOfRangeError("behind the end");
      }
      if (!out.empty()) std::memcpy(out.data(), data_.data() + offset, out.size());
      return absl::OkStatus();
    }

   private:
    const std::string data_;
  };
  static absl::Status No() { return absl::UnimplementedError("for reading only"); }

  const SimStorage& storage_;
};

}  // namespace paracord
