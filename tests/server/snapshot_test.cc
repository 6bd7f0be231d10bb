#include "store/snapshot.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "exchange/rows.h"
#include "storage/safetensors.h"
#include "store/dense_partition.h"
#include "tests/sanitized.h"
#include "tests/server/ps_fixture.h"

namespace paracord {
namespace {

// Commits the round as a coordinator does. Returns the checkpoint's name.
std::string Commit(TestPs& ps, const TestModel& whole, const SnapshotRequest& order,
                   const std::vector<SnapshotReply>& replies) {
  Manifest manifest;
  manifest.job_json = JobToJson(whole.job);
  manifest.run_id = TestPs::kRun;
  manifest.name = {.step = 0, .generation = order.fence().generation(), .round = order.round()};
  manifest.plan = whole.plan;
  manifest.variables = whole.variables;
  for (const PartitionSpec& spec : whole.partitions) manifest.partitions.push_back({.spec = spec});
  for (const SnapshotReply& reply : replies) {
    manifest.files.push_back({reply.file(), reply.bytes(), reply.crc32c(), "boot"});
    for (const PartitionDescription& partition : reply.partitions()) {
      manifest.partitions[partition.id()].applied = partition.ledger().applied();
    }
  }
  std::string name = manifest.name.ToString();
  const std::string path = ps.dir() + "/checkpoints/" + name;
  REQUIRE(ps.files.Rename(ps.dir() + "/checkpoints/" + order.directory(), path).ok());
  REQUIRE(Overwrite(ps.files, path + "/" + kManifestName, ManifestToText(manifest)));
  return name;
}

SnapshotReply TakeSnapshot(TestPs& ps, const SnapshotRequest& order) {
  const auto reply = ps.Call<SnapshotReply>(method::kSnapshot, order);
  REQUIRE(reply.ok());
  return *reply;
}

// Fourteen partitions, the last two of a lazy table, placed in turn on `count` ps from `first` on.
TestModel Placed(uint32_t count, uint32_t first) {
  TestModel model;
  model.job.optimizer = {"adam", {{"amsgrad", true}}};
  model.variables = {TestVariable("embedding/embeddings", {9, 5}), TestVariable("dense/bias", {2}),
                     TestVariable("norm/mean", {7}, /*trainable=*/false), TestVariable("scale", {}),
                     TestVariable("table/embeddings", {6, 5})};
  model.variables[0].mutable_initializer()->set_name("random_normal");
  model.variables[4].mutable_table()->set_kind(TableSpec::FIXED);
  model.variables[4].mutable_table()->set_lazy(true);
  model.partitions.clear();
  for (uint32_t i = 0; i < 9; ++i) {
    model.partitions.push_back(
        TestPartition(i, 0, "embedding/embeddings/part_" + std::to_string(i), i, i + 1));
  }
  model.partitions.push_back(TestPartition(9, 1, "dense/bias/part_0", 0, 2));
  model.partitions.push_back(TestPartition(10, 2, "norm/mean/part_0", 0, 7));
  model.partitions.push_back(TestPartition(11, 3, "scale/part_0", 0, 1));
  model.partitions.push_back(TestPartition(12, 4, "table/embeddings/part_0", 0, 4));
  model.partitions.push_back(TestPartition(13, 4, "table/embeddings/part_1", 4, 6));
  for (PartitionSpec& partition : model.partitions) {
    partition.set_ps((partition.id() + first) % count);
  }
  return model;
}

// All tensors of a checkpoint by name, and the metadata of all partitions.
struct Everything {
  std::map<std::string, Floats> tensors;
  std::map<std::string, std::string> partitions;
  bool operator==(const Everything&) const = default;
};
Everything ReadAllOf(TestPs& ps, const std::string& directory, uint32_t ps_count) {
  Everything all;
  for (uint32_t i = 0; i < ps_count; ++i) {
    const auto file = SafetensorsFile::Open(
        ps.files, ps.dir() + "/checkpoints/" + directory + "/" + PsFileName(i, ps_count));
    REQUIRE(file.ok());
    for (const auto& [key, value] : (*file)->header().metadata) {
      if (key.starts_with("partition:")) all.partitions[key] = value;
    }
    for (const TensorInfo& tensor : (*file)->header().tensors) {
      Floats& values = all.tensors[tensor.name];  // a ledger is read as characters
      values.resize((tensor.end - tensor.begin) / (tensor.dtype == "F32" ? sizeof(float) : 1));
      REQUIRE((*file)->ReadElements(tensor, 0, values).ok());
    }
  }
  return all;
}

// All ps of one model. A gradient is a function of partition, split and batch.
struct Cluster {
  Cluster(const TestModel& m, const std::string& dir) : whole(m) {
    uint32_t count = 0;
    for (const PartitionSpec& partition : m.partitions) count = std::max(count, partition.ps() + 1);
    for (uint32_t i = 0; i < count; ++i) {
      TestModel part = m;
      std::erase_if(part.partitions, [&](const PartitionSpec& p) { return p.ps() != i; });
      ps.push_back(std::make_unique<TestPs>(part, dir, i));
    }
  }
  void Start(uint64_t generation, const std::string& checkpoint = "") {
    for (const auto& p : ps) {
      REQUIRE(p->Adopt(generation).ok());
      REQUIRE(p->Load(checkpoint).ok());
    }
  }
  DecodedRequest Push(TestPs& p, uint64_t split, uint32_t batch) {
    DecodedRequest request;
    *request.header.mutable_fence() = p.MakeFence();
    request.header.mutable_batch()->set_split(split);
    request.header.mutable_batch()->set_batch(batch);
    for (const PartitionSpec& spec : p.model.partitions) {
      if (!whole.Trained(spec.id())) continue;
      SeededRandom random(spec.id() * 1000 + split * 100 + batch);
      Floats gradient(whole.Elements(spec.id()));
      const VariableSpec& variable = whole.variables[spec.variable()];
      RowIds rows = {spec.row_begin()};
      if (batch % 2 == 0) rows.push_back(spec.row_end() - 1);
      if (variable.has_table()) gradient.resize(rows.size() * RowElements(variable));
      for (float& g : gradient) g = static_cast<float>(random.Between(-1000, 1000)) / 500;
      PartitionPush* push = request.header.add_push();
      push->set_partition(spec.id());
      push->set_bytes(gradient.size() * sizeof(float));
      if (variable.has_table()) SetPushRows(request, *push, rows);
      request.pieces.push_back({spec.id(), 0, CordOf(gradient)});
    }
    return request;
  }
  void Train(uint64_t split, uint32_t batches) {
    for (const auto& p : ps) {
      for (uint32_t batch = 0; batch < batches; ++batch) {
        REQUIRE(p->Exchange(Push(*p, split, batch)).ok());
      }
    }
  }
  std::string Snapshot(uint64_t round) {
    std::vector<SnapshotReply> replies;
    SnapshotRequest order;
    for (uint32_t i = 0; i < ps.size(); ++i) {
      order = ps[i]->SnapshotOrder(round, static_cast<uint32_t>(ps.size()), i);
      replies.push_back(TakeSnapshot(*ps[i], order));
    }
    return Commit(*ps[0], whole, order, replies);
  }
  Everything Read(const std::string& directory) {
    return ReadAllOf(*ps[0], directory, static_cast<uint32_t>(ps.size()));
  }
  TestModel whole;
  std::vector<std::unique_ptr<TestPs>> ps;
};

TEST_CASE("a restore into any number of ps is equal to the bit, and so is what follows") {
  TestDirectory root;
  // The contents after seven and after ten batches do not depend on the number of ps.
  Everything at_seven, at_ten;
  for (uint32_t from = 1; from <= 8; from += UnderSanitizers(3, 1)) {
    const std::string dir = root / std::to_string(from);
    uint64_t generation = 1;
    Cluster before(Placed(from, 0), dir);
    before.Start(generation);
    before.Train(0, 6);
    before.Train(2, 1);
    const std::string first = before.Snapshot(1);
    REQUIRE(VerifyCheckpoint(before.ps[0]->files, dir + "/checkpoints/" + first).ok());
    if (from == 1) at_seven = before.Read(first);
    CHECK(before.Read(first) == at_seven);
    CHECK(at_seven.tensors.size() == 9 * 4 + 4 + 1 + 4 + 2 * 5 + 14);  // the last 14 are ledgers
    CHECK(at_seven.tensors.at("table/embeddings/part_0/.slot/steps") == Floats{7, 0, 0, 4});
    before.Train(0, 9);  // repeats six batches, which the ledgers drop
    const std::string later = before.Snapshot(2);
    if (from == 1) at_ten = before.Read(later);
    CHECK(before.Read(later) == at_ten);
    CHECK_FALSE(at_ten == at_seven);

    for (uint32_t to = 1; to <= 8; ++to) {
      CAPTURE(from, to);
      Cluster after(Placed(to, from), dir);
      after.Start(++generation, first);
      CHECK(after.Read(after.Snapshot(1)) == at_seven);
      after.Train(0, 9);
      CHECK(after.Read(after.Snapshot(2)) == at_ten);
    }
  }
}

TEST_CASE("a snapshot is of the moment its writing began, while training goes on") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  ps.executor.set_at_once(false);
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const auto call = ps.Send(method::kSnapshot, order);
  CHECK(call->answered == 0);
  CHECK(ps.Exchange(ps.PushOf(0, 1, 1.0f)).ok());
  ps.executor.RunOne();
  CHECK(ps.Exchange(ps.PushOf(0, 2, 1.0f)).ok());
  ps.loop.RunPosted();
  const auto reply = ps.Answer<SnapshotReply>(call);
  REQUIRE(reply.ok());
  CHECK(reply->partitions(0).ledger().applied() == 2);
  CHECK(ReadAllOf(ps, order.directory(), 1).tensors.at("dense/kernel/part_0") == Floats(9, -2.0f));
  CHECK(ps.PullAll().values.at(0) == Floats(9, -3.0f));
}

TEST_CASE("splits that are open do not make the header of a ps file longer") {
  TestModel model;
  model.plan.set_records(1 << 20);
  TestPs ps(model);
  ps.Ready();
  const auto header_bytes = [&](uint64_t round) {
    const SnapshotRequest order = ps.SnapshotOrder(round);
    const SnapshotReply reply = TakeSnapshot(ps, order);
    const auto file = SafetensorsFile::Open(
        ps.files, ps.dir() + "/checkpoints/" + order.directory() + "/" + reply.file());
    REQUIRE(file.ok());
    return (*file)->header().data_begin;
  };
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  const uint64_t with_one = header_bytes(1);
  for (uint64_t split = 2; split <= 1000; split += 2) {
    REQUIRE(ps.Exchange(ps.PushOf(split, 0, 1.0f)).ok());
  }
  CHECK(header_bytes(2) < with_one + 100);  // digits of larger counts
}

TEST_CASE("a repeated order gets the same answer, and writes nothing") {
  TestPs ps;
  ps.Ready();
  const SnapshotRequest order = ps.SnapshotOrder(1);
  ps.executor.set_at_once(false);
  const auto first = ps.Send(method::kSnapshot, order);
  const auto second = ps.Send(method::kSnapshot, order);
  REQUIRE(ps.executor.RunOne());
  CHECK_FALSE(ps.executor.RunOne());
  ps.loop.RunPosted();
  const std::string answer = ps.Answer<SnapshotReply>(first)->SerializeAsString();
  CHECK(ps.Answer<SnapshotReply>(second)->SerializeAsString() == answer);
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  CHECK(ps.Call<SnapshotReply>(method::kSnapshot, order)->SerializeAsString() == answer);
  CHECK_FALSE(ps.executor.RunOne());
}

TEST_CASE("a newer round or generation voids the one being written, and an older is refused") {
  TestPs ps;
  ps.Ready();
  const SnapshotRequest old_order = ps.SnapshotOrder(1);
  const SnapshotRequest new_order = ps.SnapshotOrder(2);
  ps.executor.set_at_once(false);
  const auto voided = ps.Send(method::kSnapshot, old_order);
  const auto fresh = ps.Send(method::kSnapshot, new_order);
  CHECK(absl::IsAborted(ps.Answer<SnapshotReply>(voided).status()));
  while (ps.executor.RunOne()) ps.loop.RunPosted();
  CHECK(ps.Answer<SnapshotReply>(fresh).ok());
  CHECK(ps.files.List(ps.dir() + "/checkpoints/" + old_order.directory())->empty());
  CHECK(absl::IsAborted(ps.Call<SnapshotReply>(method::kSnapshot, old_order).status()));

  const auto overtaken = ps.Send(method::kSnapshot, ps.SnapshotOrder(3));
  REQUIRE(ps.Adopt(2).ok());
  CHECK(absl::IsAborted(ps.Answer<SnapshotReply>(overtaken).status()));
  while (ps.executor.RunOne()) ps.loop.RunPosted();
  CHECK(overtaken->answered == 1);
}

TEST_CASE("a snapshot that cannot be written fails alone, and can be ordered again") {
  TestPs ps;
  ps.Ready();
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const std::string directory = ps.dir() + "/checkpoints/" + order.directory();
  REQUIRE(ps.files.RemoveTree(directory).ok());
  const absl::Status status = ps.Call<SnapshotReply>(method::kSnapshot, order).status();
  CHECK(absl::IsNotFound(status));
  CHECK(status.ToString().find(directory) != std::string::npos);
  CHECK(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.files.MakeDirectories(directory).ok());
  CHECK(ps.Call<SnapshotReply>(method::kSnapshot, order).ok());
}

TEST_CASE("an order for another directory, round or ps is refused") {
  TestPs ps;
  ps.Ready();
  const std::vector<std::function<void(SnapshotRequest&)>> cases = {
      [](auto& r) { r.set_directory("../../tmp"); },
      [](auto& r) { r.set_directory("round-g1-r2"); },
      [](auto& r) { r.set_directory("round-g2-r1"); },
      [](auto& r) { r.set_directory(""); },
      [](auto& r) { r.set_round(2); },
      [](auto& r) { r.set_ps(1); },
      [](auto& r) { r.set_ps_count(0); },
  };
  for (const auto& damage : cases) {
    SnapshotRequest order = ps.SnapshotOrder(1);
    damage(order);
    CHECK(absl::IsInvalidArgument(ps.Call<SnapshotReply>(method::kSnapshot, order).status()));
  }
}

TEST_CASE("what does not fit the order is not restored, and the directory is named") {
  TestPs ps;
  ps.Ready();
  REQUIRE(ps.Exchange(ps.PushOf(0, 0, 1.0f)).ok());
  REQUIRE(ps.Exchange(ps.PushOf(0, 1, 1.0f)).ok());
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const std::string checkpoint = Commit(ps, ps.model, order, {TakeSnapshot(ps, order)});
  const auto restore = [&](const std::function<void(TestModel&)>& change_model,
                           const std::function<void(LoadRequest&)>& change_order) {
    TestModel model;
    change_model(model);
    TestPs other(model, ps.dir());
    REQUIRE(other.Adopt(2).ok());
    LoadRequest load = other.LoadOrder(checkpoint);
    change_order(load);
    return other.Call<PsDescription>(method::kLoad, load).status();
  };
  const auto same_model = [](TestModel&) {};
  const auto same_order = [](LoadRequest&) {};
  CHECK(restore(same_model, same_order).ok());
  const auto refused = [&](const std::function<void(TestModel&)>& change) {
    const absl::Status status = restore(change, same_order);
    CAPTURE(status.ToString());
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(status.ToString().find(checkpoint) != std::string::npos);
  };
  refused([](auto& model) { model.job.optimizer = {"adam"}; });
  refused([](auto& model) {
    model.partitions[0].set_row_end(2);
    model.partitions[1].set_row_begin(2);
  });
  refused([](auto& model) { model.variables[1].set_trainable(false); });
  refused([](auto& model) { model.partitions[2].set_name("dense/bias/part_1"); });
  refused([](auto& model) {
    model.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
    model.variables[0].mutable_table()->set_lazy(true);
  });
  refused([](auto& model) {
    model.partitions.push_back(TestPartition(4, 1, "dense/bias/part_1", 1, 2));
  });
  CHECK(absl::IsFailedPrecondition(
      restore(same_model, [](auto& load) { load.mutable_fence()->set_run_id("another"); })));
  CHECK(absl::IsDataLoss(  // the plan has one batch a split, the ledger two
      restore([](auto& model) { model.plan.set_split_batches(1); }, same_order)));
  CHECK(absl::IsNotFound(
      restore(same_model, [](auto& load) { load.set_checkpoint("step-0-g9-r9"); })));
}

TEST_CASE("a damaged checkpoint leaves the ps empty, and the error names the file") {
  TestPs ps;
  ps.Ready();
  const SnapshotRequest order = ps.SnapshotOrder(1);
  const std::string checkpoint = Commit(ps, ps.model, order, {TakeSnapshot(ps, order)});
  const std::string path = ps.dir() + "/checkpoints/" + checkpoint + "/" + PsFileName(0, 1);
  const std::string good = *ps.files.ReadWhole(path);
  uint64_t generation = 1;
  for (size_t at = 0; at < good.size(); at += 41) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    REQUIRE(Overwrite(ps.files, path, at % 2 == 0 ? damaged : good.substr(0, at)));
    // A ps remembers damage for the coordinator that met it, so each load gets a new coordinator.
    ++generation;
    REQUIRE(ps.Adopt(generation, absl::StrCat("c", generation)).ok());
    const absl::Status status = ps.Load(checkpoint);
    CHECK_FALSE(status.ok());
    CHECK(status.ToString().find(path) != std::string::npos);
    CHECK(ps.Describe().run_id().empty());
  }
  REQUIRE(Overwrite(ps.files, path, good));
  REQUIRE(ps.Adopt(++generation, "c").ok());
  CHECK(ps.Load(checkpoint).ok());
}

