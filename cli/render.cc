// paracord render kubernetes: the manifests that run a job, for users without kustomize.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "cli/manifests.h"
#include "cli/quantity.h"
#include "cli/user_job.h"
#include "common/files.h"
#include "common/human_bytes.h"
#include "common/json_text.h"
#include "common/memory_budget.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_file.h"
#include "config/job_settings.h"
#include "config/nodes.h"
#include "config/strategy.h"

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
  std::optional<int64_t> ps;
  int64_t workers = 2, gpus = 0;
  std::string ttl = "7d", ps_kind = "job";
  ManifestOptions options;

  void AddTo(Flags& flags) {
    flags.Positional("JOB", "the job file", &job_file);
    flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
    flags.Integer("ps", "N",
                  "parameter servers (2, or 0 where the job's strategy has none); 0: the workers "
                  "hold the variables, and worker 0 is the coordinator",
                  0, 4096, &ps);
    flags.Integer("workers", "N",
                  "workers, at first: their Job's parallelism may be changed, but with --ps 0", 0,
                  100000, &workers);
    flags.Integer("gpus", "N", "GPUs of each worker (nvidia.com/gpu)", 0, 1024, &gpus);
    flags.Switch("allow-programs",
                 "let workers run the command of a job whose model is a program; the image has to "
                 "have what it needs",
                 &options.programs);
    flags.Switch(
        "tls",
        "mutual TLS: each role shows the certificate of the Secret NAME-ROLE-tls (tls.crt, "
        "tls.key, ca.crt); without this flag the daemons speak plain text",
        &options.tls);
    flags.String("image", "IMAGE",
                 "of all programs; default: what deploy/image makes, with --gpus by --cuda",
                 &options.image);
    flags.String(
        "storage", "CLAIM|URL",
        "where checkpoints go: a PersistentVolumeClaim that is there and that all nodes can "
        "write to, or s3://BUCKET/PREFIX, with the AWS_ variables of the Secret NAME-storage; "
        "without it the claim NAME, which `paracord render storage` writes",
        &options.storage);
    flags.String("data", "CLAIM",
                 "a claim that holds the data, mounted at /data; without it the "
                 "image has them",
                 &options.data);
    AddOfObjects(flags);
    AddOfPods(flags);
  }

  // The flags of `paracord render storage`.
  void AddOfStorage(Flags& flags) {
    flags.Positional("JOB", "the job file", &job_file);
    flags.Strings("set", "KEY=VALUE", kSetHelp, &set);
    AddOfObjects(flags);
    flags.String("storage-size", "SIZE", "of the claim; default: 10Gi", &options.storage_size);
    flags.String("storage-class", "NAME", "of the claim; without it the cluster's default",
                 &options.storage_class);
  }

  void AddOfObjects(Flags& flags) {
    flags.String("name", "NAME", "name of the objects, instead of the job's", &options.name);
    flags.String("namespace", "NAME", "of all objects; without it kubectl's own",
                 &options.name_space);
  }

  void AddOfPods(Flags& flags) {
    flags.String("service-account", "NAME", "of all pods", &options.service_account);
    flags.String("image-pull-secret", "NAME", "for the registry of the image",
                 &options.image_pull_secret);
    flags.String("priority-class", "NAME", "of all pods", &options.priority_class);
    flags.Strings("toleration", "KEY[=VALUE]:EFFECT", "of all pods", &options.tolerations);
    flags.Strings("node-selector", "KEY=VALUE", "of all pods", &options.node_selectors);
    flags.String("cpu", "CPUS", "of each worker; its threads follow", &options.cpu);
    flags.String("memory", "SIZE", "of each worker, such as 8Gi", &options.memory);
    flags.String("ps-cpu", "CPUS", "of each ps; its threads follow", &options.ps_cpu);
    flags.String("ps-memory", "SIZE", "of each ps", &options.ps_memory);
    flags.String("export", "FILE",
                 "a Job writes the variables there once the job is done, as safetensors: "
                 "s3://BUCKET/model.safetensors, or a path below /job, which is the claim",
                 &options.export_to);
    flags.String(
        "ttl", "TIME",
        "remove finished Jobs after so long (7d), or never; the claim stays, and a StatefulSet",
        &ttl);
    flags.Switch(
        "http",
        "the coordinator shows its page at port 7480, in plain text without --tls; network "
        "policies let nobody at it but `kubectl port-forward` (with --ps 0 of pod NAME-worker-0)",
        &options.http);
    flags.Switch("monitoring",
                 "all daemons show metrics at port 7480, and the Prometheus operator of the "
                 "namespace monitoring scrapes them",
                 &options.monitoring);
    flags.String("queue", "NAME", "Kueue's local queue, which lets the Jobs begin", &options.queue);
    flags.String("ps-kind", "KIND",
                 "of who holds the variables: job, an Indexed Job (Kubernetes 1.26, with --ps 0 "
                 "1.28), which ends with the job, or statefulset, which stays until it is deleted, "
                 "and which `kubectl scale` and `rollout restart` know",
                 &ps_kind);
    flags.Switch("spot",
                 "the workers are a Deployment with an autoscaler (one to four times --workers) on "
                 "nodes that may vanish, which stays until it is deleted; the others avoid such "
                 "nodes",
                 &options.spot);
  }

  // Checks values that are copied into YAML unquoted.
  absl::Status Check();
};

