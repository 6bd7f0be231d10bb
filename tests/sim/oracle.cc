#include "sim/oracle.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_text.h"
#include "common/probe.h"
#include "config/data_plan.h"
#include "config/partitions.h"
#include "sim/history_oracle.h"
#include "sim/seen_partition.h"
#include "sim/stored_files.h"

namespace paracord {
namespace {

bool HasDigits(const NamedSpec& optimizer) {
  return optimizer.name == "sgd" && !optimizer.options.contains("momentum");
}

uint64_t Entered(const Ledger& ledger) { return ledger.applied() + ledger.rejected(); }

}  // namespace

Oracle::Oracle(SimWorld& world, const Job& job, const CountingOptions& counting, uint64_t epochs,
               bool ordered)
    : world_(world),
      job_(job),
      counting_(counting),
      ordered_(ordered),
      digits_(HasDigits(job.optimizer) && !counting.mixing),
      epochs_(epochs) {
  plan_.set_records(counting.records);
  plan_.set_batch(job.batch);
  plan_.set_lanes(job.guarantees.round_batches.value_or(0));
  const uint64_t longest = DivideUp(counting.batches, std::max(plan_.lanes(), 1u));
  plan_.set_split_batches(job.split_batches.value_or(static_cast<uint32_t>(longest)));
}

uint64_t Oracle::TotalBatches() const { return epochs_ * BatchesPerEpoch(plan_); }

Oracle::PsSeen Oracle::Look(const ParameterServer& ps) const {
  PsSeen seen;
  const std::shared_ptr<const PartitionSet> content = ps.content();
  if (content == nullptr) return seen;
  for (const auto& partition : content->partitions) {
    Seen& one = seen[partition->facts().id];
    one.trained = partition->facts().trained;
    one.updates = partition->GetCounts().updates;
    one.values = SeenValues(counting_, *partition);
    one.ledger = partition->GetCounts().ledger.ToProto(/*intervals=*/true);
  }
  return seen;
}

bool Oracle::Grows(uint32_t partition) const {
  return counting_.growing && partition < counting_.trained * counting_.rows;
}

// Returns, for each growing partition of a checkpoint, the rows that batches read.
absl::StatusOr<Oracle::Grown> Oracle::GrownIn(Files& files, const std::string& path,
                                              const Manifest& manifest) const {
  Grown grown;
  if (!counting_.growing) return grown;
  VariableIds ids;
  const auto variables = ReadVariables(files, path, manifest, &ids);
  if (!variables.ok()) return variables.status();
  for (uint32_t id = 0; id < counting_.trained * counting_.rows; ++id) {
    const auto v = static_cast<size_t>(id / counting_.rows);
    std::vector<float>& values = grown[id];
    for (const uint64_t row : CountingIdsOf(counting_, id % counting_.rows)) {
      const auto found = std::lower_bound(ids[v].begin(), ids[v].end(), row);
      values.resize(values.size() + counting_.batches);
      if (found == ids[v].end() || *found != row) continue;
      const auto batches = static_cast<int64_t>(counting_.batches);
      std::copy_n((*variables)[v].begin() + (found - ids[v].begin()) * batches, batches,
                  values.end() - batches);
    }
  }
  return grown;
}

void Oracle::CheckPartition(const std::string& where, uint32_t id, const Seen& seen) {
  const std::vector<float> values = digits_ ? seen.values : std::vector<float>();
  const std::string wrong =
      Grows(id) ? CheckGrown(counting_, plan_, seen.ledger, id % counting_.rows, values)
                : CheckCounted(counting_, plan_, seen.ledger, values);
  if (!wrong.empty()) return Violation(absl::StrCat(where, ", partition ", id, ": ", wrong));
  // Only one epoch is open at a time, so a ledger has at most one epoch's splits.
  const int kept = seen.ledger.finished_size() + seen.ledger.open_size();
  if (static_cast<uint64_t>(kept) > SplitsPerEpoch(plan_) + 1) {
    Violation(absl::StrCat(where, ", partition ", id, ": a ledger with ", kept, " entries"));
  }
}

void Oracle::Exchanged(const ParameterServer& ps, const ExchangeRequest& request,
                       const absl::StatusOr<ExchangeReply>& answer, const PsSeen& before,
                       const PsSeen& after) {
  if (!answer.ok()) {
    // OUT_OF_RANGE: the push is entered, but the state that the pull names is gone.
    if (!absl::IsOutOfRange(answer.status()) && after != before) {
      Violation("a refused push changed something");
    }
    return;
  }
  const Fence& fence = request.fence();
  if (fence.generation() != ps.generation() || fence.boot_id() != ps.boot_id()) {
    return Violation(absl::StrCat("an exchange of generation ", fence.generation(), " for ",
                                  fence.boot_id(), " is answered by ", ps.boot_id(),
                                  " in generation ", ps.generation()));
  }
  if (ps.content() == nullptr || ps.content()->run_id != fence.run_id()) {
    return Violation("an exchange is answered by a ps that does not hold its run");
  }
  if (request.has_batch()) CheckOutcomes(request.batch(), *answer, after);
  const bool applied = std::any_of(after.begin(), after.end(), [&](const auto& item) {
    return item.second.updates != before.at(item.first).updates;
  });
  CheckStaleness(request, applied);
  for (const auto& [id, seen] : after) {
    const Seen& was = before.at(id);
    const uint64_t more = Entered(seen.ledger) - Entered(was.ledger);
    // In synchronous training, the last push of a round, or the last norms, apply the whole round.
    const uint64_t most = job_.guarantees.sync() ? plan_.lanes() : 1;
    const bool brings = request.has_batch() || request.has_norms();
    if (more > (brings ? most : 0)) return Violation("one push, many batches");
    if (more == 0 && seen != was) return Violation("values changed without the ledger");
    if (most == 1) CheckRejection(request, was, seen);
    if (seen.ledger.applied() + seen.ledger.rejected() > 0) {
      CheckPartition("a ps", id, seen);
    }
  }
}

// Checks that a rejected push changes no values, and that an accepted push rejects nothing.
void Oracle::CheckRejection(const ExchangeRequest& request, const Seen& was, const Seen& now) {
  if (was == now) return;
  if (request.rejected() && now.values != was.values) Violation("a rejected batch changed values");
  if (!request.rejected() && now.ledger.rejected() != was.ledger.rejected()) {
    Violation("a ps rejects a batch by itself");
  }
}

// Checks that a worker pulled from this life and generation of the ps before the ps applies its
// gradient. An older gradient must be refused.
void Oracle::CheckStaleness(const ExchangeRequest& request, bool applied) {
  const std::string pulled = absl::StrCat(request.worker(), " ", request.fence().boot_id(), " ",
                                          request.fence().generation());
  if (applied && !pulled_.contains(pulled)) {
    return Violation(
        absl::StrCat("a gradient of ", pulled, " is applied, which never pulled there"));
  }
  if (request.pull_size() > 0) pulled_.insert(pulled);
}

// Compares a partition bit by bit with a stored one. Returns the name of the part that differs, or
// "".
std::string Oracle::Difference(const Partition& partition, const StoredTensors& stored) {
  const StoredTensors image = ImageOf(partition);
  if (image.value != stored.value) return "values";
  if (image.updates != stored.updates) return "updates";
  if (image.healthy != stored.healthy) return "health";
  if (image.ledger.SerializeAsString() != stored.ledger.SerializeAsString()) return "ledger";
  return image.slots == stored.slots ? "" : "slots";
}

std::string Oracle::GrownDifference(const Partition& partition, const std::vector<float>& values,
                                    const StoredTensors& stored) const {
  if (SeenValues(counting_, partition) != values) return "values of rows";
  const Partition::Counts counts = partition.GetCounts();
  if (counts.updates != stored.updates) return "updates";
  if (counts.table->admitted() != stored.table->admitted) return "rows that were admitted";
  if (counts.table->dropped() != stored.table->dropped) return "gradients that were dropped";
  if (counts.ledger.ToProto(/*intervals=*/true).SerializeAsString() !=
      stored.ledger.SerializeAsString()) {
    return "ledger";
  }
  return "";
}

void Oracle::Loaded(const PartitionSet& content, const std::string& checkpoint,
                    const PartitionSet* before) {
  if (checkpoint.empty()) {
    for (const auto& partition : content.partitions) {
      if (partition->GetCounts().updates != 0) Violation("a new partition has been updated");
    }
    return;
  }
  StoredFiles files(world_.storage());
  const std::string path = absl::StrCat(CheckpointsDir(), "/", checkpoint);
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, path);
  if (!manifest.ok()) return;  // since removed or damaged
  std::vector<uint32_t> ids;
  for (const auto& partition : content.partitions) {
    const uint32_t id = partition->facts().id;
    if (before != nullptr && before->Find(id) == partition.get()) {
      PROBE("sim.retained");
    } else {
      ids.push_back(id);
    }
  }
  const auto stored = ReadTensors(files, path, *manifest, ids);
  if (!stored.ok()) return;
  const auto grown = GrownIn(files, path, *manifest);
  if (!grown.ok()) return;
  PROBE("sim.restored");
  for (const StoredTensors& one : *stored) {
    const Partition& partition = *content.Find(one.id);
    const std::string other = partition.growing()
                                  ? GrownDifference(partition, grown->at(one.id), one)
                                  : Difference(partition, one);
    if (!other.empty()) {
      Violation(absl::StrCat("partition ", one.id, " is not restored as it was saved: ", other));
    }
  }
}

