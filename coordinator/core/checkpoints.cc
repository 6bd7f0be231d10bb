#include "coordinator/core/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/early_stop.h"

namespace paracord {
namespace {

// Whether two checkpoints of one job hold the same.
bool SameProgress(const Manifest& a, const Manifest& b) {
  return std::ranges::equal(a.partitions, b.partitions, [](const auto& one, const auto& other) {
    return one.updates == other.updates && one.applied == other.applied &&
           one.rejected == other.rejected && one.healthy == other.healthy;
  });
}

}  // namespace

Checkpoints::Checkpoints(std::vector<Manifest> committed,
                         std::map<std::string, std::string> refused)
    : committed_(std::move(committed)), refused_(std::move(refused)) {}

CheckpointName Checkpoints::newest_name() const {
  return newest() == nullptr ? CheckpointName() : newest()->name;
}

bool Checkpoints::Refused(const Manifest& manifest) const {
  return refused_.contains(manifest.name.ToString());
}

const Manifest* Checkpoints::Usable() const {
  for (const Manifest& manifest : committed_) {
    if (!Refused(manifest)) return &manifest;
  }
  return nullptr;
}

const Manifest* Checkpoints::Holding(uint64_t batches) const {
  for (const Manifest& manifest : committed_) {
    if (!Refused(manifest) && HoldsBatches(manifest, batches)) return &manifest;
  }
  return nullptr;
}

bool Checkpoints::Lost(uint64_t committed_ever) const {
  return Usable() == nullptr && (!refused_.empty() || committed_ever > 0);
}

std::string Checkpoints::LostReason(const std::string& dir, uint64_t committed_ever) const {
  const std::string folder = CheckpointsDirectory(dir);
  return absl::StrCat("no checkpoint can be restored: ",
                      refused_.empty()
                          ? absl::StrCat("job.state says that at least ", committed_ever,
                                         " were committed, but ", folder, " holds none")
                          : absl::StrCat("damaged or unreadable in ", folder, ": ",
                                         absl::StrJoin(refused_, ", ", absl::PairFormatter(": "))),
                      ". Put them back from a copy, or begin anew: remove ", folder, " and ", dir,
                      "/job.state-* (paracord train --fresh does)");
}

uint64_t Checkpoints::LeastEntered(uint64_t batches) const {
  if (committed_.empty()) return 0;
  for (const Manifest& manifest : committed_) {
    for (const ManifestPartition& partition : manifest.partitions) {
      if (!manifest.variables[partition.spec.variable()].trainable()) continue;
      batches = std::min(batches, partition.applied + partition.rejected);
    }
  }
  return batches;
}

std::vector<std::string> Checkpoints::Thin(size_t keep, const std::string& best) {
  std::vector<std::string> removed;
  std::vector<Manifest> kept;
  size_t usable = 0;
  bool healthy_kept = false;
  std::optional<size_t> newer;  // the place in `kept` of the next newer usable one
  for (Manifest& manifest : committed_) {
    if (Refused(manifest)) {
      kept.push_back(std::move(manifest));
      continue;
    }
    const bool replaced = newer.has_value() && SameProgress(kept[*newer], manifest);
    const bool among_newest = usable < keep && !replaced;
    const bool only_healthy = !healthy_kept && manifest.healthy();
    if (among_newest || only_healthy || manifest.name.ToString() == best) {
      ++usable;
      healthy_kept = healthy_kept || manifest.healthy();
      newer = kept.size();
      kept.push_back(std::move(manifest));
    } else {
      removed.push_back(manifest.name.ToString());
    }
  }
  committed_ = std::move(kept);
  return removed;
}

std::vector<std::string> Checkpoints::MakeRoom(const std::string& why, const std::string& best) {
  const bool full = absl::StrContains(why, std::strerror(ENOSPC)) ||
                    absl::StrContains(why, std::strerror(EDQUOT));
  if (!full) return {};
  const auto usable = std::ranges::count_if(
      committed_, [&](const Manifest& manifest) { return !Refused(manifest); });
  if (usable < 2) return {};
  return Thin(static_cast<size_t>(usable) - 1, best);
}

}  // namespace paracord
