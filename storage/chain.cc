#include "storage/chain.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

std::string NameIn(const std::string& directory) {
  return directory.substr(directory.rfind('/') + 1);
}

}  // namespace

std::string BaseOf(const std::string& directory, const Manifest& manifest) {
  return absl::StrCat(directory.substr(0, directory.rfind('/') + 1), manifest.base);
}

absl::Status InChainOf(const std::string& directory, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(),
      absl::StrCat(NameIn(directory), " continues another: ", std::string(status.message())));
}

absl::Status CheckSamePartition(const Manifest& base, const Manifest& manifest, uint32_t id,
                                const std::string& directory) {
  if (base.run_id != manifest.run_id) {
    return absl::FailedPreconditionError(absl::StrCat(directory, " is of run ", base.run_id,
                                                      ", and is continued by one of run ",
                                                      manifest.run_id));
  }
  if (id < base.partitions.size()) {
    const PartitionSpec& then = base.partitions[id].spec;
    const PartitionSpec& now = manifest.partitions[id].spec;
    const VariableSpec& was = base.variables[then.variable()];
    const VariableSpec& is = manifest.variables[now.variable()];
    const bool same_shape =
        std::equal(was.shape().begin(), was.shape().end(), is.shape().begin(), is.shape().end());
    if (then.name() == now.name() && then.row_begin() == now.row_begin() && same_shape) {
      return absl::OkStatus();
    }
  }
  return absl::FailedPreconditionError(absl::StrCat(directory, " has no partition ",
                                                    manifest.partitions[id].spec.name(),
                                                    " that could be continued"));
}

absl::Status CheckContinues(const StoredPartition& older, const StoredPartition& newer,
                            const std::string& directory, const Manifest& manifest) {
  const std::string& name = manifest.partitions[newer.id].spec.name();
  const auto& was = older.table;
  const auto& is = newer.table;
  // A fixed table with all rows has no table metadata.
  const bool whole = is.has_value() && is->fixed && !was.has_value();
  if ((!was.has_value() && !whole) || !is.has_value() || !is->since.has_value()) {
    return absl::DataLossError(
        absl::StrCat(directory, ": partition ", name, " does not say what it continues"));
  }
  const bool same_slots =
      whole || (is->since->now == was->now && is->fixed == was->fixed && is->slots == was->slots &&
                is->steps == was->steps && is->row_slots == was->row_slots);
  const bool same = same_slots && is->since->updates == older.updates;
  if (!same) {
    return absl::DataLossError(absl::StrCat(directory, ": partition ", name, " continues ",
                                            is->since->updates, " updates, ", manifest.base,
                                            " has ", older.updates));
  }
  if (is->since->base.empty() || is->since->base == manifest.base) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(directory, ": partition ", name, " continues ",
                                          is->since->base, ", and its manifest says ",
                                          manifest.base));
}

absl::Status ChangedTwice(uint64_t id) {
  return absl::DataLossError(absl::StrCat("the changed row of id ", id, " stands twice"));
}

absl::Status ChangedElsewhere(uint64_t id) {
  return absl::DataLossError(absl::StrCat("the changed row of id ", id, " is none of its own"));
}

absl::Status CheckRowsAfter(const TableMetadata& table, uint64_t rows) {
  if (rows == table.rows) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("it has ", rows, " rows after the changes, and should have ", table.rows));
}

