#include "coordinator/core/checkpoints.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "coordinator/core/early_stop.h"

namespace paracord {
namespace {

// Whether two checkpoints of a job have the same contents.
bool SameProgress(const Manifest& a, const Manifest& b) {
  return std::ranges::equal(a.partitions, b.partitions, [](const auto& one, const auto& other) {
    return one.updates == other.updates && one.applied == other.applied &&
           one.rejected == other.rejected && one.healthy == other.healthy;
  });
}

bool SaysDiskFull(const std::string& why) {
  return absl::StrContains(why, std::strerror(ENOSPC)) ||
         absl::StrContains(why, std::strerror(EDQUOT));
}

// Whether `a` has an earlier generation or round than `b`. A missing name comes first.
bool Older(const std::optional<CheckpointName>& a, const std::optional<CheckpointName>& b) {
  const auto order = [](const std::optional<CheckpointName>& name) {
    return name.has_value() ? std::tuple(true, name->generation, name->round)
                            : std::tuple(false, uint64_t{0}, uint64_t{0});
  };
  return order(a) < order(b);
}

}  // namespace

Checkpoints::Checkpoints(std::vector<Manifest> committed,
                         std::map<std::string, std::string> refused)
    : committed_(std::move(committed)), refused_(std::move(refused)) {}

void Checkpoints::Add(Manifest manifest) {
  const auto older = std::ranges::find_if(
      committed_, [&](const Manifest& other) { return Older(other.name, manifest.name); });
  if (manifest.base.empty()) more_links_ = 0;
  committed_.insert(older, std::move(manifest));
}

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

bool Checkpoints::Has(const std::string& name) const {
  return !refused_.contains(name) && std::ranges::any_of(committed_, [&](const Manifest& one) {
    return one.name.ToString() == name;
  });
}

const Manifest* Checkpoints::Holding(uint64_t batches) const {
  for (const Manifest& manifest : committed_) {
    if (!Refused(manifest) && HoldsBatches(manifest, batches)) return &manifest;
  }
  return nullptr;
}

const Manifest* Checkpoints::Find(const std::string& name) const {
  const auto found = std::ranges::find_if(
      committed_, [&](const Manifest& manifest) { return manifest.name.ToString() == name; });
  return found == committed_.end() ? nullptr : &*found;
}

std::vector<std::string> Checkpoints::Continued(size_t full_every) const {
  std::vector<std::string> chain;
  const Manifest* link = Usable();
  while (chain.size() + 1 < full_every + more_links_) {
    if (link == nullptr || Refused(*link)) return {};
    chain.push_back(link->name.ToString());
    if (link->base.empty()) return chain;
    link = Find(link->base);
  }
  return {};
}

bool Checkpoints::ContinueInstead(const std::string& why, size_t full_every) {
  if (!SaysDiskFull(why) || full_every <= 1) return false;
  more_links_ += full_every;
  return !Continued(full_every).empty();
}

void Checkpoints::Lose(const std::string& name, const std::vector<std::string>& chain) {
  for (const std::string& link : chain) {
    Refuse(link,
           link == name ? "it is gone" : absl::StrCat("it continues ", name, ", which is gone"));
    if (link == name) return;
  }
}

std::string Checkpoints::BaseOf(const std::string& name) const {
  const Manifest* const manifest = Find(name);
  if (manifest != nullptr) return manifest->base;
  if (!refused_.contains(name)) return "";
  std::optional<CheckpointName> older;
  const auto take = [&](const std::optional<CheckpointName>& other) {
    if (!Older(other, ParseCheckpointName(name))) return;
    if (Older(older, other)) older = other;
  };
  for (const Manifest& other : committed_) take(other.name);
  for (const auto& [other, why] : refused_) take(ParseCheckpointName(other));
  return older.has_value() ? older->ToString() : "";
}

std::set<std::string> Checkpoints::WithChains(const std::set<std::string>& names) const {
  std::set<std::string> all;
  for (std::string name : names) {
    while (!name.empty() && all.insert(name).second) name = BaseOf(name);
  }
  return all;
}

const Manifest* Checkpoints::OtherFull(const std::set<std::string>& kept) const {
  for (const Manifest& manifest : committed_) {
    if (!manifest.base.empty() || Refused(manifest)) continue;
    if (!kept.contains(manifest.name.ToString())) return &manifest;
  }
  return nullptr;
}

void Checkpoints::Doubt(const std::string& name, const std::string& why) {
  doubted_ = true;
  Refuse(name, absl::StrCat("it is not known whether it was committed: ", why));
}

bool Checkpoints::Lost(uint64_t committed_ever) const {
  return Usable() == nullptr && (!refused_.empty() || committed_ever > 0);
}

std::string Checkpoints::LostReason(const std::string& dir, uint64_t committed_ever) const {
  const std::string folder = CheckpointsDirectory(dir);
  const std::string which =
      refused_.empty() ? absl::StrCat("job.state says that at least ", committed_ever,
                                      " were committed, but ", folder, " holds none")
                       : absl::StrCat("damaged or unreadable in ", folder, ": ",
                                      absl::StrJoin(refused_, ", ", absl::PairFormatter(": ")));
  const std::string help =
      doubted_ ? "A coordinator that is started again asks the storage once more"
               : absl::StrCat("Put them back from a copy, or begin anew: remove ", folder, " and ",
                              dir, "/job.state-* (paracord train --fresh does)");
  return absl::StrCat("no checkpoint can be restored: ", which, ". ", help);
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

std::vector<std::string> Checkpoints::Thin(size_t keep, const std::string& best,
                                           const std::vector<std::string>& in_use) {
  std::set<std::string> kept(in_use.begin(), in_use.end());
  size_t usable = 0;
  bool healthy_kept = false;
  const Manifest* newer = nullptr;  // the kept restorable checkpoint that is next newer
  for (const auto& [name, why] : refused_) kept.insert(name);
  for (const Manifest& manifest : committed_) {
    if (Refused(manifest)) continue;
    const std::string name = manifest.name.ToString();
    const bool replaced = newer != nullptr && SameProgress(*newer, manifest);
    const bool among_newest = usable < keep && !replaced;
    const bool only_healthy = !healthy_kept && manifest.healthy();
    if (!among_newest && !only_healthy && name != best) continue;
    ++usable;
    healthy_kept = healthy_kept || manifest.healthy();
    newer = &manifest;
    kept.insert(name);
  }
  kept = WithChains(kept);
  const auto full = std::ranges::count_if(committed_, [&](const Manifest& manifest) {
    return manifest.base.empty() && kept.contains(manifest.name.ToString()) && !Refused(manifest);
  });
  const bool in_chain = !committed_.empty() && !committed_.front().base.empty();
  const Manifest* const other = keep > 1 && in_chain && full < 2 ? OtherFull(kept) : nullptr;
  if (other != nullptr) kept.insert(other->name.ToString());
  // Newest first, so that an increment is never left without its base.
  std::vector<std::string> removed;
  for (const Manifest& manifest : committed_) {
    if (!kept.contains(manifest.name.ToString())) removed.push_back(manifest.name.ToString());
  }
  std::erase_if(committed_,
                [&](const Manifest& manifest) { return !kept.contains(manifest.name.ToString()); });
  return removed;
}

std::vector<std::string> Checkpoints::MakeRoom(const std::string& why, const std::string& best) {
  if (!SaysDiskFull(why)) return {};
  const auto usable = std::ranges::count_if(
      committed_, [&](const Manifest& manifest) { return !Refused(manifest); });
  // Bases of kept checkpoints stay, so keeping one fewer may remove none.
  for (size_t keep = static_cast<size_t>(std::max<std::ptrdiff_t>(usable, 1)) - 1; keep > 0;
       --keep) {
    std::vector<std::string> removed = Thin(keep, best);
    if (!removed.empty()) return removed;
  }
  return {};
}

}  // namespace paracord