// Returns the seconds of "90s", "10m", "12h" or "7d"; 0 if malformed.
uint64_t SecondsOf(const std::string& text) {
  if (text.empty()) return 0;
  constexpr std::pair<char, uint64_t> kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
  uint64_t number = 0;
  const std::string digits = text.substr(0, text.size() - 1);
  if (digits.size() > 6 || !absl::SimpleAtoi(digits, &number)) return 0;
  for (const auto& [unit, seconds] : kUnits) {
    if (text.back() == unit) return number * seconds;
  }
  return 0;
}

// Whether --node-selector and --toleration are as Kubernetes takes them.
absl::Status CheckNodeChoice(const ManifestOptions& options) {
  for (const std::string& selector : options.node_selectors) {
    const size_t equals = selector.find('=');
    std::string without = selector;
    if (equals != std::string::npos) without.erase(equals, 1);
    if (equals == 0 || equals == std::string::npos || !IsPlain(without)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--node-selector: ", selector, " is no KEY=VALUE"));
    }
  }
  for (const std::string& toleration : options.tolerations) {
    RETURN_IF_ERROR(TolerationItem(toleration).status());
    std::string without = toleration;
    std::erase(without, '=');
    if (IsPlain(without)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--toleration: ", toleration, " is no KEY[=VALUE]:EFFECT"));
  }
  return absl::OkStatus();
}

// Checks amounts of CPUs and bytes, which are copied into the manifests.
absl::Status CheckAmounts(const ManifestOptions& options) {
  constexpr double kCpusMin = 0.001;     // the smallest step that Kubernetes knows
  constexpr double kClaimMin = 1 << 20;  // less holds no checkpoint, and a unit was forgotten
  const double daemon = static_cast<double>(MemoryBudget::kLimitMin);
  const double worker = options.ps == 0 ? daemon * kNodeMemoryParts : daemon;
  struct Amount {
    const char* flag;
    const std::string& text;
    double least;
    bool bytes;
  };
  for (const Amount& amount : {Amount{"--cpu", options.cpu, kCpusMin, false},
                               Amount{"--ps-cpu", options.ps_cpu, kCpusMin, false},
                               Amount{"--memory", options.memory, worker, true},
                               Amount{"--ps-memory", options.ps_memory, daemon, true},
                               Amount{"--storage-size", options.storage_size, kClaimMin, true}}) {
    if (amount.text.empty()) continue;
    const absl::StatusOr<double> quantity = ParseQuantity(amount.text);
    if (!quantity.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(amount.flag, ": ", std::string(quantity.status().message())));
    }
    if (*quantity >= amount.least) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(amount.flag, ": ", amount.text, amount.bytes ? " bytes" : " CPUs",
                     " are too few, at least ",
                     amount.bytes ? HumanBytes(static_cast<uint64_t>(amount.least)) : "1m",
                     " are needed", amount.bytes ? "; 8Gi are 8 x 1024^3 bytes" : ""));
  }
  return absl::OkStatus();
}

// Checks that the file of --export outlives the pod that writes it.
absl::Status CheckExport(const ManifestOptions& options) {
  const std::string& to = options.export_to;
  const std::string ending = std::filesystem::path(to).extension().string();
  if (!ending.empty() && ending != ".safetensors") {
    return absl::InvalidArgumentError(
        absl::StrCat("--export: ", to, ": safetensors are written, which are no ", ending));
  }
  if (to.empty() || absl::StartsWith(to, "s3://")) return absl::OkStatus();
  if (absl::StrContains(to, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--export: ", to, " is no object store that is known: s3://BUCKET/FILE is"));
  }
  if (absl::StrContains(options.storage, "://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--export: ", to,
                     " would be gone with the pod: --storage names no claim, so name "
                     "s3://BUCKET/model.safetensors"));
  }
  const std::string path = std::filesystem::path(to).lexically_normal().string();
  if (absl::StartsWith(path, "/job/") && path.size() > 5 && path.back() != '/') {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--export: ", to,
                   " would be gone with the pod: name a file below /job, where the claim is, or "
                   "s3://BUCKET/model.safetensors"));
}

