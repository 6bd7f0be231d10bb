#include "storage/checkpoint.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <limits>

#include "common/json_text.h"
#include "config/partitions.h"
#include "storage/crc32c.h"
#include "storage/safetensors.h"
#include "tests/fakes.h"
#include "tests/stored_tensors.h"

namespace paracord {
namespace {

VariableSpec Variable(const std::string& name, std::vector<uint64_t> shape) {
  VariableSpec variable;
  variable.set_name(name);
  for (const uint64_t dimension : shape) variable.add_shape(dimension);
  variable.set_dtype(FLOAT32);
  variable.set_trainable(true);
  variable.mutable_initializer()->set_name("random_normal");
  (*variable.mutable_initializer()->mutable_options())["stddev"] = 0.1;
  return variable;
}

ManifestPartition MakePartition(const Manifest& manifest, uint32_t variable, uint32_t part,
                                uint64_t begin, uint64_t end, uint32_t ps) {
  ManifestPartition partition;
  partition.spec.set_id(static_cast<uint32_t>(manifest.partitions.size()));
  partition.spec.set_variable(variable);
  partition.spec.set_name(manifest.variables[variable].name() + "/part_" + std::to_string(part));
  partition.spec.set_row_begin(begin);
  partition.spec.set_row_end(end);
  partition.spec.set_ps(ps);
  partition.updates = partition.applied = 10 + partition.spec.id();
  return partition;
}

// Two variables on two ps. The scalar and the second half of the matrix are on ps 1.
Manifest SmallManifest() {
  Manifest manifest;
  manifest.job_name = "job \"quoted\"";
  manifest.job_json = R"({"name": "job"})";
  manifest.run_id = "00112233445566778899aabbccddeeff";
  manifest.name = {.step = 10, .generation = 3, .round = 4};
  manifest.created_unix_ms = 1700000000000;
  manifest.plan.set_records(1000);
  manifest.plan.set_batch(10);
  manifest.plan.set_split_batches(5);
  manifest.plan.set_seed(~uint64_t{0});
  manifest.plan.set_fingerprint("f");
  manifest.variables = {Variable("dense/kernel", {4, 3}), Variable("scale", {})};
  manifest.partitions.push_back(MakePartition(manifest, 0, 0, 0, 2, 0));
  manifest.partitions.push_back(MakePartition(manifest, 0, 1, 2, 4, 1));
  manifest.partitions.push_back(MakePartition(manifest, 1, 0, 0, 1, 1));
  manifest.files = {{PsFileName(0, 2), 24, 0, "boot0"}, {PsFileName(1, 2), 28, 0, "boot1"}};
  return manifest;
}

Ledger SomeLedger(uint64_t applied) {
  Ledger ledger;
  SplitInterval* interval = ledger.add_finished();
  interval->set_first(0);
  interval->set_last(1);
  OpenSplit* open = ledger.add_open();
  open->set_split(7);
  open->set_next(3);
  ledger.set_applied(applied);
  ledger.set_rejected(1);
  return ledger;
}

// Element e of partition p is 100 p + e, and its slot the negated value.
absl::Status WriteFiles(Files& files, const std::string& directory, Manifest& manifest,
                        const std::string& slot) {
  for (uint32_t ps = 0; ps < manifest.files.size(); ++ps) {
    std::vector<TensorInfo> tensors;
    std::vector<float> data;
    std::map<std::string, PartitionMetadata> metadata;
    std::map<std::string, std::string> ledgers;
    for (const ManifestPartition& partition : manifest.partitions) {
      if (partition.spec.ps() != ps) continue;
      const VariableSpec& variable = manifest.variables[partition.spec.variable()];
      const std::vector<uint64_t> shape = PartitionShape(variable, partition.spec);
      tensors.push_back({.name = partition.spec.name(), .shape = shape});
      tensors.push_back({.name = SlotTensorName(partition.spec.name(), slot), .shape = shape});
      const uint64_t elements = PartitionElements(variable, partition.spec);
      for (const float sign : {1.0f, -1.0f}) {
        for (uint64_t e = 0; e < elements; ++e) {
          data.push_back(sign * static_cast<float>(100 * partition.spec.id() + e));
        }
      }
      metadata[partition.spec.name()] = {.updates = partition.updates};
      ledgers[partition.spec.name()] = LedgerToText(SomeLedger(partition.applied));
    }
    std::string texts;
    for (const auto& [name, text] : ledgers) {
      tensors.push_back({.name = LedgerTensorName(name), .dtype = "U8", .shape = {text.size()}});
      texts += text;
    }
    const PsFileIdentity identity{.run_id = manifest.run_id,
                                  .generation = manifest.name.generation,
                                  .round = manifest.name.round,
                                  .ps = ps,
                                  .ps_count = static_cast<uint32_t>(manifest.files.size()),
                                  .boot_id = manifest.files[ps].boot_id};
    auto writer = SafetensorsWriter::Create(files, directory + "/" + manifest.files[ps].name,
                                            tensors, PsFileMetadata(identity, metadata));
    if (!writer.ok()) return writer.status();
    if (!(*writer)->Append(data).ok() || !(*writer)->Append(texts).ok() ||
        !(*writer)->Finish().ok()) {
      return absl::InternalError("write");
    }
    manifest.files[ps].bytes = (*writer)->bytes();
    manifest.files[ps].crc32c = (*writer)->crc32c();
  }
  return files.WriteAtomic(directory + "/" + kManifestName, ManifestToText(manifest));
}

struct Stored {
  explicit Stored(const std::string& slot = "momentum")
      : manifest(SmallManifest()), checkpoint(directory / manifest.name.ToString()) {
    REQUIRE(files.MakeDirectories(checkpoint).ok());
    REQUIRE(WriteFiles(files, checkpoint, manifest, slot).ok());
  }
  TestDirectory directory;
  PosixFiles files;
  Manifest manifest;
  std::string checkpoint;
};

std::string Resealed(std::string text) {
  const size_t trailer = text.rfind(",\n \"manifest_crc32c\"");
  Manifest none;
  char crc[9];
  std::snprintf(crc, sizeof crc, "%08x", Crc32c(text.substr(0, trailer)));
  return text.substr(0, trailer) + ",\n \"manifest_crc32c\": \"" + crc + "\"\n}\n";
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

TEST_CASE("variables that nobody could use are refused by name") {
  const auto refused = [](const std::function<void(VariableSpec&)>& edit) {
    std::vector<VariableSpec> variables = {Variable("dense/kernel", {4, 3})};
    edit(variables[0]);
    return std::string(CheckVariables(variables).message());
  };
  CHECK(refused([](VariableSpec& v) { v.set_constraint("non_neg"); }) == "");
  CHECK(refused([](VariableSpec& v) { v.set_moving_average(0.99); }) == "");
  CHECK(refused([](VariableSpec& v) { v.set_constraint("max_norm"); }) ==
        "variable \"dense/kernel\" has a constraint that is not known");
  for (const double odd : {-0.5, 1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(refused([&](VariableSpec& v) { v.set_moving_average(odd); }) ==
          "variable \"dense/kernel\" has a moving average that is not in [0, 1)");
  }
  CHECK(refused([](VariableSpec& v) { v.set_name("a\nb"); }) ==
        "variable \"a; b\" has a name that is empty or too long, or that has a control character");
  CHECK(refused([](VariableSpec& v) { v.set_name(std::string(3000000, 'n')); }).size() < 350);
}

TEST_CASE("a checkpoint's name has one spelling") {
  const CheckpointName name{.step = 120, .generation = 2, .round = 0};
  CHECK(name.ToString() == "step-120-g2-r0");
  CHECK(ParseCheckpointName("step-120-g2-r0") == name);
  CHECK(ParseCheckpointName("step-18446744073709551615-g1-r1").has_value());
  for (const char* bad :
       {"", "step-", "step-1", "step-1-g1", "step-1-g1-r", "step-01-g1-r1", "step-1-g1-r1x",
        "step-+1-g1-r1", "step--1-g1-r1", "step-1-g1-r18446744073709551616", "Step-1-g1-r1",
        "step-1-g1-r1/", "../step-1-g1-r1", "step-1-g 1-r1"}) {
    CAPTURE(bad);
    CHECK_FALSE(ParseCheckpointName(bad).has_value());
  }
}

TEST_CASE("a manifest comes back from its text as it was") {
  Manifest manifest = SmallManifest();
  manifest.variables[0].set_constraint("norm");
  manifest.variables[0].mutable_norm()->set_most(0.5);
  manifest.variables[0].mutable_norm()->set_rate(1);
  manifest.variables[0].mutable_norm()->add_axes(1);
  manifest.variables[0].mutable_table()->set_kind(TableSpec::FIXED);
  manifest.variables[0].mutable_table()->set_lazy(true);
  manifest.complete = true;
  manifest.summary = {{"loss", 0.1}, {"count", 3}};
  manifest.partitions[1].healthy = false;
  manifest.files[0].crc32c = 0x0000000a;
  const std::string text = ManifestToText(manifest);
  const absl::StatusOr<Manifest> back = ParseManifest(text, "m");
  REQUIRE(back.ok());
  CHECK(ManifestToText(*back) == text);
  CHECK(back->name == manifest.name);
  CHECK(back->job_json == manifest.job_json);
  CHECK(back->plan.SerializeAsString() == manifest.plan.SerializeAsString());
  CHECK(back->variables[0].SerializeAsString() == manifest.variables[0].SerializeAsString());
  CHECK(back->partitions[1].spec.SerializeAsString() ==
        manifest.partitions[1].spec.SerializeAsString());
  CHECK_FALSE(back->healthy());
  CHECK(LeastApplied(*back) == 10);
  CHECK(JsonOf(text).at("healthy") == false);  // other tools see plain JSON
}

TEST_CASE("no truncation and no flipped bit of a manifest goes unnoticed") {
  const std::string text = ManifestToText(SmallManifest());
  for (size_t size = 0; size < text.size(); ++size) {
    CHECK(absl::IsDataLoss(ParseManifest(text.substr(0, size), "m").status()));
  }
  for (size_t at = 0; at < text.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string damaged = text;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      CHECK_FALSE(ParseManifest(damaged, "m").ok());
    }
  }
}

TEST_CASE("a manifest that is sealed but wrong is refused with its own kind of error") {
  const std::string text = ManifestToText(SmallManifest());
  struct Case {
    const char* from;
    const char* to;
    absl::StatusCode code;
  };
  const std::vector<Case> cases = {
      {"\"format\": \"paracord.checkpoint\"", "\"format\": \"psckpt\"",
       absl::StatusCode::kFailedPrecondition},
      {"\"min_reader_version\": 2", "\"min_reader_version\": 7", absl::StatusCode::kUnimplemented},
      {"\"round\": 4", "\"round\": \"4\"", absl::StatusCode::kDataLoss},
      {"\"round\": 4", "\"round\": 4.5", absl::StatusCode::kDataLoss},
      {"\"step\": 10", "\"step\": -10", absl::StatusCode::kDataLoss},
      {"\"run_id\"", "\"ran_id\"", absl::StatusCode::kDataLoss},
      {"1700000000000", "9223372036854775808", absl::StatusCode::kDataLoss},
      {"1700000000000", "-1", absl::StatusCode::kDataLoss},
      {"1700000000000", "1e300", absl::StatusCode::kDataLoss},
      {"\"batch\": 10", "\"batch\": -10", absl::StatusCode::kDataLoss},
      {"\"row_end\": 2", "\"row_end\": 3", absl::StatusCode::kDataLoss},
      {"\"row_begin\": 2", "\"row_begin\": 1", absl::StatusCode::kDataLoss},
      {"\"row_end\": 4", "\"row_end\": 5", absl::StatusCode::kDataLoss},
      {"\"variable\": 1", "\"variable\": 2", absl::StatusCode::kDataLoss},
      {"\"ps\": 1", "\"ps\": 2", absl::StatusCode::kDataLoss},
      {"kernel/part_1", "kernel/part_0", absl::StatusCode::kDataLoss},
      {"\"bytes\": 24", "\"bytes\": 23", absl::StatusCode::kDataLoss},
      {"\"name\": \"scale\"", "\"name\": \"dense/kernel\"", absl::StatusCode::kDataLoss},
      {"ps-00000-of-00002", "../../etc/passwd", absl::StatusCode::kDataLoss},
      {"\"float32\"", "\"float16\"", absl::StatusCode::kDataLoss},
      {"\"crc32c\": \"00000000\"", "\"crc32c\": \"zz\"", absl::StatusCode::kDataLoss},
  };
  for (const Case& c : cases) {
    CAPTURE(c.to);
    const absl::Status status =
        ParseManifest(Resealed(Replaced(text, c.from, c.to)), "some/path").status();
    CHECK(status.code() == c.code);
    CHECK(status.message().find("some/path") != std::string::npos);
  }
  CHECK(ParseManifest(Resealed(text), "m").ok());
}

TEST_CASE("only directories with a manifest are checkpoints, newest by generation and round") {
  TestDirectory directory;
  PosixFiles files;
  CHECK(ListCheckpoints(files, directory / "nowhere")->empty());
  for (const char* name : {"step-9-g1-r9", "step-5-g2-r1", "step-4-g2-r10", "step-99-g3-r1",
                           "other", "step-1-g1-r01"}) {
    REQUIRE(files.MakeDirectories(directory / name).ok());
    if (std::string(name) == "step-99-g3-r1") continue;  // the round was never committed
    REQUIRE(files.WriteAtomic(directory / name + "/" + kManifestName, "{}").ok());
  }
  REQUIRE(files.WriteAtomic(directory / "step-7-g7-r7", "a file").ok());
  const auto list = ListCheckpoints(files, directory.path());
  REQUIRE(list.ok());
  std::vector<std::string> names;
  for (const CheckpointName& name : *list) names.push_back(name.ToString());
  CHECK(names == std::vector<std::string>{"step-4-g2-r10", "step-5-g2-r1", "step-9-g1-r9"});
}

TEST_CASE("a checkpoint that cannot be looked into is one, which cannot be read") {
  TestDirectory directory;
  PosixFiles files;
  const std::string path = directory / "step-9-g1-r9";
  std::filesystem::create_symlink(path, path);  // root cannot open it either
  const auto list = ListCheckpoints(files, directory.path());
  REQUIRE(list.ok());
  REQUIRE(list->size() == 1);
  const std::vector<absl::Status> damage = FindObviousDamage(files, path);
  REQUIRE(damage.size() == 1);
  CHECK(damage.front().message().find(path) != std::string::npos);
}

TEST_CASE("partitions and whole variables are read from their files") {
  Stored stored;
  REQUIRE(VerifyCheckpoint(stored.files, stored.checkpoint).ok());
  const auto manifest = ReadManifest(stored.files, stored.checkpoint);
  REQUIRE(manifest.ok());
  const std::vector<uint32_t> ids = {2, 0};
  const auto partitions = ReadTensors(stored.files, stored.checkpoint, *manifest, ids);
  REQUIRE(partitions.ok());
  CHECK((*partitions)[0].id == 2);
  CHECK((*partitions)[0].value == std::vector<float>{200});
  CHECK((*partitions)[0].slots.at("momentum") == std::vector<float>{-200});
  CHECK((*partitions)[1].value == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK((*partitions)[1].updates == 10);
  CHECK((*partitions)[1].ledger.SerializeAsString() == SomeLedger(10).SerializeAsString());

  const auto variables = ReadVariables(stored.files, stored.checkpoint, *manifest);
  REQUIRE(variables.ok());
  CHECK((*variables)[0] == std::vector<float>{0, 1, 2, 3, 4, 5, 100, 101, 102, 103, 104, 105});
  CHECK((*variables)[1] == std::vector<float>{200});
  const std::vector<uint32_t> unknown = {3};
  CHECK(
      absl::IsNotFound(ReadTensors(stored.files, stored.checkpoint, *manifest, unknown).status()));
}

TEST_CASE("where values are averaged, a model is read from the averages, and a restore is not") {
  Stored stored("average");
  const auto variables = ReadVariables(stored.files, stored.checkpoint, stored.manifest);
  REQUIRE(variables.ok());
  CHECK((*variables)[1] == std::vector<float>{-200});
  const std::vector<uint32_t> ids = {2};
  const auto partitions = ReadTensors(stored.files, stored.checkpoint, stored.manifest, ids);
  REQUIRE(partitions.ok());
  CHECK((*partitions)[0].value == std::vector<float>{200});
  CHECK((*partitions)[0].slots.at("average") == std::vector<float>{-200});
}

TEST_CASE("no damage to a ps file goes unnoticed, and the file is named") {
  Stored stored;
  const std::string path = stored.checkpoint + "/" + PsFileName(1, 2);
  const std::string good = *stored.files.ReadWhole(path);
  const auto refused = [&](const std::string& bytes) {
    REQUIRE(Overwrite(stored.files, path, bytes));
    const absl::Status status = VerifyCheckpoint(stored.files, stored.checkpoint);
    CHECK_FALSE(status.ok());
    CHECK(status.message().find(path) != std::string::npos);
    const absl::Status read =
        ReadVariables(stored.files, stored.checkpoint, stored.manifest).status();
    CHECK(read.code() == status.code());
    CHECK(read.message().find(path) != std::string::npos);
  };
  for (size_t at = 0; at < good.size(); at += 7) refused(good.substr(0, at));
  refused(good + "x");
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string damaged = good;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    refused(damaged);
  }
  REQUIRE(stored.files.WriteAtomic(path, good).ok());
  CHECK(VerifyCheckpoint(stored.files, stored.checkpoint).ok());
  REQUIRE(stored.files.RemoveTree(path).ok());
  CHECK(absl::IsNotFound(VerifyCheckpoint(stored.files, stored.checkpoint)));
}

TEST_CASE("a directory in place of a ps file or of the manifest is damage") {
  for (const std::string& name : {PsFileName(1, 2), std::string(kManifestName)}) {
    Stored stored;
    const std::string path = stored.checkpoint + "/" + name;
    REQUIRE(stored.files.RemoveTree(path).ok());
    REQUIRE(stored.files.MakeDirectories(path).ok());
    const absl::Status status = VerifyCheckpoint(stored.files, stored.checkpoint);
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message() == path + " is not a regular file");
    if (name == kManifestName) continue;
    const absl::Status read =
        ReadVariables(stored.files, stored.checkpoint, stored.manifest).status();
    CHECK(absl::IsDataLoss(read));
  }
}

// The files of WriteFiles with one header changed and all checksums renewed.
struct Forged : Stored {
  explicit Forged(const std::function<void(nlohmann::json&)>& change, uint32_t ps = 0)
      : path(checkpoint + "/" + PsFileName(ps, 2)) {
    const std::string good = *files.ReadWhole(path);
    const size_t length = static_cast<unsigned char>(good[0]) + 256 * static_cast<size_t>(good[1]);
    nlohmann::json header = JsonOf(good.substr(8, length));
    change(header);
    std::string text = header.dump();
    text.append((8 - text.size() % 8) % 8, ' ');
    std::string bytes(8, '\0');
    bytes[0] = static_cast<char>(text.size() % 256);
    bytes[1] = static_cast<char>(text.size() / 256);
    bytes += text + good.substr(8 + length);
    manifest.files[ps].bytes = bytes.size();
    manifest.files[ps].crc32c = Crc32c(bytes);
    REQUIRE(Overwrite(files, path, bytes));
    REQUIRE(Overwrite(files, checkpoint + "/" + kManifestName, ManifestToText(manifest)));
  }
  std::string path;
};

void Rename(nlohmann::json& header, const std::string& from, const std::string& to) {
  header[to] = header.at(from);
  header.erase(from);
}

TEST_CASE("a sealed file whose tensors are not those of the manifest is damaged") {
  const std::string part = "dense/kernel/part_0";
  const std::string slot = SlotTensorName(part, "momentum");
  struct Case {
    std::function<void(nlohmann::json&)> change;
    std::string error;
    uint32_t ps = 0;
  };
  const std::vector<Case> cases = {
      {[&](auto& h) { h[part]["dtype"] = "I32"; }, "tensor " + part + " is I32, not F32"},
      {[&](auto& h) { h[slot]["dtype"] = "U32"; }, "tensor " + slot + " is U32, not F32"},
      {[&](auto& h) {
         h[part].update({{"dtype", "F64"}, {"shape", {1, 3}}});
       },
       "is F64, not F32"},
      {[&](auto& h) {
         h[part]["shape"] = {3, 2};
       },
       "tensor " + part + " has the shape [3, 2], the manifest says [2, 3]"},
      {[&](auto& h) { Rename(h, part, "other"); }, "no tensor " + part},
      {[&](auto& h) { Rename(h, slot, part + "/.slot/"); }, "a slot without a name"},
      {[&](auto& h) { Rename(h, "scale/part_0/.slot/momentum", "other"); },
       "partition scale/part_0 has other slots than dense/kernel/part_1", 1},
      {[&](auto& h) { Rename(h, LedgerTensorName(part), "other"); }, "counts of partition " + part},
  };
  for (const Case& c : cases) {
    CAPTURE(c.error);
    Forged forged(c.change, c.ps);
    const absl::Status status = VerifyCheckpoint(forged.files, forged.checkpoint);
    CHECK(absl::IsDataLoss(status));
    CHECK(status.message().find(forged.path) != std::string::npos);
    CHECK(status.message().find(c.error) != std::string::npos);
    CHECK(ReadVariables(forged.files, forged.checkpoint, forged.manifest).status() == status);
  }
  Forged more([](auto& h) {
    h["of/a/newer/one"] = {{"dtype", "U8"}, {"shape", {0}}, {"data_offsets", {48, 48}}};
  });
  CHECK(VerifyCheckpoint(more.files, more.checkpoint).ok());
}

TEST_CASE("a checkpoint of the first format, with ledgers in the headers, is read") {
  Forged first([](auto& h) {
    const std::string part = "dense/kernel/part_0";
    Rename(h, LedgerTensorName(part), "not of that format");
    nlohmann::json counts =
        JsonOf(h["__metadata__"]["partition:" + part].template get<std::string>());
    counts["ledger"] = {
        {"finished", {{0, 1}}}, {"open", {{7, 3}}}, {"applied", 10}, {"rejected", 1}};
    h["__metadata__"]["partition:" + part] = counts.dump();
  });
  first.manifest.min_reader_version = 1;
  REQUIRE(Overwrite(first.files, first.checkpoint + "/" + kManifestName,
                    ManifestToText(first.manifest)));
  REQUIRE(VerifyCheckpoint(first.files, first.checkpoint).ok());
  const std::vector<uint32_t> ids = {0};
  const auto partitions = ReadTensors(first.files, first.checkpoint, first.manifest, ids);
  REQUIRE(partitions.ok());
  CHECK((*partitions)[0].ledger.SerializeAsString() == SomeLedger(10).SerializeAsString());
}

TEST_CASE("a manifest that claims more than its files hold gets no memory") {
  Stored stored;
  Manifest& manifest = stored.manifest;
  manifest.variables[0].set_shape(0, uint64_t{1} << 44);
  manifest.partitions[1].spec.set_row_end(uint64_t{1} << 44);
  manifest.files[1].bytes = uint64_t{1} << 56;  // the claimed number of bytes
  REQUIRE(
      Overwrite(stored.files, stored.checkpoint + "/" + kManifestName, ManifestToText(manifest)));
  const absl::Status status = VerifyCheckpoint(stored.files, stored.checkpoint);
  CHECK(absl::IsDataLoss(status));
  CHECK(ReadVariables(stored.files, stored.checkpoint, manifest).status() == status);
}

TEST_CASE("files and manifests of another checkpoint are told apart from damage") {
  Stored stored;
  const std::string first = stored.checkpoint + "/" + PsFileName(0, 2);
  const std::string second = stored.checkpoint + "/" + PsFileName(1, 2);
  const std::string good = *stored.files.ReadWhole(second);
  REQUIRE(stored.files.WriteAtomic(second, *stored.files.ReadWhole(first)).ok());
  CHECK(absl::IsFailedPrecondition(VerifyCheckpoint(stored.files, stored.checkpoint)));
  REQUIRE(stored.files.WriteAtomic(second, good).ok());

  const std::string moved = stored.directory / "step-10-g3-r5";
  REQUIRE(stored.files.Rename(stored.checkpoint, moved).ok());
  CHECK(absl::IsFailedPrecondition(VerifyCheckpoint(stored.files, moved)));
  CHECK(absl::IsNotFound(VerifyCheckpoint(stored.files, stored.checkpoint)));
}

}  // namespace
}  // namespace paracord
