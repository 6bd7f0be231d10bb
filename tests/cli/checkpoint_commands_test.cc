// Tests `export`, `checkpoint` and `status` on a DIR without a running coordinator.
#include <catch2/catch.hpp>
#include <filesystem>
#include <functional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "common/json_text.h"
#include "coordinator/core/job_state.h"
#include "nlohmann/json.hpp"
#include "tests/cli/ran.h"
#include "tests/example_job.h"

namespace paracord {
namespace {

using nlohmann::json;
std::vector<float> ReadAll(const SafetensorsFile& file, const std::string& name) {
  const TensorInfo* tensor = file.header().Find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values((tensor->end - tensor->begin) / sizeof(float));
  REQUIRE(file.ReadElements(*tensor, 0, values).ok());
  return values;
}

TEST_CASE("export merges the newest healthy checkpoint under the model's names") {
  ExampleJob example;
  example.Commit(2, 1, {.bias = 1});
  example.Commit(4, 2, {.bias = 2});
  const std::string newest = example.Commit(6, 3, {.healthy = false, .bias = 3});
  const std::string out = example.path("w.safetensors");
  const Ran ran = Run(RunExport, {"--dir", example.directory.path(), "--out", out});
  INFO(ran.err);
  CHECK(ran.code == 0);
  CHECK(Has(ran.err, newest + " is refused: it is not healthy"));
  CHECK(Has(ran.err, "using checkpoint step-4-g1-r2, the one before"));
  CHECK(Has(ran.out, "2 variables, 60 B, of checkpoint step-4-g1-r2"));
  const auto file = SafetensorsFile::Open(example.files, out);
  REQUIRE(file.ok());
  CHECK((*file)->header().tensors.size() == 2);
  CHECK((*file)->header().metadata.at("step") == "4");
  CHECK((*file)->header().Find("dense/kernel")->shape == std::vector<uint64_t>{4, 3});
  CHECK(ReadAll(**file, "dense/kernel") == std::vector<float>(12));
  CHECK(ReadAll(**file, "dense/bias") == std::vector<float>{2, 0, 0});

  // A checkpoint chosen by its step need not be the newest.
  const Ran asked = Run(RunExport, {"--dir", example.directory.path(), "--out", out, "--step=6"});
  CHECK(asked.code == 0);
  CHECK(asked.err.empty());
  // Without the origin in the metadata, files with equal values are equal, whichever run they are
  // of.
  example.Commit(8, 4, {.bias = 2});
  const std::string one = example.path("one.safetensors"),
                    other = example.path("other.safetensors");
  for (const auto& [file, step] : {std::pair(one, "4"), std::pair(other, "8")}) {
    CHECK(
        Run(RunExport, {"--dir", example.directory.path(), "--out", file, "--step", step, "--bare"})
            .code == 0);
  }
  CHECK(*example.files.ReadWhole(one) == *example.files.ReadWhole(other));
  const auto names = example.files.List(example.directory.path());
  REQUIRE(names.ok());
  for (const std::string& name : *names) CHECK_FALSE(absl::StrContains(name, ".tmp"));
}

TEST_CASE("export takes the checkpoint that restore_best has chosen once the job is done") {
  ExampleJob example;
  const json summary = {
      {"best", {{"epoch", 1}, {"metric", "loss"}, {"value", 0.5}, {"checkpoint", "step-2-g1-r1"}}}};
  example.Commit(2, 1, {.bias = 1});
  example.Commit(4, 2, {.bias = 2, .summary = summary});
  const std::string out = example.path("w.safetensors");
  const std::vector<std::string> args = {"--dir", example.directory.path(), "--out", out};
  Ran ran = Run(RunExport, args);
  CHECK(Has(ran.out, "of checkpoint step-4-g1-r2"));  // the job may go on
  const std::string last = example.Commit(6, 3, {.complete = true, .bias = 3, .summary = summary});
  ran = Run(RunExport, args);
  CHECK(ran.code == 0);
  CHECK(Has(ran.err,
            "using the best checkpoint, step-2-g1-r1 of epoch 1 (loss 0.5), as "
            "restore_best asks"));
  CHECK(Has(ran.out, "of checkpoint step-2-g1-r1"));
  CHECK(ReadAll(**SafetensorsFile::Open(example.files, out), "dense/bias") ==
        std::vector<float>{1, 0, 0});
  std::vector<std::string> exact = args;
  exact.push_back("--step=6");
  CHECK(Has(Run(RunExport, exact).out, "of checkpoint " + last));
  // If the best checkpoint is gone or damaged, `export` takes the newest.
  example.Damage("step-2-g1-r1", PsFileName(1, 2));
  ran = Run(RunExport, args);
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, "of checkpoint " + last));
}