absl::Status RenderFlags::Check() {
  for (const auto& [flag, value] :
       {std::pair("--image", &options.image), std::pair("--storage", &options.storage),
        std::pair("--data", &options.data),
        std::pair("--service-account", &options.service_account),
        std::pair("--image-pull-secret", &options.image_pull_secret),
        std::pair("--priority-class", &options.priority_class),
        std::pair("--queue", &options.queue), std::pair("--export", &options.export_to),
        std::pair("--storage-class", &options.storage_class)}) {
    if (IsPlain(*value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", *value, " is no name"));
  }
  if (options.name_space != ObjectName(options.name_space)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--namespace: ", options.name_space, " is no name of a namespace"));
  }
  RETURN_IF_ERROR(CheckNodeChoice(options));
  RETURN_IF_ERROR(CheckAmounts(options));
  RETURN_IF_ERROR(CheckExport(options));
  if (ps_kind != "statefulset" && ps_kind != "job") {
    return absl::InvalidArgumentError(
        absl::StrCat("--ps-kind: is statefulset or job, and not ", ps_kind));
  }
  options.ps_job = ps_kind == "job";
  if (!options.queue.empty() && !options.ps_job) {
    return absl::InvalidArgumentError(
        "--queue: a queue lets Jobs begin, and so needs --ps-kind job");
  }
  if (options.spot && (!options.queue.empty() || options.ps == 0)) {
    return absl::InvalidArgumentError(
        "--spot: a Deployment of workers neither waits in a queue nor holds variables: leave out "
        "--spot, or --queue and --ps 0");
  }
  options.ttl_s = SecondsOf(ttl);
  if (ttl != "never" && options.ttl_s == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ttl: ", ttl, " is no time, such as 7d, and not never"));
  }
  return absl::OkStatus();
}

// Checks the name of the objects, or makes it of the job's name where none is given. A name of a
// job loses blanks and capital letters, but no letters of other alphabets and no end.
absl::Status NameObjects(const std::string& job, std::string& name) {
  const std::string given = name.empty() ? "" : ObjectName(name);
  if (!name.empty()) {
    if (name == given) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--name: ", name, " is no name of objects: they have small letters, digits ",
                     "and dashes, begin with a letter, and have at most 40",
                     given.empty() ? "" : absl::StrCat(", as ", given)));
  }
  name = ObjectName(job);
  const bool foreign =
      std::ranges::any_of(job, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  if (!name.empty() && !foreign && job.size() <= kObjectNameBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the job's name, ", job, ", is no name of objects, which have letters of ASCII, digits and ",
      "dashes, at most ", kObjectNameBytesMax, ": give --name"));
}

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

// Checks the flags of a cluster without ps.
absl::Status CheckNodes(const RenderFlags& flags) {
  if (flags.workers == 0) {
    return absl::InvalidArgumentError(
        "--ps 0: the workers hold the variables, and there have to be some: --workers N");
  }
  if (!flags.options.ps_cpu.empty() || !flags.options.ps_memory.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.options.ps_cpu.empty() ? "--ps-memory" : "--ps-cpu",
        ": there are no ps (--ps 0): --cpu and --memory are of the workers, which hold the "
        "variables"));
  }
  return absl::OkStatus();
}

// Checks that the cluster that the flags ask for can train the job, and returns the job as its file
// says it: the coordinator chooses the strategy for its cluster itself, and keeps the `consistency`
// of a directory that holds the job already. Says in the flags how many ps the cluster has.
absl::StatusOr<Job> ReadJobFor(RenderFlags& flags, const std::string& path) {
  PosixFiles files;
  const auto read = [&](std::span<const std::string> settings) {
    return ReadUserJob(files, path, settings);
  };
  ASSIGN_OR_RETURN(Job job, read(flags.set));
  if (flags.gpus > 0 && job.guarantees.stages.count > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--gpus ", flags.gpus,
                     ": the job's `stages` are computed by devices of the processor alone: leave "
                     "one of the two out"));
  }
  const std::string& weights = job.initial_weights.file.value_or("");
  if (IsKerasFileName(weights)) {
    return absl::InvalidArgumentError(absl::StrCat(
        weights, ": pods read no file of Keras: write `paracord convert ", weights,
        " --out model.json --weights weights.safetensors`, and name these as model and "
        "initial_weights"));
  }
  const std::string& strategy = job.guarantees.strategy;
  const int64_t ps = flags.ps.value_or(IsWithoutPs(strategy) ? 0 : 2);
  if (ps > 0 && IsWithoutPs(strategy)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ps ", ps, ": the job's strategy is ", strategy,
                     ", with which workers hold the variables: leave --ps out"));
  }
  flags.options.ps = static_cast<uint64_t>(ps);
  if (ps == 0) RETURN_IF_ERROR(CheckNodes(flags));
  const ClusterShape shape{.ps = static_cast<size_t>(ps),
                           .workers = static_cast<size_t>(flags.workers),
                           .devices = static_cast<size_t>(std::max<int64_t>(flags.gpus, 1)),
                           .divides_batches = flags.gpus > 1,
                           .by_flags = true};
  RETURN_IF_ERROR(ReadJobIn(shape, flags.set, read).status());
  return job;
}