namespace {

// Reads the partitions `ids` from one link of a chain, and passes them to `done`. `read` has the
// state of each partition at the previous link.
absl::Status ReadLink(Files& files, const ChainLink& link, std::span<const uint32_t> ids,
                      const LinkPlaceFn& place, const LinkDoneFn& done,
                      std::vector<std::optional<StoredPartition>>& read) {
  std::map<uint32_t, std::vector<size_t>> by_file;  // per ps: indices into `ids`
  for (const size_t i : link.wanted) {
    by_file[link.manifest.partitions[ids[i]].spec.ps()].push_back(i);
  }
  for (const auto& [ps, places] : by_file) {
    std::vector<uint32_t> wanted;
    for (const size_t i : places) wanted.push_back(ids[i]);
    const auto place_here = [&, &places = places](size_t w, std::string_view slot,
                                                  uint64_t elements) {
      return place(places[w], link.manifest.partitions[wanted[w]].delta, slot, elements);
    };
    ASSIGN_OR_RETURN(std::vector<StoredPartition> stored,
                     ReadPartitions(files, link.directory, link.manifest, wanted, place_here));
    for (size_t w = 0; w < places.size(); ++w) {
      std::optional<StoredPartition>& before = read[places[w]];
      if (before.has_value()) {
        RETURN_IF_ERROR(CheckContinues(*before, stored[w], link.directory, link.manifest));
      }
      const absl::Status taken = done(places[w], stored[w]);
      if (!taken.ok()) {
        return absl::Status(taken.code(),
                            absl::StrCat(link.directory, ": partition ",
                                         link.manifest.partitions[wanted[w]].spec.name(), ": ",
                                         std::string(taken.message())));
      }
      before = std::move(stored[w]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ChainLink>> ReadChain(Files& files, const std::string& directory,
                                                 const Manifest& manifest,
                                                 std::span<const uint32_t> ids) {
  std::vector<ChainLink> links;
  links.push_back({.directory = directory, .manifest = manifest, .wanted = {}});
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= manifest.partitions.size()) {
      return absl::NotFoundError(absl::StrCat(directory, " holds no partition ", ids[i]));
    }
    links.back().wanted.push_back(i);
  }
  // The loop ends because ReadManifest checks that a base is older.
  while (true) {
    const ChainLink& newer = links.back();
    std::vector<size_t> open;
    for (const size_t i : newer.wanted) {
      if (newer.manifest.partitions[ids[i]].delta) open.push_back(i);
    }
    if (open.empty()) break;
    ChainLink link{
        .directory = BaseOf(directory, newer.manifest), .manifest = {}, .wanted = std::move(open)};
    absl::StatusOr<Manifest> base = ReadManifest(files, link.directory);
    RETURN_IF_ERROR(InChainOf(directory, base.status()));
    link.manifest = *std::move(base);
    for (const size_t i : link.wanted) {
      RETURN_IF_ERROR(InChainOf(
          directory, CheckSamePartition(link.manifest, newer.manifest, ids[i], link.directory)));
    }
    links.push_back(std::move(link));
  }
  std::ranges::reverse(links);
  return links;
}

absl::Status KnownDamage::Of(const std::string& directory) const {
  MutexLock lock(mu_);
  const auto found = damage_.find(directory);
  return found == damage_.end() ? absl::OkStatus() : found->second;
}

void KnownDamage::Note(const std::string& directory, const absl::Status& error) {
  if (!absl::IsDataLoss(error)) return;
  MutexLock lock(mu_);
  damage_.emplace(directory, error);
}

absl::Status ReadLinks(Files& files, const std::string& directory,
                       const std::vector<ChainLink>& links, std::span<const uint32_t> ids,
                       const LinkPlaceFn& place, const LinkDoneFn& done,
                       std::vector<std::optional<StoredPartition>>& read, KnownDamage& known) {
  for (const ChainLink& link : links) {
    if (link.wanted.empty()) continue;
    const absl::Status damage = known.Of(link.directory);
    RETURN_IF_ERROR(&link == &links.back() ? damage : InChainOf(directory, damage));
  }
  for (const ChainLink& link : links) {
    if (link.wanted.empty()) continue;
    absl::Status status = ReadLink(files, link, ids, place, done, read);
    known.Note(link.directory, status);
    RETURN_IF_ERROR(&link == &links.back() ? status : InChainOf(directory, status));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StoredPartition>> ReadChained(Files& files, const std::string& directory,
                                                         const Manifest& manifest,
                                                         std::span<const uint32_t> ids,
                                                         const LinkPlaceFn& place,
                                                         const LinkDoneFn& done,
                                                         KnownDamage& known) {
  ASSIGN_OR_RETURN(const std::vector<ChainLink> links, ReadChain(files, directory, manifest, ids));
  std::vector<std::optional<StoredPartition>> read(ids.size());
  RETURN_IF_ERROR(ReadLinks(files, directory, links, ids, place, done, read, known));
  std::vector<StoredPartition> last;
  for (std::optional<StoredPartition>& stored : read) last.push_back(*std::move(stored));
  return last;
}

}  // namespace paracord