TEST_CASE("a damaged checkpoint is refused by name and the one before it used") {
  ExampleJob example;
  const std::string first = example.Commit(2, 1, {});
  const std::string second = example.Commit(4, 2, {});
  example.Damage(second, PsFileName(1, 2));
  const std::string out = example.path("w.safetensors");
  const std::vector<std::string> args = {"--dir", example.directory.path(), "--out", out};
  Ran ran = Run(RunExport, args);
  CHECK(ran.code == 0);
  CHECK(Has(ran.err, second + " is refused"));
  CHECK(Has(ran.err, PsFileName(1, 2) + ": checksum"));
  CHECK(Has(ran.err, "using checkpoint " + first));

  std::vector<std::string> exact = args;
  exact.push_back("--step=4");
  CHECK(Run(RunExport, exact).code == 5);
  example.Damage(first, kManifestName);
  REQUIRE(example.files.RemoveTree(out).ok());
  ran = Run(RunExport, args);
  CHECK(ran.code == 5);
  CHECK(Has(ran.err, "no other checkpoint can be used"));
  CHECK_FALSE(example.files.Open(out).ok());
}

TEST_CASE("where the last checkpoint of a job that is done is lost, the one before is named") {
  ExampleJob example;
  const std::string first = example.Commit(2, 1, {.bias = 1});
  const std::string last = example.Commit(4, 2, {.complete = true, .bias = 2});
  example.directory.Write("summary.json", R"({"status": "done"})");
  const std::string dir = example.directory.path();
  const std::vector<std::string> args = {"--dir", dir, "--out", example.path("w")};
  CHECK(Run(RunExport, args).err.empty());
  CHECK(Run(RunCheckpoint, {"ls", "--dir", dir}).code == 0);

  std::filesystem::remove(dir + "/checkpoints/" + last + "/" + kManifestName);
  const Ran ran = Run(RunExport, args);
  CHECK(ran.code == 0);
  CHECK(Has(ran.err, "but its last checkpoint is not there any more"));
  CHECK(Has(ran.err, "using checkpoint " + first + ", the one before"));
  for (const char* what : {"ls", "verify"}) {
    const Ran looked = Run(RunCheckpoint, {what, "--dir", dir});
    CHECK(looked.code == 5);
    CHECK(Has(looked.err, "but its last checkpoint is not there any more"));
  }
  const Ran doctor = Run(RunDoctor, {"--dir", dir, "--device", "cpu"});
  CHECK(doctor.code == 1);
  CHECK(Has(doctor.out,
            "but its last checkpoint is not there any more; the newest that is there "
            "is " +
                first));
  example.directory.Write("summary.json", R"({"status": "failed"})");
  CHECK(Run(RunExport, args).err.empty());  // the failed run may have ended before a checkpoint
}

