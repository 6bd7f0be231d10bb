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
#include "cli/manifest_checks.h"
#include "cli/manifest_warnings.h"
#include "cli/manifests.h"
#include "cli/user_job.h"
#include "common/files.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/status_text.h"
#include "config/flags.h"
#include "config/job.h"
#include "config/job_file.h"
#include "config/job_settings.h"
#include "config/strategy.h"

namespace paracord {
namespace {

constexpr char kCommand[] = "render kubernetes";

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
                  "workers, at first: their Job's parallelism may be changed, but with --ps 0", 1,
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
    flags.String("storage-size", "SIZE", absl::StrCat("of the claim; default: ", kStorageDefault),
                 &options.storage_size);
    flags.String("storage-class", "NAME", "of the claim; without it the cluster's default",
                 &options.storage_class);
  }

  void AddOfObjects(Flags& flags) {
    flags.String("name", "NAME", "name of the objects, instead of the job's", &options.name);
    flags.String("namespace", "NAME", "of all objects; without it kubectl's own",
                 &options.name_space);
  }

  void AddOfPods(Flags& flags) {
    PodOptions& pods = options.pods;
    flags.Strings("label", "KEY=VALUE", "of all pods", &pods.labels);
    flags.Strings("annotation", "KEY=VALUE", "of all pods", &pods.annotations);
    flags.String("service-account", "NAME", "of all pods", &pods.service_account);
    flags.String("image-pull-secret", "NAME", "for the registry of the image",
                 &pods.image_pull_secret);
    flags.String("image-pull-policy", "POLICY",
                 "Always, IfNotPresent or Never; without it Kubernetes pulls an image with the tag "
                 "latest each time, and another one where a node has none",
                 &pods.image_pull_policy);
    flags.String("priority-class", "NAME", "of all pods", &pods.priority_class);
    flags.Strings("toleration", "KEY[=VALUE]:EFFECT", "of all pods", &pods.tolerations);
    flags.Strings("node-selector", "KEY=VALUE", "of all pods", &pods.node_selectors);
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
                 "the workers are a Deployment on nodes that may vanish, which stays until it is "
                 "deleted, without --gpus with an autoscaler (from --workers to four times as "
                 "many, by metrics-server); the others avoid such nodes",
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

absl::Status RenderFlags::Check() {
  RETURN_IF_ERROR(CheckManifestOptions(options));
  if (ps_kind != "statefulset" && ps_kind != "job") {
    return absl::InvalidArgumentError(
        absl::StrCat("--ps-kind: is statefulset or job, and not ", ps_kind));
  }
  options.ps_job = ps_kind == "job";
  if (!options.queue.empty() && !options.ps_job) {
    return absl::InvalidArgumentError(
        "--queue: a queue lets Jobs begin, and so needs --ps-kind job");
  }
  if (options.spot && options.ps == 0) {
    return absl::InvalidArgumentError(
        "--spot: a Deployment of workers holds no variables: leave out --spot or --ps 0");
  }
  if (options.spot && !options.queue.empty()) {
    return absl::InvalidArgumentError(
        "--spot: a Deployment of workers waits in no queue: leave out --spot or --queue");
  }
  options.ttl_s = SecondsOf(ttl);
  if (ttl != "never" && options.ttl_s == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--ttl: ", ttl, " is no time, such as 7d, and not never"));
  }
  return absl::OkStatus();
}

// Checks the name of the objects, or derives it from the job's name if no name is given: blanks and
// capital letters are converted; a name with letters of other alphabets, or too long a name, is
// refused.
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
  if (!flags.options.ps_cpu.empty() || !flags.options.ps_memory.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        flags.options.ps_cpu.empty() ? "--ps-memory" : "--ps-cpu",
        ": there are no ps (--ps 0): --cpu and --memory are of the workers, which hold the "
        "variables"));
  }
  return absl::OkStatus();
}

struct JobToRender {
  Job job;         // unchanged from its file
  Job in_cluster;  // with the strategy of the cluster
};

