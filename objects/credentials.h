// Finds the credentials for an S3-compatible store where AWS' own tools look: in the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), in a web identity token
// (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), which STS exchanges for credentials for an hour, in
// the shared files (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE, AWS_PROFILE), and from the agent
// of ECS and of EKS Pod Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI).
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "objects/http.h"

namespace paracord {

struct S3Credentials {
  std::string key_id, secret;
  std::string token;    // "": none
  int64_t until_s = 0;  // Unix time; 0: for good
};

// Returns a variable of the environment; "" if it is not set.
using VariableFn = std::function<std::string(const std::string& name)>;
// Returns `variable` without blanks and line breaks around the values: secrets of Kubernetes often
// end with a line break.
VariableFn Stripped(VariableFn variable);

class CredentialSource {
 public:
  CredentialSource(HttpClient& http, VariableFn variable, std::string region)
      : http_(http), variable_(std::move(variable)), region_(std::move(region)) {}

  // Returns the credentials, which are kept until shortly before they expire. INVALID_ARGUMENT says
  // that there are none, and where they may be.
  absl::StatusOr<S3Credentials> Get();
  void Forget();  // the store says that they have expired

 private:
  absl::StatusOr<S3Credentials> Find();
  absl::StatusOr<S3Credentials> OfWebIdentity(const std::string& token_file);
  absl::StatusOr<std::optional<S3Credentials>> OfFile();
  absl::StatusOr<S3Credentials> OfContainer(const std::string& url);

  HttpClient& http_;
  const VariableFn variable_;
  const std::string region_;
  Mutex mu_;
  std::optional<S3Credentials> kept_ ABSL_GUARDED_BY(mu_);
};

// Returns the keys of a section of one of AWS' shared files, in small letters, without those that
// are indented below another key.
std::map<std::string, std::string> SectionOf(std::string_view text, std::string_view section);
// Returns the keys of the profile that AWS_PROFILE names in the file of AWS_CONFIG_FILE
// (~/.aws/config), such as "region" and "endpoint_url"; none if there is no such file.
absl::StatusOr<std::map<std::string, std::string>> ConfigOf(const VariableFn& variable);

// Returns what is inside each element <tag>...</tag> of `xml`. This is enough for the answers of S3
// and STS, in which no element contains another of its name.
std::vector<std::string_view> XmlInside(std::string_view xml, std::string_view tag);
// Returns the text of the first such element with entities replaced; "" if there is none.
std::string XmlText(std::string_view xml, std::string_view tag);

}  // namespace paracord