TEST_CASE("of a folder in which paracord.fit trains, export names the job's directory below") {
  ExampleJob example;
  example.Commit(2, 1, {});
  const TestDirectory fit;
  const std::vector<std::string> args = {"--dir", fit.path(), "--out", fit / "w"};
  CHECK(Has(Run(RunExport, args).err, "/checkpoints holds no checkpoint"));
  std::filesystem::create_directory(fit / "run");
  std::filesystem::rename(example.path("checkpoints"), fit / "run/checkpoints");
  const Ran ran = Run(RunExport, args);
  CHECK(ran.code == 5);
  CHECK(Has(ran.err, absl::StrCat(fit.path(), " is no job's directory, and ", fit.path(),
                                  "/run is one: name that")));
}

TEST_CASE("export says what it cannot export, with the exit code for it") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  const std::string out = example.path("w");
  CHECK(Run(RunExport, {"--dir", dir, "--out", out}).code == 5);
  example.Commit(2, 1, {});
  const Ran ran = Run(RunExport, {"--dir", dir, "--out", out, "--step=3"});
  CHECK(ran.code == 5);
  CHECK(Has(ran.err, "holds no checkpoint of step 3; there is step 2"));
  CHECK(Run(RunExport, {"--dir", dir + "/none", "--out", out}).code == 2);
  const Ran missing = Run(RunExport, {"--dir", dir, "--out", dir + "/none/w"});
  CHECK(missing.code == 2);
  CHECK(Has(missing.err, "--out: the directory " + dir + "/none is not there"));
  CHECK(Run(RunExport, {"--dir", dir, "--out", dir}).code == 2);
  const Ran denied = Run(RunExport, {"--dir", dir, "--out", "/proc/w"});  // fails for root, too
  CHECK(denied.code == 2);
  CHECK(Has(denied.err, "cannot create /proc/w"));
  CHECK(Run(RunExport, {"--dir", dir}).code == 2);
  CHECK(Run(RunExport, {"--dri", dir, "--out", out}).code == 2);
  const Ran help = Run(RunExport, {"--help"});
  CHECK(help.code == 0);
  CHECK(absl::StartsWith(help.out, "usage: paracord export"));
}

TEST_CASE("export refuses a name of another kind of file, and names what writes that") {
  ExampleJob example;
  example.Commit(2, 1, {});
  const std::string dir = example.directory.path();
  for (const char* const name : {"m.keras", "m.weights.h5"}) {
    const std::string path = example.path(name);
    const Ran ran = Run(RunExport, {"--dir", dir, "--out", path});
    CHECK(ran.code == 2);
    CHECK(Has(ran.err, "python3 -m paracord.export --dir " + dir + " --out " + path));
    CHECK_FALSE(example.files.Open(path).ok());
  }
  const Ran ran = Run(RunExport, {"--dir", dir, "--out", example.path("m.onnx")});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "which are no .onnx: name it .safetensors"));
  CHECK(Run(RunExport, {"--dir", dir, "--out", example.path("weights")}).code == 0);
}

TEST_CASE("export does not overwrite the job's own files") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  const std::string name = example.Commit(2, 1, {});
  const std::string checkpoint = example.path("checkpoints/" + name);
  std::filesystem::create_directory_symlink(checkpoint, example.path("link"));
  for (const std::string& out :
       {checkpoint + "/MANIFEST.json", checkpoint + "/more", example.path("checkpoints/w"),
        example.path("link/more"), example.path("summary.json"), example.path("job.state-7"),
        example.path("lock"), example.path("job.running.json")}) {
    CAPTURE(out);
    const Ran ran = Run(RunExport, {"--dir", dir, "--out", out});
    CHECK(ran.code == 2);
    CHECK(Has(ran.err, "--out: " + out + " belongs to the job in " + dir));
  }
  CHECK(Run(RunExport, {"--dir", dir, "--out", example.path("w")}).code == 0);
}

TEST_CASE("a checkpoint's position is shown in epochs from 1, as train counts them") {
  const std::pair<uint64_t, std::string> cases[] = {{0, "epoch 1, batch 0 of 2"},
                                                    {1, "epoch 1, batch 1 of 2"},
                                                    {2, "epoch 1, batch 2 of 2"},
                                                    {3, "epoch 2, batch 1 of 2"}};
  for (const auto& [step, position] : cases) {
    ExampleJob example;
    example.Commit(step, 1, {});
    CHECK(Has(Run(RunCheckpoint, {"ls", "--dir", example.directory.path()}).out, position));
  }
}

