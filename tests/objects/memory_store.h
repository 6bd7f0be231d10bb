// An object store in memory that fails on demand, before or after a request is carried out.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "objects/object_store.h"
#include "tests/objects/object_page.h"

namespace paracord {

class MemoryStore : public ObjectStore {
 public:
  enum class Fault { kNone, kBefore, kAfter };
  std::function<Fault()> fault = [] { return Fault::kNone; };

  bool conditions = true;  // false: conditions are ignored

  struct Object {
    std::string bytes;
    uint64_t version = 0;
  };
  std::map<std::string, Object> objects;
  struct Upload {
    std::string path;
    std::map<uint32_t, std::string> parts;
  };
  std::map<std::string, Upload> uploads;

  absl::StatusOr<ObjectFacts> Look(const std::string& path) override {
    return Do(path, [&]() -> absl::StatusOr<ObjectFacts> {
      const auto found = objects.find(path);
      if (found == objects.end()) return absl::NotFoundError(path);
      return ObjectFacts{found->second.bytes.size(), absl::StrCat(found->second.version)};
    });
  }
  absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                   std::span<char> out) override {
    return Do(path, [&]() -> absl::Status {
      const auto found = objects.find(path);
      if (found == objects.end()) return absl::NotFoundError(path);
      if (absl::StrCat(found->second.version) != version) return absl::DataLossError(path);
      std::copy_n(found->second.bytes.data() + offset, out.size(), out.data());
      return absl::OkStatus();
    });
  }
  absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) override {
    return Do(path, [&]() -> absl::Status {
      if (if_absent && conditions && objects.contains(path)) return absl::AlreadyExistsError(path);
      objects[path] = {std::string(bytes), ++last_};
      return absl::OkStatus();
    });
  }
  absl::Status Remove(const std::string& path) override {
    return Do(path, [&]() -> absl::Status {
      objects.erase(path);
      return absl::OkStatus();
    });
  }
  absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                  const std::string& from) override {
    return Do(prefix, [&]() -> absl::StatusOr<ObjectList> {
      constexpr size_t kPage = 3;
      ObjectList list;
      for (const auto& [path, object] : objects) {
        if (!AddToPage(path, prefix, deep, from, kPage, list)) break;
      }
      return list;
    });
  }
  absl::StatusOr<std::string> StartUpload(const std::string& path) override {
    return Do(path, [&]() -> absl::StatusOr<std::string> {
      std::string id = absl::StrCat("upload-", ++last_);
      uploads[id].path = path;
      return id;
    });
  }
  absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                      std::string_view bytes) override {
    return Do(upload.path, [&]() -> absl::StatusOr<std::string> {
      const auto found = uploads.find(upload.id);
      if (found == uploads.end()) return absl::NotFoundError(upload.path);
      found->second.parts[part] = bytes;
      return absl::StrCat(part);
    });
  }
  absl::Status FinishUpload(const OpenUpload& upload,
                            const std::vector<std::string>& tags) override {
    return Do(upload.path, [&]() -> absl::Status {
      const auto found = uploads.find(upload.id);
      if (found == uploads.end()) return absl::NotFoundError(upload.path);
      std::string whole;
      for (const std::string& tag : tags) {
        whole += found->second.parts[static_cast<uint32_t>(std::stoul(tag))];
      }
      objects[upload.path] = {std::move(whole), ++last_};
      uploads.erase(found);
      return absl::OkStatus();
    });
  }
  absl::Status AbortUpload(const OpenUpload& upload) override {
    return Do(upload.path, [&]() -> absl::Status {
      uploads.erase(upload.id);
      return absl::OkStatus();
    });
  }
  absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) override {
    return Do(prefix, [&]() -> absl::StatusOr<std::vector<OpenUpload>> {
      std::vector<OpenUpload> open;
      for (const auto& [id, upload] : uploads) {
        if (upload.path.starts_with(prefix)) open.push_back({upload.path, id});
      }
      return open;
    });
  }

 private:
  template <class Work>
  auto Do(const std::string& path, Work work) -> decltype(work()) {
    const Fault drawn = fault();
    const absl::Status away = absl::UnavailableError(path + ": away");
    if (drawn == Fault::kBefore) return away;
    auto done = work();
    if (drawn == Fault::kAfter) return away;
    return done;
  }

  uint64_t last_ = 0;
};

}  // namespace paracord
