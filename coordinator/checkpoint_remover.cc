#include "coordinator/checkpoint_remover.h"

#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_text.h"
#include "coordinator/leftovers.h"
#include "storage/checkpoint.h"

namespace paracord {

CheckpointRemover::CheckpointRemover(Files& files, std::string checkpoints)
    : files_(files), checkpoints_(std::move(checkpoints)) {}

absl::Status CheckpointRemover::RemoveOne(Old& old) {
  const absl::StatusOr<Manifest> manifest =
      ReadManifest(files_, absl::StrCat(checkpoints_, "/", old.name));
  if (manifest.ok()) old.base = manifest->base;
  bool ended = false;
  const bool needed = needed_.contains(old.name);
  const absl::Status removed =
      needed ? absl::OkStatus() : RemoveCheckpoint(files_, checkpoints_, old.name, ended);
  if (removed.ok() && !needed) return removed;
  if (!ended) needed_.insert(old.base);
  again_.push_back(old);
  return removed;
}

std::vector<absl::Status> CheckpointRemover::Remove(const std::vector<std::string>& names) {
  // None of the new ones continues one that is tried again, which was to go before it.
  std::vector<Old> olds = std::exchange(again_, {});
  const size_t tried = olds.size();
  for (const std::string& name : names) olds.push_back({.name = name, .base = ""});
  std::vector<absl::Status> errors;
  needed_.clear();
  for (size_t i = 0; i < olds.size(); ++i) {
    const absl::Status removed = RemoveOne(olds[i]);
    if (removed.ok() || i < tried) continue;
    errors.emplace_back(
        removed.code(),
        absl::StrCat(olds[i].name,
                     " cannot be removed, and is tried again with the next: ", Text(removed)));
  }
  if (again_.size() > kAgainMax) {
    again_.erase(again_.begin(), again_.end() - static_cast<std::ptrdiff_t>(kAgainMax));
  }
  return errors;
}

}  // namespace paracord
