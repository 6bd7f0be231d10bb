#include "store/preparation.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "config/job.h"
#include "config/partitions.h"
#include "store/loader.h"

namespace paracord {
namespace {

// A partition is restored as it was cut; cutting anew is refused by the coordinator.
absl::Status SameCut(const Manifest& manifest, const VariableSpec& now, const PartitionSpec& spec,
                     const std::string& directory) {
  if (spec.id() < manifest.partitions.size()) {
    const PartitionSpec& then = manifest.partitions[spec.id()].spec;
    const VariableSpec& was = manifest.variables[then.variable()];
    if (then.name() == spec.name() && then.row_begin() == spec.row_begin() &&
        then.row_end() == spec.row_end() && was.name() == now.name() &&
        was.trainable() == now.trainable() &&
        std::equal(was.shape().begin(), was.shape().end(), now.shape().begin(),
                   now.shape().end())) {
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(directory, ": its partition ", spec.id(),
                                                    " is not ", spec.name(), " as ordered"));
}

}  // namespace

Preparation::Preparation(const LoadRequest& order, const PartitionSet& content,
                         const PartitionMaker& maker, MemoryReservation& memory)
    : order_(order), content_(content), maker_(maker), memory_(memory) {
  for (const PartitionSpec& spec : order.partitions()) {
    if (content.Find(spec.id()) != nullptr) continue;
    specs_.push_back(&spec);
    ids_.push_back(spec.id());
  }
  restored_.resize(ids_.size());
  read_.resize(ids_.size());
}

const VariableSpec& Preparation::VariableOf(size_t place) const {
  return order_.variables(static_cast<int>(specs_[place]->variable()));
}

bool Preparation::Has(uint32_t partition) const {
  return std::ranges::find(ids_, partition) != ids_.end();
}

void Preparation::Keep(const LoadRequest& order, const PartitionSet& content) {
  std::set<uint32_t> ordered;
  for (const PartitionSpec& spec : order.partitions()) {
    if (content.Find(spec.id()) == nullptr) ordered.insert(spec.id());
  }
  size_t kept = 0;
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (!ordered.contains(ids_[i])) continue;
    if (kept != i) {
      specs_[kept] = specs_[i];
      ids_[kept] = ids_[i];
      restored_[kept] = std::move(restored_[i]);
      read_[kept] = std::move(read_[i]);
    }
    ++kept;
  }
  specs_.resize(kept);
  ids_.resize(kept);
  restored_.resize(kept);
  read_.resize(kept);
}

absl::Status Preparation::Read(Files& files, const std::string& directory, KnownDamage& damage) {
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(files, directory));
  if (manifest.run_id != order_.fence().run_id()) {
    return absl::FailedPreconditionError(absl::StrCat(directory, ": is of run ", manifest.run_id,
                                                      ", not ", order_.fence().run_id()));
  }
  if (manifest.name.ToString() == checkpoint_) return absl::OkStatus();
  for (size_t i = 0; i < ids_.size(); ++i) {
    RETURN_IF_ERROR(SameCut(manifest, VariableOf(i), *specs_[i], directory));
  }
  const absl::Status status = ReadNewer(files, directory, manifest, damage);
  if (!status.ok()) {
    checkpoint_.clear();
    std::ranges::fill(read_, std::nullopt);
    return status;
  }
  name_ = manifest.name;
  checkpoint_ = manifest.name.ToString();
  directory_ = directory;
  return absl::OkStatus();
}