// Checks that, with one worker, the bytes equal those of all batches applied in order.
void Oracle::CheckOrdered(const StoredTensors& partition, uint64_t elements) {
  const absl::StatusOr<Optimizer> optimizer = ParseOptimizer(job_.optimizer);
  if (!optimizer.ok()) return Violation(optimizer.status().ToString());
  PartitionContents contents;
  contents.value = Block(elements);
  contents.value.Fill(0);
  for (const SlotSpec& slot : optimizer->slots) {
    contents.slots.emplace_back(elements).Fill(slot.initial);
  }
  Partition::Facts facts;
  facts.id = partition.id;
  facts.shape = {elements};
  facts.trained = true;
  facts.bytes = elements * sizeof(float);
  DensePartition expected(facts, *optimizer, std::move(contents));
  const uint64_t per_epoch = BatchesPerEpoch(plan_);
  for (uint64_t b = 0; b < TotalBatches(); ++b) {
    const BatchId batch = BatchAt(plan_, b / per_epoch, b % per_epoch);
    const absl::StatusOr<PlanBatch> known = FindBatch(plan_, batch);
    if (!known.ok()) return Violation(known.status().ToString());
    const std::vector<float> gradient =
        CountingGradient(counting_, batch.epoch(), b % per_epoch, elements);
    const absl::string_view bytes(reinterpret_cast<const char*>(gradient.data()),
                                  gradient.size() * sizeof(float));
    expected.Push(*known, /*rejected=*/false, Gradient(absl::Cord(bytes)));
  }
  const std::string other = Difference(expected, partition);
  if (!other.empty()) {
    Violation(absl::StrCat("partition ", partition.id,
                           " is not what one worker makes of all batches in order: ", other));
  }
}

