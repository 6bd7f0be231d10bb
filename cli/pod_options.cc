#include "cli/pod_options.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "cli/kubernetes_names.h"
#include "common/json_text.h"
#include "common/status_macros.h"
#include "common/utf8.h"

namespace paracord {
namespace {

constexpr std::string_view kPolicies[] = {"Always", "IfNotPresent", "Never"};
constexpr std::string_view kEffects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
// Kubernetes' limit for all annotations of an object.
constexpr size_t kAnnotationBytesAll = 256 << 10;

// Services, policies and controllers find the pods of a job by these labels.
constexpr std::string_view kLabelsOfOthers[] = {"app.kubernetes.io/name",
                                                "app.kubernetes.io/instance",
                                                "app.kubernetes.io/component",
                                                "controller-uid",
                                                "job-name",
                                                "pod-template-hash",
                                                "controller-revision-hash"};
constexpr std::string_view kDomainsOfOthers[] = {
    "batch.kubernetes.io/", "statefulset.kubernetes.io/", "apps.kubernetes.io/"};

struct PodEntry {
  std::string key, value;
};

// Splits at the first "="; the key is empty without one.
PodEntry EntryOf(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

absl::Status RefusePod(const std::string& flag, const std::string& given, const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": ", given, why));
}

constexpr char kRuleOfKeys[] =
    " is no key of Kubernetes, which has at most 63 letters, digits, dashes, dots and underscores, "
    "begins and ends with a letter or digit, and may have a domain and a slash before it";
constexpr char kRuleOfValues[] =
    " is no value of Kubernetes, which has at most 63 letters, digits, dashes, dots and "
    "underscores, and begins and ends with a letter or digit";

// Checks the keys of a flag that is given again and again as KEY=VALUE.
absl::Status CheckPodKeys(const std::string& flag, const std::vector<std::string>& entries) {
  std::set<std::string> keys;
  for (const std::string& entry : entries) {
    const std::string key = EntryOf(entry).key;
    if (key.empty()) return RefusePod(flag, entry, " is no KEY=VALUE");
    // Kubernetes also accepts capitals in the domains of annotations.
    if (!IsLabelKey(flag == "--annotation" ? absl::AsciiStrToLower(key) : key)) {
      return RefusePod(flag, key, kRuleOfKeys);
    }
    if (!keys.insert(key).second) return RefusePod(flag, key, " is given twice");
  }
  return absl::OkStatus();
}

// Checks the values of a flag whose values are those of labels.
absl::Status CheckPodValues(const std::string& flag, const std::vector<std::string>& entries) {
  RETURN_IF_ERROR(CheckPodKeys(flag, entries));
  for (const std::string& entry : entries) {
    const auto [key, value] = EntryOf(entry);
    if (!IsLabelValue(value)) {
      return RefusePod(flag, absl::StrCat(key, ": ", value), kRuleOfValues);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPodLabels(const std::vector<std::string>& labels) {
  RETURN_IF_ERROR(CheckPodValues("--label", labels));
  for (const std::string& label : labels) {
    const std::string key = EntryOf(label).key;
    const auto begins = [&](std::string_view domain) { return key.starts_with(domain); };
    if (!std::ranges::count(kLabelsOfOthers, key) &&
        std::ranges::none_of(kDomainsOfOthers, begins)) {
      continue;
    }
    return RefusePod(
        "--label", key,
        " is the manifests' own or Kubernetes', by which the pods of the job are found");
  }
  return absl::OkStatus();
}

absl::Status CheckAnnotations(const std::vector<std::string>& annotations) {
  RETURN_IF_ERROR(CheckPodKeys("--annotation", annotations));
  size_t bytes = 0;
  for (const std::string& annotation : annotations) {
    if (Utf8Prefix(annotation) != annotation.size()) {
      return RefusePod("--annotation", EntryOf(annotation).key, ": the value is not UTF-8");
    }
    bytes += annotation.size() - 1;  // without the "="
  }
  if (bytes <= kAnnotationBytesAll) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--annotation: all of them have ", bytes,
                                                 " bytes, and Kubernetes takes ",
                                                 kAnnotationBytesAll, " of an object"));
}

struct Toleration {
  std::string key, value, effect;  // without a value: of all values
};

// Splits KEY[=VALUE]:EFFECT; the effect is empty without a colon.
Toleration TolerationOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {};
  const std::string taint = text.substr(0, colon);
  const size_t equals = taint.find('=');
  if (equals == std::string::npos) return {taint, "", text.substr(colon + 1)};
  return {taint.substr(0, equals), taint.substr(equals + 1), text.substr(colon + 1)};
}

absl::Status CheckTolerations(const std::vector<std::string>& tolerations) {
  constexpr char kFlag[] = "--toleration";
  for (const std::string& text : tolerations) {
    const auto [key, value, effect] = TolerationOf(text);
    if (!std::ranges::count(kEffects, effect)) {
      return RefusePod(kFlag, text,
                       " is no KEY[=VALUE]:EFFECT with NoSchedule, PreferNoSchedule or NoExecute");
    }
    if (key.empty() && !value.empty()) {
      return RefusePod(kFlag, text, " has a value without a key");
    }
    if (!key.empty() && !IsLabelKey(key)) {
      return RefusePod(kFlag, absl::StrCat(text, ": ", key), kRuleOfKeys);
    }
    if (!IsLabelValue(value)) {
      return RefusePod(kFlag, absl::StrCat(text, ": ", value), kRuleOfValues);
    }
  }
  return absl::OkStatus();
}

// Whether YAML takes a character above ASCII as a part of a line in quotes. In YAML 1.1 U+0085,
// U+2028 and U+2029 end lines.
bool IsPrintable(uint32_t code) {
  constexpr std::array kNot = {0x2028U, 0x2029U, 0xfeffU, 0xfffeU, 0xffffU};
  return code >= 0xa0 && !std::ranges::count(kNot, code);
}

// Returns UTF-8 as text of YAML in quotes, which is JSON's but for characters that YAML refuses.
std::string Quoted(const std::string& text) {
  const std::string as_json = TextOf(nlohmann::json(text));
  std::string quoted;
  for (std::string_view left = as_json; !left.empty();) {
    const Utf8Char next = FirstUtf8(left);
    if (next.code < 0x7f || IsPrintable(next.code)) {
      quoted += left.substr(0, next.bytes);
    } else {
      absl::StrAppendFormat(&quoted, "\\u%04x", next.code);
    }
    left.remove_prefix(next.bytes);
  }
  return quoted;
}

// Returns "  KEY: VALUE" of each entry, below a title unless it is empty; "" without entries. A key
// such as `on` is a string only in quotes.
std::string Mapping(const std::string& title, const std::vector<std::string>& entries) {
  std::vector<std::string> lines;
  if (!title.empty() && !entries.empty()) lines.push_back(absl::StrCat(title, ":"));
  for (const std::string& entry : entries) {
    const auto [key, value] = EntryOf(entry);
    lines.push_back(absl::StrCat(title.empty() ? "" : "  ", Quoted(key), ": ", Quoted(value)));
  }
  return absl::StrJoin(lines, "\n");
}

std::string TolerationItem(const std::string& text) {
  const auto [key, value, effect] = TolerationOf(text);
  const std::string of_key = key.empty() ? "" : absl::StrCat("key: ", Quoted(key), ", ");
  const std::string of_value =
      value.empty() ? "operator: Exists" : absl::StrCat("operator: Equal, value: ", Quoted(value));
  return absl::StrCat("- {", of_key, of_value, ", effect: ", effect, "}");
}

}  // namespace