TEST_CASE("checkpoint ls shows position, size, health, and what is damaged") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  Ran ran = Run(RunCheckpoint, {"ls", "--dir", dir});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, dir + " is no job's directory: it has no checkpoints/"));
  REQUIRE(example.files.MakeDirectories(dir + "/checkpoints").ok());
  ran = Run(RunCheckpoint, {"ls", "--dir", dir});
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, "no checkpoints in"));
  example.Commit(3, 1, {});
  example.Commit(4, 2, {.healthy = false});
  example.Commit(6, 3, {.complete = true});
  ran = Run(RunCheckpoint, {"ls", "--dir", dir});
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, "NOT FINITE"));
  CHECK(Has(ran.out, "finite, complete"));
  example.Damage("step-4-g1-r2", PsFileName(0, 2));  // only `verify` reads every byte
  CHECK(Run(RunCheckpoint, {"ls", "--dir", dir}).code == 0);
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir}).code == 5);
  const std::string file = example.Checkpoint("step-3-g1-r1") + "/" + PsFileName(0, 2);
  REQUIRE(Overwrite(example.files, file, "short"));
  ran = Run(RunCheckpoint, {"ls", "--dir", dir, "--json"});
  CHECK(ran.code == 5);
  std::istringstream lines(ran.out);
  std::vector<json> seen;
  for (std::string line; std::getline(lines, line);) seen.push_back(JsonOf(line));
  REQUIRE(seen.size() == 3);
  CHECK(seen[0]["name"] == "step-6-g1-r3");
  CHECK(seen[0]["complete"] == true);
  CHECK(seen[0]["position"] == "epoch 3, batch 2 of 2");
  CHECK(seen[0]["damage"].empty());
  CHECK(seen[1]["healthy"] == false);
  CHECK(seen[2]["position"] == "epoch 2, batch 1 of 2");
  CHECK(Has(seen[2]["damage"][0], PsFileName(0, 2)));
  ran = Run(RunCheckpoint, {"ls", "--dir", dir});
  CHECK(ran.code == 5);
  CHECK(Has(ran.out, "DAMAGED: " + file + ": 5 bytes, the manifest says "));
  REQUIRE(example.files.RemoveTree(file).ok());
  CHECK(Has(Run(RunCheckpoint, {"ls", "--dir", dir}).out, "DAMAGED: cannot open " + file));
  example.Damage("step-3-g1-r1", kManifestName);
  ran = Run(RunCheckpoint, {"ls", "--dir", dir});
  CHECK(ran.code == 5);
  CHECK(Has(ran.out, "step-3-g1-r1             step 3        manifest unreadable"));
  CHECK(Run(RunCheckpoint, {"ls", "--dir", dir, "--step=6"}).code == 0);
  ran = Run(RunCheckpoint, {"ls", "--dir", dir + "/checkpoints"});
  CHECK(ran.code == 2);
  CHECK(Has(ran.err, "did you mean " + dir + "?"));
}

TEST_CASE("checkpoint verify names every damaged file and ends with 5") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir}).code == 2);
  REQUIRE(example.files.MakeDirectories(dir + "/checkpoints").ok());
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir}).code == 5);
  const std::string first = example.Commit(2, 1, {});
  const std::string second = example.Commit(4, 2, {});
  Ran ran = Run(RunCheckpoint, {"verify", "--dir", dir});
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, second + ": sound, "));
  example.Damage(first, PsFileName(0, 2));
  example.Damage(first, PsFileName(1, 2));
  ran = Run(RunCheckpoint, {"verify", "--dir", dir});
  CHECK(ran.code == 5);
  CHECK(Has(ran.err, example.Checkpoint(first) + "/" + PsFileName(0, 2)));
  CHECK(Has(ran.err, example.Checkpoint(first) + "/" + PsFileName(1, 2)));
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir, "--step=4"}).code == 0);
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir, "--step=2"}).code == 5);
  CHECK(Run(RunCheckpoint, {"verify", "--dir", dir, "--step=1"}).code == 5);
  example.Damage(second, kManifestName);
  ran = Run(RunCheckpoint, {"verify", "--dir", dir, "--step=4"});
  CHECK(ran.code == 5);
  CHECK(Has(ran.err, second + "/" + kManifestName));
}