// Checks that the outcomes in a ps's answer agree with its ledger.
void Oracle::CheckOutcomes(const BatchId& batch, const ExchangeReply& reply, const PsSeen& after) {
  const uint64_t split = batch.epoch() * SplitsPerEpoch(plan_) + batch.split();
  for (const PartitionState& state : reply.partitions()) {
    // In synchronous training a batch in the open sum of a round is "already applied", too.
    const bool there = state.outcome() == PUSH_ALREADY_APPLIED && !job_.guarantees.sync();
    if (state.outcome() != PUSH_APPLIED && !there) continue;
    const Ledger& ledger = after.at(state.partition()).ledger;
    const bool finished = std::any_of(
        ledger.finished().begin(), ledger.finished().end(),
        [&](const SplitInterval& s) { return s.first() <= split && split <= s.last(); });
    const bool open = std::any_of(
        ledger.open().begin(), ledger.open().end(),
        [&](const OpenSplit& s) { return s.split() == split && s.next() > batch.batch(); });
    if (finished || open) continue;
    return Violation(absl::StrCat("partition ", state.partition(), " says that it has batch ",
                                  batch.batch(), " of split ", split, ", and its ledger does not"));
  }
}

void Oracle::Adopted(uint64_t generation, const std::string& coordinator) {
  const auto [it, first] = coordinators_.try_emplace(generation, coordinator);
  if (it->second != coordinator) {
    Violation(absl::StrCat("two coordinators have generation ", generation));
  }
}

// ---- Checks of the disk.

std::map<std::string, uint64_t> Oracle::HashFiles(const SimInode& directory) const {
  std::map<std::string, uint64_t> hashes;
  for (const auto& [name, inode] : directory.entries) {
    if (name.ends_with(".safetensors")) hashes[name] = HashBytes(inode->data);
  }
  return hashes;
}

