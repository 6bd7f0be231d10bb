// paracord export: a checkpoint's variables in one safetensors file.
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/await_done.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "cli/out_file.h"
#include "cli/tensor_file.h"
#include "common/files.h"
#include "common/human_bytes.h"
#include "config/flags.h"
#include "config/partitions.h"

namespace paracord {

namespace {

// Returns the variables and the sum of their bytes. A growing table is exported as its ids and
// their rows.
std::vector<NamedTensor> TensorsOf(const ChosenCheckpoint& chosen, uint64_t& bytes) {
  std::vector<NamedTensor> tensors;
  for (size_t i = 0; i < chosen.manifest.variables.size(); ++i) {
    const VariableSpec& variable = chosen.manifest.variables[i];
    std::vector<uint64_t> shape(variable.shape().begin(), variable.shape().end());
    std::string name = variable.name();
    if (IsGrowing(variable)) {
      const std::span<const uint64_t> ids = chosen.ids[i];
      shape[0] = ids.size();
      tensors.push_back({.name = name + "/ids", .shape = {ids.size()}, .values = {}, .ids = ids});
      bytes += ids.size_bytes();
      name += "/rows";
    }
    tensors.push_back(
        {.name = std::move(name), .shape = std::move(shape), .values = chosen.values[i]});
    bytes += chosen.values[i].size() * sizeof(float);
  }
  return tensors;
}

// Describes the checkpoint that the values come from.
std::map<std::string, std::string> OriginOf(const Manifest& manifest) {
  return {{"job", manifest.job_name},
          {"checkpoint", manifest.name.ToString()},
          {"step", absl::StrCat(manifest.name.step)},
          {"run_id", manifest.run_id}};
}

// Refuses names with the ending of another format, which readers would trust.
absl::Status CheckEnding(const std::string& dir, const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  if (ending.empty() || ending == ".safetensors") return absl::OkStatus();
  const bool keras = ending == ".keras" || path.ends_with(".weights.h5");
  return absl::InvalidArgumentError(absl::StrCat(
      "--out: ", path, ": safetensors are written, which are no ", ending, ": ",
      keras ? absl::StrCat("`python3 -m paracord.export --dir ", dir, " --out ", path,
                           "` writes what Keras reads")
            : "name it .safetensors, or see `python3 -m paracord.export --help` for Keras' .keras "
              "and .weights.h5"));
}

// Waits until the job in `dir` is done; an error says that it has failed.
absl::Status AwaitJob(Files& files, const std::string& dir) {
  return AwaitDone(files, dir, [] {
    constexpr std::chrono::seconds kBetween(5);
    std::this_thread::sleep_for(kBetween);
    return kBetween;
  });
}

}  // namespace

int RunExport(Args args, std::ostream& out, std::ostream& err) {
  std::string dir;
  std::string path;
  std::optional<int64_t> step;
  Flags flags("paracord export",
              "Merges a checkpoint into one safetensors file with the model's variable names.");
  flags.String("dir", "DIR", "the job's directory", &dir);
  flags.Integer(
      "step", "N",
      "the checkpoint of this step; default: the newest healthy one, or the best with restore_best",
      0, INT64_MAX, &step);
  flags.String("out", "FILE", "the file to write, replaced as a whole", &path);
  bool when_done = false, bare = false;
  flags.Switch("when-done", "wait until the job in DIR is done; 1 where it has failed for good",
               &when_done);
  flags.Switch("bare", "leave run and checkpoint out of the file: equal values are equal bytes",
               &bare);
  const auto code = flags.ParseOrExit(args, "paracord export", out, err);
  if (code.has_value()) return *code;
  const auto fail = [&](absl::string_view why, ExitCode with) {
    return Fail("export", why, with, err);
  };
  if (dir.empty() || path.empty()) {
    return fail("needs --dir DIR and --out FILE", ExitCode::kConfiguration);
  }
  InputFiles files;
  dir = AbsolutePath(dir);
  path = AbsolutePath(path);
  absl::Status writable = CheckOutFile(files, path);
  // A pod that waits for the job waits for the store as well, and asks again when the job is done.
  if (when_done && absl::IsUnavailable(writable)) writable = absl::OkStatus();
  if (writable.ok()) writable = CheckNotOfJob("--out", dir, path);
  if (writable.ok()) writable = CheckEnding(dir, path);
  if (!writable.ok()) return fail(writable.message(), ExitCode::kConfiguration);
  const absl::Status done = when_done ? AwaitJob(files, dir) : absl::OkStatus();
  if (!done.ok()) return fail(done.message(), ExitCode::kFailed);
  const absl::StatusOr<ChosenCheckpoint> chosen = ChooseCheckpoint(files, dir, step, err);
  if (!chosen.ok()) {
    return fail(chosen.status().message(), ExitCodeOfChoice(chosen.status()));
  }
  writable = CheckOutFile(files, path);
  if (!writable.ok()) return fail(writable.message(), ExitCodeOfWrite(writable));
  const Manifest& manifest = chosen->manifest;
  uint64_t bytes = 0;
  const std::vector<NamedTensor> tensors = TensorsOf(*chosen, bytes);
  std::map<std::string, std::string> origin;
  if (!bare) origin = OriginOf(manifest);
  const absl::Status written = WriteTensors(files, path, tensors, origin);
  if (!written.ok()) return fail(written.message(), ExitCodeOfWrite(written));
  out << path << ": " << manifest.variables.size() << " variables, " << HumanBytes(bytes)
      << ", of checkpoint " << manifest.name.ToString() << "\n";
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace paracord