// Checks that the cluster that the flags ask for can train the job. Pods get the job as its file
// says it: the coordinator chooses the strategy for its cluster itself, and keeps the `consistency`
// of a directory that holds the job already. Says in the flags how many ps the cluster has.
absl::StatusOr<JobToRender> ReadJobFor(Files& files, RenderFlags& flags, const std::string& path) {
  const auto read = [&](std::span<const std::string> settings) {
    return ReadUserJob(files, path, settings);
  };
  ASSIGN_OR_RETURN(Job job, read(flags.set));
  const uint32_t stages = job.guarantees.stages.count;
  if (stages > 1 && flags.gpus > 0 && flags.gpus != stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("--gpus ", flags.gpus, ": the job's `stages` cut the model into ", stages,
                     ", each on a GPU of its own: give --gpus ", stages,
                     ", or leave --gpus out for devices of the processor"));
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
  ASSIGN_OR_RETURN(JobInCluster in_cluster, ReadJobIn(shape, flags.set, read));
  return JobToRender{std::move(job), std::move(in_cluster.job)};
}

// Says the name of the objects, whether a default name may collide with other objects, and the
// claim that they need.
void SayBeside(const RenderFlags& flags, bool named, std::ostream& err) {
  const std::string& name = flags.options.name;
  if (!named && name == "job") {
    err << "paracord " << kCommand << ": warning: all objects are named `job`, as those of any "
        << "other job file of this name: --name NAME tells them apart\n";
  }
  if (!flags.options.storage.empty()) return;
  err << "paracord " << kCommand << ": the pods wait for the claim " << name
      << ", which is apart from these objects: paracord render storage "
      << (named ? absl::StrCat("--name ", name, " ") : "") << flags.job_file
      << " | kubectl apply -f -\n";
}

// Says how to apply a ConfigMap that is too large for `kubectl apply`.
void SayLargest(const std::string& manifests, std::ostream& err) {
  constexpr size_t kAnnotationBytesMax = 262144;  // Kubernetes'
  const size_t bytes = LargestConfigMap(manifests);
  if (bytes <= kAnnotationBytesMax) return;
  err << kCommand << ": the ConfigMap has about " << bytes << " bytes, more than the "
      << kAnnotationBytesMax << " that `kubectl apply` may keep in an annotation: apply it with "
      << "`kubectl apply --server-side -f FILE`\n";
}

// Refuses flags of the claim, which is rendered separately from the other objects.
absl::Status CheckNoStorageFlags(Args args) {
  for (const std::string& arg : args) {
    for (const char* flag : {"--storage-size", "--storage-class"}) {
      if (arg != flag && !absl::StartsWith(arg, absl::StrCat(flag, "="))) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(flag, ": is a flag of `paracord render storage`, which writes the claim"));
    }
  }
  return absl::OkStatus();
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
  for (const std::string& warning : StorageWarnings(files, *job, own.options)) {
    err << "paracord render storage: warning: " << warning << "\n";
  }
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
  if (const absl::Status wrong = CheckNoStorageFlags(args); !wrong.ok()) {
    return Fail(kCommand, Text(wrong), ExitCode::kConfiguration, err);
  }
  const auto code = flags.ParseOrExit(help ? args : args.subspan(1), "paracord render", out, err);
  if (code.has_value()) return *code;
  const auto refuse = [&](const std::string& why) {
    return Fail(kCommand, why, ExitCode::kConfiguration, err);
  };
  const std::string path = AbsolutePath(own.job_file);
  PosixFiles files;
  const absl::StatusOr<JobToRender> read = ReadJobFor(files, own, path);
  if (!read.ok()) return refuse(Text(read.status()));
  const bool named = !options.name.empty();
  if (const absl::Status wrong = NameObjects(read->job.name, options.name); !wrong.ok()) {
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
  const absl::StatusOr<std::string> manifests = KubernetesManifests(read->job, directory, options);
  if (!manifests.ok()) return refuse(Text(manifests.status()));
  out << *manifests;
  SayBeside(own, named, err);
  for (const std::string& warning : ManifestWarnings(files, read->in_cluster, directory, options)) {
    err << "paracord " << kCommand << ": warning: " << warning << "\n";
  }
  SayLargest(*manifests, err);
  return 0;
}

}  // namespace paracord
