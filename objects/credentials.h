// Finds the credentials for an S3-compatible store where AWS' own tools look: in the environment
// (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN), in a web identity token
// (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN), which STS exchanges for credentials for an hour, and
// in the shared credentials file (AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE). Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
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

  HttpClient& http_;
  const VariableFn variable_;
  const std::string region_;
  Mutex mu_;
  std::optional<S3Credentials> kept_ ABSL_GUARDED_BY(mu_);
};

// Reads a profile of a shared credentials file; nullopt if the file has no such profile, or the
// profile no key.
std::optional<S3Credentials> CredentialsOfProfile(std::string_view text, std::string_view profile);

// Returns the texts of all elements <tag>...</tag> of `xml`, with entities replaced. This is enough
// for the answers of S3 and STS, in which no element contains another of its name.
std::vector<std::string> XmlTexts(std::string_view xml, std::string_view tag);
// Returns the text of the first such element; "" if there is none.
std::string XmlText(std::string_view xml, std::string_view tag);

}  // namespace paracord