// A stream that calls `meanwhile` once something has been printed.
class Interrupted : public std::stringbuf {
 public:
  explicit Interrupted(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    if (const auto once = std::exchange(meanwhile_, nullptr)) once();
    return std::stringbuf::xsputn(text, size);
  }

 private:
  std::function<void()> meanwhile_;
};

TEST_CASE("a checkpoint that is replaced while another is looked at is not shown as damaged") {
  ExampleJob example;
  const std::string removed = example.Checkpoint(example.Commit(2, 1, {}));
  example.Commit(4, 2, {});
  for (const char* what : {"verify", "ls"}) {
    example.Commit(2, 1, {});
    Interrupted buffer([&] { std::filesystem::remove_all(removed); });
    std::ostream out(&buffer);
    std::ostringstream err;
    const std::vector<std::string> args = {what, "--dir", example.directory.path()};
    CHECK(RunCheckpoint(args, out, err) == 0);
    CHECK(err.str().empty());
    CHECK(Has(buffer.str(), "step-4-g1-r2"));
    CHECK_FALSE(Has(buffer.str(), "step-2-g1-r1"));
  }
}

// Files of a running job, which replaces the checkpoint whenever the checkpoint is opened.
class Replacing : public PosixFiles {
 public:
  explicit Replacing(std::function<void()> replace) : replace_(std::move(replace)) {}
  absl::StatusOr<std::unique_ptr<ReadFile>> Open(const std::string& path) override {
    if (const auto once = std::exchange(replace_, nullptr)) once();
    return PosixFiles::Open(path);
  }

 private:
  std::function<void()> replace_;
};

TEST_CASE("a command that reads a checkpoint takes the one that has replaced it") {
  ExampleJob example;
  const std::string first = example.Checkpoint(example.Commit(2, 1, {}));
  Replacing files([&] {
    example.Commit(4, 2, {});
    std::filesystem::remove_all(first);
  });
  std::ostringstream notes;
  const auto chosen = ChooseCheckpoint(files, example.directory.path(), std::nullopt, notes);
  REQUIRE(chosen.ok());
  CHECK(chosen->manifest.name.step == 4);
  CHECK(notes.str().empty());
}

TEST_CASE("a checkpoint that cannot be looked into is shown as damaged") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  example.Commit(2, 1, {});
  const std::string path = example.Checkpoint("step-4-g1-r2");
  std::filesystem::create_symlink(path, path);
  for (const char* what : {"ls", "verify"}) {
    const Ran ran = Run(RunCheckpoint, {what, "--dir", dir});
    CHECK(ran.code == 5);
    CHECK(Has(ran.out + ran.err, path));
  }
}

TEST_CASE("wrong arguments of checkpoint are configuration errors") {
  ExampleJob example;
  for (const std::vector<std::string>& args : {std::vector<std::string>{},
                                               {"ls"},
                                               {"list", "--dir", "/tmp"},
                                               {"ls", "--dir", "/none/x"}}) {
    const Ran ran = Run(RunCheckpoint, args);
    CHECK(ran.code == 2);
    CHECK_FALSE(ran.err.empty());
  }
  CHECK(Run(RunCheckpoint, {"--help"}).code == 0);
}