std::shared_ptr<SimInode> Oracle::PsFilesOf(const std::string& checkpoint) const {
  const auto ps_files =
      world_.storage().FindDirectory(PsFilesDirectory(CheckpointsDir() + "/" + checkpoint));
  return ps_files.ok() ? *ps_files : nullptr;
}

bool Oracle::IsThere(const std::string& checkpoint) const {
  const auto inode = world_.storage().FindDirectory(CheckpointsDir() + "/" + checkpoint);
  if (!inode.ok() || !(*inode)->entries.contains(kManifestName)) return false;
  const std::shared_ptr<SimInode> ps_files = PsFilesOf(checkpoint);
  return ps_files == nullptr || !ps_files->entries.contains(kRemovedName);
}

void Oracle::LookAtDisk() {
  const auto found = world_.storage().FindDirectory(CheckpointsDir());
  if (!found.ok()) return;
  bool any = false;
  for (const auto& [name, inode] : (*found)->entries) {
    if (!name.starts_with("step-") || !IsThere(name)) continue;
    any = true;
    if (!committed_.contains(name)) CheckNew(name);
    durable_ =
        durable_ || (inode->durable.contains(kManifestName) && (*found)->durable.contains(name));
  }
  if (!any && durable_) Violation("there is no checkpoint any more");
}

void Oracle::CheckDurable(const std::string& path, const SimInode& directory) {
  for (const auto& [name, inode] : directory.entries) {
    if (!name.ends_with(".safetensors")) continue;
    if (inode->synced != inode->data.size()) {
      return Violation(absl::StrCat(path, "/", name, " is committed and not durable"));
    }
    const auto durable = directory.durable.find(name);
    if (durable == directory.durable.end() || durable->second != inode) {
      return Violation(absl::StrCat("the name ", path, "/", name, " is committed and not durable"));
    }
  }
}

void Oracle::CheckNew(const std::string& name) {
  const std::string path = absl::StrCat(CheckpointsDir(), "/", name);
  // A committed checkpoint never changes.
  for (auto& [earlier, committed] : committed_) {
    const auto ps_files = PsFilesOf(earlier);
    if (!IsThere(earlier) || ps_files == nullptr) continue;
    if (!damaged_.contains(earlier) && HashFiles(*ps_files) != committed.files) {
      return Violation(absl::StrCat("checkpoint ", earlier, " has changed"));
    }
  }
  StoredFiles files(world_.storage());
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, path);
  if (!manifest.ok()) return Violation(manifest.status().ToString());
  for (const auto& [earlier, committed] : committed_) {
    if (std::pair(committed.name.generation, committed.name.round) ==
        std::pair(manifest->name.generation, manifest->name.round)) {
      return Violation(absl::StrCat("round of ", earlier, " is committed again as ", name));
    }
  }
  const std::shared_ptr<SimInode> ps_files = PsFilesOf(name);
  if (ps_files == nullptr) return Violation(name + " is committed without its files");
  committed_[name] = {manifest->name, HashFiles(*ps_files), manifest->complete};
  CheckDurable(path, *ps_files);
  if (!manifest->base.empty()) PROBE("sim.delta_checkpoint");
  if (damaged_.contains(manifest->base)) return Damaged(name);  // a delta is damaged if its base is
  const absl::Status whole = VerifyCheckpoint(files, path);
  if (!whole.ok()) return Violation(whole.ToString());
  std::vector<uint32_t> ids;
  for (uint32_t id = 0; id < manifest->partitions.size(); ++id) ids.push_back(id);
  const auto stored = ReadTensors(files, path, *manifest, ids);
  if (!stored.ok()) return Violation(stored.status().ToString());
  const auto grown = GrownIn(files, path, *manifest);
  if (!grown.ok()) return Violation(grown.status().ToString());
  if (on_checkpoint_) on_checkpoint_(name, *stored, *grown);
  const StoredTensors* first = nullptr;
  for (const StoredTensors& partition : *stored) {
    const bool grows = grown->contains(partition.id);
    CheckPartition(
        name, partition.id,
        {partition.updates, partition.ledger, grows ? grown->at(partition.id) : partition.value});
    const bool trained =
        manifest->variables[manifest->partitions[partition.id].spec.variable()].trainable();
    if (manifest->complete && trained && Entered(partition.ledger) != TotalBatches()) {
      Violation(absl::StrCat(name, " is complete without all batches"));
    }
    if (!manifest->complete || !trained || grows) continue;
    if (ordered_) CheckOrdered(partition, partition.value.size());
    if (!digits_) continue;
    // A batch is rejected by all partitions or by none.
    if (first == nullptr) first = &partition;
    const auto batches = static_cast<std::ptrdiff_t>(counting_.batches);
    if (!std::equal(first->value.begin(), first->value.begin() + batches,
                    partition.value.begin())) {
      Violation(absl::StrCat(name, ": partitions ", first->id, " and ", partition.id,
                             " have applied other batches"));
    }
  }
}

