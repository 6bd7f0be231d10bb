// Finds the credentials for an S3-compatible store where AWS' own tools look, in this order: in the
// environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN); by a web identity
// token (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), which AWS' service STS exchanges for
// credentials that expire; in the shared files (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE,
// AWS_PROFILE); and from the agent of ECS or of EKS Pod Identity
// (AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI). The first place that is set up is used; if
// STS or the agent is set up and gives no credentials, no later place is tried. Thread-safe.
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
  std::string token;    // session token of temporary credentials; "": none
  int64_t until_s = 0;  // Unix time of their expiry; 0: they do not expire
};

// Returns a variable of the environment, or "" if it is not set.
using VariableFn = std::function<std::string(const std::string& name)>;
// Returns a VariableFn that removes white space around the values of `variable`: Kubernetes secrets
// often end with a line break.
VariableFn Stripped(VariableFn variable);

class CredentialSource {
 public:
  CredentialSource(HttpClient& http, VariableFn variable, std::string region)
      : http_(http), variable_(std::move(variable)), region_(std::move(region)) {}

  // Returns credentials, cached until five minutes before they expire. INVALID_ARGUMENT: no place
  // is set up (the error names the places), or STS or the agent refuses the request. UNAVAILABLE:
  // STS or the agent does not answer, or says that it cannot answer now. Other errors are those of
  // files and of HttpClient.
  absl::StatusOr<S3Credentials> Get();
  // Drops the cached credentials, for example because the store says that they have expired.
  void Forget();

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

// Returns the keys and values of `section` in the text of an AWS shared file, the keys in lower
// case. Skips keys that are indented below a key without a value.
std::map<std::string, std::string> SectionOf(std::string_view text, std::string_view section);
// Returns the keys and values of the profile AWS_PROFILE in AWS_CONFIG_FILE (~/.aws/config), such
// as "region" and "endpoint_url". Empty if there is no file, or the file has no such profile.
absl::StatusOr<std::map<std::string, std::string>> ConfigOf(const VariableFn& variable);

// Returns the contents of each element <tag>...</tag> of `xml`, where elements of this name must
// not contain one another.
std::vector<std::string_view> XmlInside(std::string_view xml, std::string_view tag);
// Returns the text of the first element `tag`, with the five entities that XML defines, and the
// numeric ones of quotes, replaced; "" if there is no such element.
std::string XmlText(std::string_view xml, std::string_view tag);

}  // namespace paracord