// paracord render storage: the claim alone, which outlives the objects of the job.
int RunRenderStorage(Args args, std::ostream& out, std::ostream& err) {
  RenderFlags own;
  Flags flags(
      "paracord render storage",
      "Writes the claim for the checkpoints of a job. It is apart from what `paracord render\n"
      "kubernetes` writes, so that it stays when the objects of the job are deleted.");
  own.AddOfStorage(flags);
  if (const auto code = flags.ParseOrExit(args, "paracord render", out, err)) return *code;
  const auto refuse = [&](const absl::Status& why) {
    return Fail("render storage", Text(why), ExitCode::kConfiguration, err);
  };
  PosixFiles files;
  const absl::StatusOr<Job> job = ReadUserJob(files, AbsolutePath(own.job_file), own.set);
  if (!job.ok()) return refuse(job.status());
  if (const absl::Status wrong = NameObjects(job->name, own.options.name); !wrong.ok()) {
    return refuse(wrong);
  }
  if (const absl::Status wrong = own.Check(); !wrong.ok()) return refuse(wrong);
  const absl::StatusOr<std::string> claim = StorageManifest(own.options);
  if (!claim.ok()) return refuse(claim.status());
  out << *claim;
  return 0;
}

}  // namespace

int RunRender(Args args, std::ostream& out, std::ostream& err) {
  const bool help = !args.empty() && (args[0] == "--help" || args[0] == "-h");
  if (!args.empty() && args[0] == "storage") return RunRenderStorage(args.subspan(1), out, err);
  if (!help && (args.empty() || args[0] != "kubernetes")) {
    const std::string given = args.empty() ? "nothing" : args[0];
    return Fail("render", absl::StrCat("renders kubernetes or storage, not ", given),
                ExitCode::kConfiguration, err);
  }
  RenderFlags own;
  ManifestOptions& options = own.options;
  Flags flags("paracord render kubernetes",
              "Writes the manifests that run the job on Kubernetes: a Job (coordinator), a\n"
              "StatefulSet or a Job (ps), a Job (workers) and what they need; with --ps 0 a\n"
              "StatefulSet or a Job of workers alone. Data files whose paths are relative to the\n"
              "job file are below /data in the pods.");
  own.AddTo(flags);
  const auto code = flags.ParseOrExit(help ? args : args.subspan(1), "paracord render", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail(kCommand, why, ExitCode::kConfiguration, err);
  };
  const std::string path = AbsolutePath(own.job_file);
  const absl::StatusOr<Job> job = ReadJobFor(own, path);
  if (!job.ok()) return refuse(Text(job.status()));
  const bool named = !options.name.empty();
  if (const absl::Status wrong = NameObjects(job->name, options.name); !wrong.ok()) {
    return refuse(Text(wrong));
  }
  if (const absl::Status wrong = own.Check(); !wrong.ok()) return refuse(Text(wrong));
  options.workers = static_cast<uint64_t>(own.workers);
  options.gpus = static_cast<uint64_t>(own.gpus);
  if (options.image.empty()) {
    options.image = absl::StrCat("localhost/paracord:", PARACORD_VERSION,
                                 options.gpus > 0 ? "-cuda" : "");  // named by deploy/image
  }
  const std::string directory = std::filesystem::path(path).parent_path().string();
  const absl::StatusOr<std::string> manifests = KubernetesManifests(*job, directory, options);
  if (!manifests.ok()) return refuse(Text(manifests.status()));
  out << *manifests;
  if (!named && options.name == "job") {
    err << "paracord " << kCommand << ": warning: all objects are named `job`, as those of any "
        << "other job file of this name: --name NAME tells them apart\n";
  }
  if (options.storage.empty()) {
    err << "paracord " << kCommand << ": the pods wait for the claim " << options.name
        << ", which is apart from these objects: paracord render storage "
        << (named ? absl::StrCat("--name ", options.name, " ") : "") << own.job_file
        << " | kubectl apply -f -\n";
  }
  for (const std::string& warning : ManifestWarnings(*job, directory, options)) {
    err << "paracord " << kCommand << ": warning: " << warning << "\n";
  }
  constexpr size_t kAnnotationBytesMax = 262144;  // Kubernetes'
  if (const size_t bytes = LargestConfigMap(*manifests); bytes > kAnnotationBytesMax) {
    err << kCommand << ": the ConfigMap has about " << bytes << " bytes, more than the "
        << kAnnotationBytesMax << " that `kubectl apply` may keep in an annotation: apply it with "
        << "`kubectl apply --server-side -f FILE`\n";
  }
  return 0;
}

}  // namespace paracord