absl::Status CheckPodOptions(const PodOptions& options) {
  const std::string& policy = options.image_pull_policy;
  if (!policy.empty() && !std::ranges::count(kPolicies, policy)) {
    return RefusePod("--image-pull-policy", policy, " is not Always, IfNotPresent or Never");
  }
  RETURN_IF_ERROR(CheckPodLabels(options.labels));
  RETURN_IF_ERROR(CheckAnnotations(options.annotations));
  RETURN_IF_ERROR(CheckPodValues("--node-selector", options.node_selectors));
  return CheckTolerations(options.tolerations);
}

std::map<std::string, std::string> PodValues(const PodOptions& options) {
  std::vector<std::string> pod, tolerations;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) pod.push_back(absl::StrCat(key, ": ", value));
  };
  add("serviceAccountName", options.service_account);
  add("priorityClassName", options.priority_class);
  if (!options.image_pull_secret.empty()) {
    pod.push_back(absl::StrCat("imagePullSecrets: [{name: ", options.image_pull_secret, "}]"));
  }
  if (!options.node_selectors.empty()) {
    pod.push_back(Mapping("nodeSelector", options.node_selectors));
  }
  for (const std::string& toleration : options.tolerations) {
    tolerations.push_back(TolerationItem(toleration));
  }
  const std::string& policy = options.image_pull_policy;
  return {{"pod", absl::StrJoin(pod, "\n")},
          {"tolerations", absl::StrJoin(tolerations, "\n")},
          {"pod-labels", Mapping("", options.labels)},
          {"annotations", Mapping("annotations", options.annotations)},
          {"pull-policy", policy.empty() ? "" : "imagePullPolicy: " + policy}};
}

}  // namespace paracord
