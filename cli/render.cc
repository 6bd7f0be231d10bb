// paracord render kubernetes: the manifests that run a job, for who has no kustomize.
#include <algorithm>
#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/manifests.h"
#include "cli/user_job.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/status_text.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_file.h"
#include "config/job_settings.h"

namespace paracord {
namespace {

constexpr char kCommand[] = "render kubernetes";

// Whether a value can go into YAML without quotes.
bool IsPlain(const std::string& value) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+";
  return value.find_first_not_of(kAllowed) == std::string::npos;
}

// The flags of the command line.
struct RenderFlags {
  std::string job_file;
  std::vector<std::string> set;
  int64_t ps = 2, workers = 2, gpus = 0;
  ManifestOptions options;

  void AddTo(Flags& flags) {
    flags.Positional("JOB", "the job file", &job_file);
    flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
    flags.Integer("ps", "N", "parameter servers", 1, 4096, &ps);
    flags.Integer("workers", "N", "workers, at first: their Job's parallelism may be changed", 0,
                  100000, &workers);
    flags.Integer("gpus", "N", "GPUs of each worker (nvidia.com/gpu)", 0, 1024, &gpus);
    flags.Switch("allow-programs",
                 "let workers run the command of a job whose model is a program; the image has to "
                 "have what it needs",
                 &options.programs);
    flags.Switch(
        "tls",
        "mutual TLS: each role shows the certificate of the Secret NAME-ROLE-tls (tls.crt, "
        "tls.key, ca.crt); without it, plain text",
        &options.tls);
    flags.String("image", "IMAGE", "of all programs", &options.image);
    flags.String(
        "storage", "CLAIM|URL",
        "where checkpoints go: a PersistentVolumeClaim that is there and that all nodes can "
        "write to, or s3://BUCKET/PREFIX; without it a new claim",
        &options.storage);
    flags.String("data", "CLAIM",
                 "a claim that holds the data, mounted at /data; without it the "
                 "image has them",
                 &options.data);
    flags.String("name", "NAME", "name of the objects, instead of the job's", &options.name);
  }
};

// Returns the bytes of the largest ConfigMap, as `kubectl apply` keeps the object in an annotation.
size_t LargestConfigMap(const std::string& manifests) {
  size_t largest = 0;
  const std::vector<std::string> documents = absl::StrSplit(manifests, "\n---\n");
  for (const std::string& document : documents) {
    if (document.find("\nkind: ConfigMap\n") == std::string::npos) continue;
    largest = std::max(largest, TextOf(nlohmann::json(document)).size());
  }
  return largest;
}

}  // namespace

int RunRender(Args args, std::ostream& out, std::ostream& err) {
  const bool help = !args.empty() && (args[0] == "--help" || args[0] == "-h");
  if (!help && (args.empty() || args[0] != "kubernetes")) {
    const std::string given = args.empty() ? "nothing" : args[0];
    return Fail("render", absl::StrCat("renders kubernetes, not ", given), ExitCode::kConfiguration,
                err);
  }
  RenderFlags own;
  ManifestOptions& options = own.options;
  options.image = absl::StrCat("localhost/paracord:", PARACORD_VERSION);
  Flags flags("paracord render kubernetes",
              "Writes the manifests that run the job on Kubernetes: a Job (coordinator), a\n"
              "StatefulSet (ps), a Job (workers) and what they need. Data files whose paths are\n"
              "relative to the job file are below /data in the pods.");
  own.AddTo(flags);
  const auto code = flags.ParseOrExit(help ? args : args.subspan(1), "paracord render", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail(kCommand, why, ExitCode::kConfiguration, err);
  };
  PosixFiles files;
  const std::string path = AbsolutePath(own.job_file);
  const absl::StatusOr<Job> job = ReadUserJob(files, path, own.set);
  if (!job.ok()) return refuse(Text(job.status()));
  const std::string& weights = job->initial_weights.file.value_or("");
  if (IsKerasFileName(weights)) {
    return refuse(absl::StrCat(
        weights, ": pods read no file of Keras: write `paracord convert ", weights,
        " --out model.json --weights weights.safetensors`, and name these as model and ",
        "initial_weights"));
  }
  if (options.name.empty()) {
    options.name = ObjectName(job->name);
  } else if (options.name != ObjectName(options.name)) {
    return refuse(absl::StrCat("--name: ", options.name, " is no name of objects; ",
                               ObjectName(options.name), " is"));
  }
  if (options.name.empty()) return refuse("the job's name gives no name of objects: give --name");
  for (const auto& [flag, value] :
       {std::pair("--image", options.image), std::pair("--storage", options.storage),
        std::pair("--data", options.data)}) {
    if (!IsPlain(value)) return refuse(absl::StrCat(flag, ": ", value, " is no name"));
  }
  options.ps = static_cast<uint64_t>(own.ps);
  options.workers = static_cast<uint64_t>(own.workers);
  options.gpus = static_cast<uint64_t>(own.gpus);
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const absl::StatusOr<std::string> manifests = KubernetesManifests(*job, directory, options);
  if (!manifests.ok()) return refuse(Text(manifests.status()));
  out << *manifests;
  constexpr size_t kAnnotationBytesMax = 262144;  // Kubernetes'
  if (const size_t bytes = LargestConfigMap(*manifests); bytes > kAnnotationBytesMax) {
    err << kCommand << ": the ConfigMap has about " << bytes << " bytes, more than the "
        << kAnnotationBytesMax << " that `kubectl apply` may keep in an annotation: apply it with "
        << "`kubectl apply --server-side -f FILE`\n";
  }
  return 0;
}

}  // namespace paracord
