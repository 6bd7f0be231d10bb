#include "security/peer_identity.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/one_line.h"

namespace paracord {
namespace {

constexpr size_t kUriMax = 2048;     // limit of SPIFFE
constexpr size_t kClusterMax = 255;  // limit of SPIFFE
constexpr uint32_t kIndexMax = 999999999;

absl::Status Wrong(std::string_view uri, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat("the certificate's URI ", OneLine(uri, 200), " ",
                                                 what,
                                                 "; it must be spiffe://<cluster>/<role>/<index>"));
}

bool IsClusterName(std::string_view text) {
  return !text.empty() && text.size() <= kClusterMax &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                  c == '_';
         });
}

}  // namespace

std::string_view NameOf(PeerRole role) {
  switch (role) {
    case PeerRole::kPs:
      return "ps";
    case PeerRole::kWorker:
      return "worker";
    case PeerRole::kCoordinator:
      return "coordinator";
    case PeerRole::kOperator:
      return "operator";
    case PeerRole::kMonitor:
      return "monitor";
  }
  return "";
}

std::string PeerIdentity::Task() const {
  std::string task(NameOf(role));
  if (index.has_value()) absl::StrAppend(&task, ":", *index);
  return task;
}

std::string PeerIdentity::Uri() const {
  std::string uri = absl::StrCat("spiffe://", cluster, "/", std::string(NameOf(role)));
  if (index.has_value()) absl::StrAppend(&uri, "/", *index);
  return uri;
}

absl::StatusOr<PeerIdentity> ParsePeerIdentity(std::string_view uri) {
  std::string_view rest = uri;
  if (uri.size() > kUriMax) return Wrong(uri, "is too long");
  constexpr std::string_view kScheme = "spiffe://";
  if (!rest.starts_with(kScheme)) return Wrong(uri, "has another scheme");
  rest.remove_prefix(kScheme.size());
  const std::vector<std::string> parts = absl::StrSplit(std::string(rest), '/');
  PeerIdentity identity;
  if (!IsClusterName(parts[0])) {
    return Wrong(uri, "has a cluster that is no name of lower-case letters, digits and .-_");
  }
  identity.cluster = parts[0];
  if (parts.size() < 2) return Wrong(uri, "names no role");
  const auto* const role = std::find_if(std::begin(kPeerRoles), std::end(kPeerRoles),
                                        [&](PeerRole each) { return NameOf(each) == parts[1]; });
  if (role == std::end(kPeerRoles)) {
    return Wrong(uri, "has a role that is none of ps, worker, coordinator, operator and monitor");
  }
  identity.role = *role;
  if (parts.size() > 3) return Wrong(uri, "has more than a role and an index");
  if (parts.size() == 3) {
    uint32_t index = 0;
    if (!absl::SimpleAtoi(parts[2], &index) || index > kIndexMax ||
        absl::StrCat(index) != parts[2]) {
      return Wrong(uri, "has an index that is no number");
    }
    identity.index = index;
  }
  return identity;
}

}  // namespace paracord
