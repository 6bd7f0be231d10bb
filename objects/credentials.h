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

// Returns a variable of the environment, or "" if it is not set.
using VariableFn = std::function<std::string(const std::string& name)>;
// Returns `variable` with white space around the values removed: Kubernetes secrets often end with
// a line break.
VariableFn Stripped(VariableFn variable);

class CredentialSource {
 public:
  CredentialSource(HttpClient& http, VariableFn variable, std::string region)
      : http_(http), variable_(std::move(variable)), region_(std::move(region)) {}

  // Returns credentials, cached until shortly before they expire. Returns INVALID_ARGUMENT with the
  // places searched if there are none.
  absl::StatusOr<S3Credentials> Get();
  void Forget();  // called when the store says that they have expired

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

// Returns the keys of a section of an AWS shared file, in lower case. Skips keys that are indented
// below another key.
std::map<std::string, std::string> SectionOf(std::string_view text, std::string_view section);
// Returns the keys of the profile AWS_PROFILE in AWS_CONFIG_FILE (~/.aws/config), such as "region"
// and "endpoint_url". Empty without a file.
absl::StatusOr<std::map<std::string, std::string>> ConfigOf(const VariableFn& variable);

// Returns the contents of each element <tag>...</tag> of `xml`. Elements must not contain elements
// of equal name; answers of S3 and STS do not.
std::vector<std::string_view> XmlInside(std::string_view xml, std::string_view tag);
// Returns the text of the first element `tag` with entities replaced, or "".
std::string XmlText(std::string_view xml, std::string_view tag);

}  // namespace paracord