// Reads only the links of the chain that came after the checkpoint read last, and only for
// partitions that continue that checkpoint.
absl::Status Preparation::ReadNewer(Files& files, const std::string& directory,
                                    const Manifest& manifest, KnownDamage& damage) {
  ASSIGN_OR_RETURN(std::vector<ChainLink> links, ReadChain(files, directory, manifest, ids_));
  const auto before = std::ranges::find_if(links, [&](const ChainLink& link) {
    return !checkpoint_.empty() && link.directory == directory_;
  });
  std::vector<bool> goes_on(ids_.size());
  if (before != links.end()) {
    for (const size_t i : before->wanted) goes_on[i] = read_[i].has_value();
    for (auto link = links.begin(); link <= before; ++link) {
      std::erase_if(link->wanted, [&](size_t i) { return goes_on[i]; });
    }
  }
  for (size_t i = 0; i < ids_.size(); ++i) {
    if (goes_on[i]) continue;
    read_[i].reset();
    ASSIGN_OR_RETURN(RestoredPartition fresh,
                     RestoredPartition::Make(VariableOf(i), *specs_[i], maker_, memory_));
    restored_[i].emplace(std::move(fresh));
  }
  const auto place = [&](size_t i, bool delta, std::string_view slot, uint64_t elements) {
    return restored_[i]->PlaceOfTensor(delta, slot, elements);
  };
  const auto done = [&](size_t i, const StoredPartition& link) {
    return restored_[i]->EndLink(link);
  };
  return ReadLinks(files, directory, links, ids_, place, done, read_, damage);
}

absl::StatusOr<std::vector<std::unique_ptr<Partition>>> Preparation::Finish(bool own) {
  std::vector<std::unique_ptr<Partition>> made;
  for (size_t i = 0; i < ids_.size(); ++i) {
    absl::StatusOr<std::unique_ptr<Partition>> partition =
        restored_[i]->Finish(*read_[i], content_.plan, own ? name_ : std::nullopt);
    if (!partition.ok()) {
      return absl::Status(partition.status().code(),
                          absl::StrCat(directory_, ": partition ", specs_[i]->name(), ": ",
                                       std::string(partition.status().message())));
    }
    made.push_back(*std::move(partition));
  }
  return made;
}

PreparedLoad::PreparedLoad(LoadRequest order, std::shared_ptr<MemoryBudget> memory)
    : order_(std::move(order)), budget_(std::move(memory)), reserved_(*budget_->restores()) {}

absl::StatusOr<std::shared_ptr<PreparedLoad>> PreparedLoad::Make(
    LoadRequest order, uint64_t partition_bytes_max, std::shared_ptr<PinnedBytes> pinned,
    std::shared_ptr<MemoryBudget> memory) {
  RETURN_IF_ERROR(CheckLoad(order, partition_bytes_max));
  ASSIGN_OR_RETURN(const Job job, ParseJob(order.job_json()));
  if (job.guarantees.sync()) {
    return absl::InvalidArgumentError(
        "`prepare` is ordered in synchronous training, where all partitions go on from one cut");
  }
  const std::shared_ptr<PreparedLoad> made(new PreparedLoad(std::move(order), std::move(memory)));
  made->content_.run_id = made->order_.fence().run_id();
  made->content_.plan = made->order_.plan();
  ASSIGN_OR_RETURN(made->content_.optimizer, ParseOptimizer(job.optimizer));
  const MemoryNeed need = NeedOf(made->order_, made->content_.optimizer);
  RETURN_IF_ERROR(made->budget_->CheckBeside(need.variables, need.pushed));
  made->reserved_.Count(need.variables);
  made->maker_.emplace(made->content_, /*keeps_before=*/false, job.seed, std::move(pinned));
  made->partitions_.emplace(made->order_, made->content_, *made->maker_, made->reserved_);
  return made;
}

bool PreparedLoad::IsLike(const PreparedLoad& other) const {
  return IsOfJob(other.order_) && order_.partitions_size() == other.order_.partitions_size() &&
         CountIn(other.order_) == partitions_->size();
}

bool PreparedLoad::IsFor(const LoadRequest& order) const {
  return !partitions_->checkpoint().empty() && IsOfJob(order) && CountIn(order) > 0;
}

bool PreparedLoad::IsOfJob(const LoadRequest& order) const {
  return order.fence().run_id() == order_.fence().run_id() && order.job_json() == order_.job_json();
}

size_t PreparedLoad::CountIn(const LoadRequest& order) const {
  return static_cast<size_t>(std::ranges::count_if(
      order.partitions(), [&](const PartitionSpec& spec) { return partitions_->Has(spec.id()); }));
}

}  // namespace paracord
