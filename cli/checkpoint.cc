// paracord checkpoint: lists the checkpoints, and checks whether they are sound.
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpoint_choice.h"
#include "cli/commands.h"
#include "common/human_bytes.h"
#include "common/json_text.h"
#include "common/steady_ms.h"
#include "config/flags.h"
#include "nlohmann/json.hpp"
#include "objects/all_files.h"
#include "storage/damage_finder.h"

namespace paracord {
namespace {

struct CheckpointFlags {
  std::string what;
  std::string dir;
  std::optional<int64_t> step;
  bool json = false;
};

struct Seen {
  CheckpointName name;
  std::optional<Manifest> manifest;  // none: unreadable
  uint64_t bytes = 0;
  std::vector<std::string> damage;
};

Seen Look(Files& files, const std::string& checkpoints, const CheckpointName& name,
          DamageFinder& finder) {
  Seen seen;
  seen.name = name;
  const std::string directory = checkpoints + "/" + name.ToString();
  absl::StatusOr<Manifest> manifest = ReadManifest(files, directory);
  if (manifest.ok()) {
    for (const ManifestFile& file : manifest->files) seen.bytes += file.bytes;
    seen.manifest = *std::move(manifest);
  }
  for (const absl::Status& damage : finder.Find(directory)) {
    seen.damage.emplace_back(damage.message());
  }
  return seen;
}

nlohmann::json ToJson(const Seen& seen) {
  nlohmann::json json = {{"name", seen.name.ToString()}, {"damage", seen.damage}};
  if (!seen.manifest.has_value()) return json;
  const Manifest& manifest = *seen.manifest;
  json.update({{"step", manifest.name.step},
               {"position", PositionText(manifest)},
               {"bytes", seen.bytes},
               {"created_unix_ms", manifest.created_unix_ms},
               {"healthy", manifest.healthy()},
               {"complete", manifest.complete}});
  if (!manifest.base.empty()) json["continues"] = manifest.base;
  return json;
}

void PrintLine(const Seen& seen, std::ostream& out) {
  out << absl::StrFormat("%-24s step %-8d ", seen.name.ToString(), seen.name.step);
  if (seen.manifest.has_value()) {
    const Manifest& manifest = *seen.manifest;
    out << absl::StrFormat("%-28s %10s  %9s ago  ", PositionText(manifest), HumanBytes(seen.bytes),
                           AgeText(UnixMs() - manifest.created_unix_ms));
    if (seen.damage.empty()) {
      out << (manifest.healthy() ? "finite" : "NOT FINITE")
          << (manifest.complete ? ", complete" : "");
      if (!manifest.base.empty()) out << ", continues " << manifest.base;
    }
  } else {
    out << absl::StrFormat("%-28s %10s  %9s      ", "manifest unreadable", "", "");
  }
  if (!seen.damage.empty()) out << "DAMAGED: " << seen.damage.front();
  out << "\n";
}

// `ls` lists all checkpoints; `verify` reports their damage. Returns the exit code.
int Show(const CheckpointFlags& own, std::ostream& out, std::ostream& err) {
  const auto fail = [&](const std::string& why, ExitCode code) {
    return Fail("checkpoint " + own.what, why, code, err);
  };
  AllFiles files;
  const std::string dir = AbsolutePath(own.dir);
  const absl::Status there = files.List(dir).status();
  if (!there.ok()) return fail(std::string(there.message()), ExitCode::kConfiguration);
  const std::string checkpoints = CheckpointsDirectory(dir);
  if (!files.List(checkpoints).ok()) {
    const std::filesystem::path path(dir);
    return fail(absl::StrCat(dir, " is no job's directory: it has no checkpoints/",
                             path.filename() == "checkpoints"
                                 ? absl::StrCat("; did you mean ", path.parent_path().string(), "?")
                                 : ""),
                ExitCode::kConfiguration);
  }
  absl::StatusOr<std::vector<CheckpointName>> names = ListCheckpoints(files, checkpoints);
  if (!names.ok()) return fail(std::string(names.status().message()), ExitCode::kConfiguration);
  const bool verify = own.what == "verify";
  DamageFinder finder(files, /*whole=*/verify);
  int looks = 1;
  size_t shown = 0;
  size_t damaged = 0;
  for (size_t next = 0; next < names->size();) {
    const CheckpointName name = (*names)[next++];
    if (own.step.has_value() && name.step != static_cast<uint64_t>(*own.step)) continue;
    const Seen seen = Look(files, checkpoints, name, finder);
    if (!seen.damage.empty() && !IsCheckpoint(files, checkpoints + "/" + name.ToString())) {
      if (shown > 0 || ++looks > kLooksMax) continue;
      next = 0;
      names = ListCheckpoints(files, checkpoints);
      if (!names.ok()) return fail(std::string(names.status().message()), ExitCode::kConfiguration);
      continue;
    }
    ++shown;
    if (!seen.damage.empty()) ++damaged;
    if (own.json) {
      out << TextOf(ToJson(seen)) << "\n";
    } else if (!verify) {
      PrintLine(seen, out);
    } else if (seen.damage.empty()) {
      out << name.ToString() << ": sound, " << HumanBytes(seen.bytes) << "\n";
    }
    for (const std::string& damage : seen.damage) {
      if (verify) err << name.ToString() << ": damaged: " << damage << "\n";
    }
  }
  if (!own.step.has_value() && !names->empty() && LacksLastCheckpoint(files, dir, names->front())) {
    err << kLastIsLost << "\n";
    ++damaged;
  }
  if (shown == 0 && own.step.has_value()) {
    return fail(absl::StrCat(checkpoints, " holds no checkpoint of step ", *own.step),
                ExitCode::kNoCheckpoint);
  }
  if (shown == 0 && verify) {
    return fail(checkpoints + " holds no checkpoint", ExitCode::kNoCheckpoint);
  }
  if (shown == 0 && !own.json) out << "no checkpoints in " << checkpoints << "\n";
  return static_cast<int>(damaged > 0 ? ExitCode::kNoCheckpoint : ExitCode::kDone);
}

}  // namespace

int RunCheckpoint(Args args, std::ostream& out, std::ostream& err) {
  CheckpointFlags own;
  Flags flags(
      "paracord checkpoint",
      "Shows the checkpoints of a job, newest first. `ls` lists them and looks at manifests\n"
      "and file sizes; `verify` reads every byte. Each ends with code 5 if it finds a damaged "
      "one,\n"
      "or if the last one of a finished job is gone.");
  flags.Positional("ls|verify", "what to do", &own.what);
  flags.String("dir", "DIR", "the job's directory", &own.dir);
  flags.Integer("step", "N", "only the checkpoint of this step", 0, INT64_MAX, &own.step);
  flags.Switch("json", "one JSON object a checkpoint", &own.json);
  const auto code = flags.ParseOrExit(args, "paracord checkpoint", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail("checkpoint", why, ExitCode::kConfiguration, err);
  };
  if (own.what != "ls" && own.what != "verify") {
    return refuse(absl::StrCat("`", own.what, "` is neither ls nor verify"));
  }
  return own.dir.empty() ? refuse("needs --dir DIR") : Show(own, out, err);
}

}  // namespace paracord