TEST_CASE("initial weights are cut into partitions, and must fit") {
  PosixFiles files;
  TestDirectory directory;
  Floats kernel(15);
  for (size_t i = 0; i < 15; ++i) kernel[i] = static_cast<float>(i);
  const auto write = [&](std::vector<TensorInfo> tensors, const Floats& values) {
    auto writer = SafetensorsWriter::Create(files, directory / "w", std::move(tensors), {});
    REQUIRE(writer.ok());
    REQUIRE((*writer)->Append(values).ok());
    REQUIRE((*writer)->Finish().ok());
  };
  Floats all = kernel;
  all.insert(all.end(), {7, 8, 1, 2, 3, 4});
  write({{.name = "dense/kernel", .shape = {5, 3}},
         {.name = "dense/bias", .shape = {2}},
         {.name = "frozen", .shape = {4}}},
        all);
  TestModel model;
  model.job.initial_weights.file = directory / "w";
  {
    TestPs ps(model);
    ps.Ready();
    const Pulled pulled = ps.PullAll();
    CHECK(pulled.values.at(0) == Floats(kernel.begin(), kernel.begin() + 9));
    CHECK(pulled.values.at(1) == Floats(kernel.begin() + 9, kernel.end()));
    CHECK(pulled.values.at(2) == Floats{7, 8});
    CHECK(pulled.values.at(3) == Floats{1, 2, 3, 4});
  }
  const auto refused = [&](const std::string& named) {
    TestPs ps(model);
    REQUIRE(ps.Adopt(1).ok());
    const absl::Status status = ps.Load();
    CHECK_FALSE(status.ok());
    CHECK(status.ToString().find(named) != std::string::npos);
    CHECK(status.ToString().find(directory / "w") != std::string::npos);
    CHECK(status.ToString().find("initial_weights: ") != std::string::npos);
  };
  write({{.name = "dense/kernel", .shape = {5, 3}}}, kernel);
  refused("dense/bias");
  {
    TestModel fresh;
    TestPs drawn(fresh);
    drawn.Ready();
    TestModel part = model;
    part.job.initial_weights.partial = true;
    TestPs ps(part);
    ps.Ready();
    const Pulled pulled = ps.PullAll();
    CHECK(pulled.values.at(0) == Floats(kernel.begin(), kernel.begin() + 9));
    CHECK(pulled.values.at(3) == drawn.PullAll().values.at(3));
  }
  write({{.name = "dense/kernel", .shape = {3, 5}}}, kernel);
  refused("dense/kernel");
  REQUIRE(files.RemoveTree(directory / "w").ok());
  refused("");
}

}  // namespace
}  // namespace paracord