TEST_CASE("status of a directory whose address names no machine says which to give") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  example.Commit(3, 1, {});
  example.directory.Write("coordinator.address", "0.0.0.0:1\n");
  const Ran ran = Run(RunStatus, {"--dir", dir});
  CHECK(ran.code == 202);
  CHECK(Has(ran.out, "no coordinator answers: " + dir +
                         "/coordinator.address has 0.0.0.0:1, at which the coordinator listens, "
                         "and which names no machine: give --address with the name of its machine "
                         "or service, and --insecure where there are no certificates\n"));
  CHECK_FALSE(Has(ran.out, "on another machine"));
  // Plain text may be sent there, and nobody listens on this machine: the cause is kept.
  CHECK(Has(Run(RunStatus, {"--dir", dir, "--insecure"}).out,
            "no certificates (connection refused: no process listens at 0.0.0.0:1)"));
}

TEST_CASE("without a coordinator status says what the directory knows") {
  ExampleJob example;
  const std::string dir = example.directory.path();
  CHECK(Run(RunStatus, {"--dir", dir}).code == 202);
  CHECK(Run(RunStatus, {"--dir", dir + "/none"}).code == 2);
  CHECK(Run(RunStatus, {}).code == 2);
  const Ran garbage = Run(RunStatus, {"--address", "garbage"});
  CHECK(garbage.code == 2);
  CHECK(Has(garbage.err, "--address: \"garbage\" has no port"));
  example.Commit(3, 1, {});
  Ran ran = Run(RunStatus, {"--dir", dir});
  CHECK(ran.code == 202);
  CHECK(Has(ran.out, "no coordinator answers"));
  CHECK(Has(ran.out, "newest checkpoint: step-3-g1-r1, epoch 2, batch 1 of 2"));
  ran = Run(RunStatus, {"--dir", dir, "--json"});
  CHECK(JsonOf(ran.out)["checkpoint"]["step"] == 3);
  for (const char* damaged : {"", "[]", "{", "7", "{}", R"({"status": []})"}) {
    CAPTURE(damaged);
    example.Write("summary.json", damaged);
    ran = Run(RunStatus, {"--dir", dir});
    CHECK(ran.code == 202);
    CHECK(Has(ran.err, example.path("summary.json") + " is no summary of a job"));
  }
  example.Write("summary.json", R"({"status": "done", "reason": "all batches are applied",
                                    "metrics": {"test": {"accuracy": 0.5}}})");
  ran = Run(RunStatus, {"--dir", dir});
  CHECK(ran.code == 0);
  CHECK(Has(ran.out, "the job has ended: done (all batches are applied)"));
  CHECK(Has(ran.out, "test accuracy: 0.5"));

  // A failed resume does not hide that the job was done before.
  example.Write(kDoneSummaryName, *example.files.ReadWhole(example.path("summary.json")));
  CHECK_FALSE(Has(Run(RunStatus, {"--dir", dir}).out, "before that"));
  example.Write("summary.json", R"({"status": "failed", "reason": "no sound checkpoint",
                                    "waiting": "missing ps:0", "last_failure": "no"})");
  ran = Run(RunStatus, {"--dir", dir});
  CHECK(Has(ran.out, "what it waited for: missing ps:0\nthe last failure: no"));
  CHECK(Has(ran.out, "the job has ended: failed (no sound checkpoint)"));
  CHECK(Has(ran.out, "before that it had ended: done (all batches are applied)"));
  CHECK(Has(ran.out, "test accuracy: 0.5"));
  CHECK(JsonOf(Run(RunStatus, {"--dir", dir, "--json"}).out)["done_before"]["status"] == "done");
}

TEST_CASE("ages are shown in the unit that fits") {
  CHECK(AgeText(-5000) == "0 s");
  CHECK(AgeText(1499) == "1 s");
  CHECK(AgeText(600'000) == "10.0 min");
  CHECK(AgeText(3 * 3600'000) == "3.0 h");
  CHECK(AgeText(int64_t{96} * 3600'000) == "4.0 days");
}

}  // namespace
}  // namespace paracord
