#include "cli/manifest_checks.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/kubernetes_names.h"
#include "cli/pod_options.h"
#include "cli/quantity.h"
#include "common/human_bytes.h"
#include "common/memory_budget.h"
#include "common/status_macros.h"
#include "config/nodes.h"

namespace paracord {
namespace {

// Whether a value can go into YAML without quotes.
bool IsPlain(const std::string& value) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+";
  return value.find_first_not_of(kAllowed) == std::string::npos;
}

// Whether a URL begins with s3:// and a bucket.
bool NamesBucket(std::string_view url) {
  constexpr std::string_view kScheme = "s3://";
  return url.starts_with(kScheme) && url.size() > kScheme.size() && url[kScheme.size()] != '/';
}

// Checks the flags that name objects of the cluster.
absl::Status CheckNames(const ManifestOptions& options) {
  const bool in_store = absl::StrContains(options.storage, "://");
  if (in_store && (!NamesBucket(options.storage) || !IsPlain(options.storage))) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--storage: ", options.storage,
        " is no URL of s3 with a bucket: write s3://BUCKET/PREFIX, or the name of a claim"));
  }
  for (const auto& [flag, value] :
       {std::pair("--storage", in_store ? "" : options.storage), std::pair("--data", options.data),
        std::pair("--service-account", options.pods.service_account),
        std::pair("--image-pull-secret", options.pods.image_pull_secret),
        std::pair("--priority-class", options.pods.priority_class),
        std::pair("--queue", options.queue), std::pair("--storage-class", options.storage_class)}) {
    if (value.empty() || IsObjectName(value)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, ": ", value, " is no name of an object of Kubernetes, which has small ",
                     "letters, digits, dashes and dots",
                     std::string_view(flag) == "--storage" ? ", and no s3://BUCKET/PREFIX" : ""));
  }
  return absl::OkStatus();
}

// What a number without a unit counts; "" for a text with its unit, such as 64Mi.
std::string NameOfUnit(const std::string& text, bool bytes) {
  if (!bytes) return " CPUs";
  return absl::ascii_isdigit(static_cast<unsigned char>(text.back())) ? " bytes" : "";
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
        absl::StrCat(amount.flag, ": ", amount.text, NameOfUnit(amount.text, amount.bytes),
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
        absl::StrCat("--export: ", to, ": the file is of the format safetensors: call it ",
                     std::filesystem::path(to).replace_extension(".safetensors").string()));
  }
  if (to.empty() || NamesBucket(to)) return absl::OkStatus();
  if (absl::StrContains(to, "://")) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--export: ", to, " is no URL of s3 with a bucket: write s3://BUCKET/model.safetensors"));
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

}  // namespace

absl::Status CheckManifestOptions(const ManifestOptions& options) {
  for (const auto& [flag, value] :
       {std::pair("--image", options.image), std::pair("--export", options.export_to)}) {
    if (IsPlain(value)) continue;
    return absl::InvalidArgumentError(absl::StrCat(flag, ": ", value, " is no name"));
  }
  RETURN_IF_ERROR(CheckNames(options));
  if (options.name_space != ObjectName(options.name_space)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--namespace: ", options.name_space, " is no name of a namespace"));
  }
  RETURN_IF_ERROR(CheckPodOptions(options.pods));
  RETURN_IF_ERROR(CheckAmounts(options));
  return CheckExport(options);
}

}  // namespace paracord