std::vector<std::string> Oracle::Checkpoints() const {
  std::vector<const Committed*> there;
  for (const auto& [name, committed] : committed_) {
    if (!IsThere(name)) continue;
    if (!damaged_.contains(name)) there.push_back(&committed);
  }
  std::sort(there.begin(), there.end(), [](const Committed* a, const Committed* b) {
    return std::tuple(a->name.generation, a->name.round) >
           std::tuple(b->name.generation, b->name.round);
  });
  std::vector<std::string> names;
  for (const Committed* committed : there) names.push_back(committed->name.ToString());
  return names;
}

bool Oracle::Complete() const {
  return std::any_of(committed_.begin(), committed_.end(),
                     [](const auto& item) { return item.second.complete; });
}

void Oracle::CheckEnd() {
  StoredFiles files(world_.storage());
  const std::vector<std::string> names = Checkpoints();
  if (names.empty()) return Violation("the job is done without a checkpoint");
  const std::string path = CheckpointsDir() + "/" + names.front();
  const absl::Status whole = VerifyCheckpoint(files, path);
  if (!whole.ok()) return Violation(whole.ToString());
  const absl::StatusOr<Manifest> manifest = ReadManifest(files, path);
  if (!manifest.ok()) return Violation(manifest.status().ToString());
  if (!manifest->complete) return Violation(names.front() + " is the last and not complete");
  CheckSummary(*manifest);
}

void Oracle::CheckSummary(const Manifest& manifest) {
  const absl::StatusOr<std::string> text =
      world_.storage().Contents(absl::StrCat(SimDir(world_), "/summary.json"));
  if (!text.ok()) return Violation("there is no summary.json");
  const nlohmann::json summary = JsonOf(*text);
  if (summary.is_discarded()) return Violation("summary.json is torn");
  uint64_t least = ~uint64_t{0};
  uint64_t most = 0;
  uint64_t rejected = 0;
  double sum = 0;
  double trained = 0;
  for (const ManifestPartition& partition : manifest.partitions) {
    if (!manifest.variables[partition.spec.variable()].trainable()) continue;
    least = std::min(least, partition.applied);
    most = std::max(most, partition.applied);
    rejected = std::max(rejected, partition.rejected);
    const auto rows = static_cast<double>(partition.spec.row_end() - partition.spec.row_begin());
    sum += rows * static_cast<double>(partition.applied);
    trained += rows;
  }
  const nlohmann::json& ledger = summary["ledger"];
  if (summary["status"] != "done" || ledger["batches"] != TotalBatches() ||
      ledger["applied_min"] != least || ledger["applied_max"] != most ||
      ledger["rejected"] != rejected || summary["epochs"] != epochs_) {
    return Violation("summary.json is wrong: " + *text);
  }
  std::set<uint64_t> failing = counting_.unreadable;
  failing.insert(counting_.nonfinite.begin(), counting_.nonfinite.end());
  const std::string wrong = CheckHistory(summary, plan_, epochs_, failing, ordered_);
  if (!wrong.empty()) return Violation(wrong);
  if (on_summary_) return on_summary_(summary);
  if (counting_.test_records == 0) return;
  const double expected = sum / trained * CountingLossPerBatch(counting_.test_records);
  const double loss = summary["metrics"]["test"].value("loss", -1.0);
  if (std::abs(loss - expected) > 1e-6 * expected) {
    Violation(absl::StrCat("the last evaluation is ", loss, ", not ", expected));
  }
  if (rejected > 0) return;
  // An evaluation scores the values at the end of its epoch, of one instant.
  for (const nlohmann::json& score : summary["evaluations"]) {
    const double batches = score.value("epoch", 0.0) * static_cast<double>(BatchesPerEpoch(plan_));
    const double scored = score["metrics"].value("loss", -1.0);
    if (scored == batches * CountingLossPerBatch(counting_.test_records)) continue;
    Violation(absl::StrCat("an evaluation is ", scored, " where ", batches, " batches are done"));
  }
}

}  // namespace paracord
