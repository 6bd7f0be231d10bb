// The simulated object store as one process sees it. Objects live in the world's storage under
// paths equal to their keys, and are durable at once. A request may be refused, lose its answer
// after it was carried out, or land seconds late if it is a put. Retries take no virtual time.
// Listings are consistent after a put, as S3 guarantees. Dies with the process. Made by SimNode.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "objects/object_store.h"
#include "sim/world/sim_node.h"
#include "sim/world/sim_storage.h"

namespace paracord {

class SimObjectStore : public ObjectStore {
 public:
  explicit SimObjectStore(SimNode& node) : node_(node) {}

  absl::StatusOr<ObjectFacts> Look(const std::string& path) override;
  absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                   std::span<char> out) override;
  absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                  const std::string& from) override;
  absl::StatusOr<std::string> StartUpload(const std::string& path) override;
  absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                      std::string_view bytes) override;
  absl::Status FinishUpload(const OpenUpload& upload,
                            const std::vector<std::string>& tags) override;
  absl::Status AbortUpload(const OpenUpload& upload) override;
  absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) override;

 private:
  // Runs `work` or refuses, and returns its answer or loses the answer.
  template <class Work>
  auto Ask(const std::string& path, Work work) -> decltype(work());
  template <class Work>
  auto Change(const char* what, const std::string& path, Work work) -> decltype(work());
  absl::Status PutLater(const std::string& path, std::string bytes, bool if_absent);
  SimStorage& storage();

  SimNode& node_;
};

}  // namespace paracord
