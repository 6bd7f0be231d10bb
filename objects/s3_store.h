// An S3 object store: Amazon's, or the one at AWS_ENDPOINT_URL. Requests are signed, and what is
// written carries a CRC-32C unless AWS_REQUEST_CHECKSUM_CALCULATION switches it off. Thread-safe.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "objects/aws_signer.h"
#include "objects/credentials.h"
#include "objects/http.h"
#include "objects/object_store.h"

namespace paracord {

class S3Store : public ObjectStore {
 public:
  // `variable` reads the environment: endpoint, region, credentials, or the paths of AWS' shared
  // files. If the configuration is wrong, every request returns the error.
  explicit S3Store(VariableFn variable);

  absl::StatusOr<ObjectFacts> Look(const std::string& path) override;
  absl::Status Get(const std::string& path, const std::string& version, uint64_t offset,
                   std::span<char> out) override;
  absl::Status Put(const std::string& path, std::string_view bytes, bool if_absent) override;
  absl::Status Remove(const std::string& path) override;
  absl::StatusOr<ObjectList> List(const std::string& prefix, bool deep,
                                  const std::string& from) override;
  absl::StatusOr<std::string> StartUpload(const std::string& path) override;
  absl::StatusOr<std::string> PutPart(const OpenUpload& upload, uint32_t part,
                                      std::string_view bytes) override;
  absl::Status FinishUpload(const OpenUpload& upload,
                            const std::vector<std::string>& tags) override;
  absl::Status AbortUpload(const OpenUpload& upload) override;
  absl::StatusOr<std::vector<OpenUpload>> Uploads(const std::string& prefix) override;

 private:
  using Query = std::vector<std::pair<std::string, std::string>>;  // sorted by name
  struct Asked {
    std::string method;
    std::string path;
    Query query = {};
    SignedHeaders headers = {};  // names in lower case
    std::string_view body = {};
    size_t bytes = 0;  // expected size of a large answer
  };
  // Returns a successful reply, or an error made from the reply's code and text.
  absl::StatusOr<HttpResponse> Ask(const Asked& asked);
  absl::StatusOr<HttpResponse> AskOnce(const Asked& asked);
  absl::StatusOr<std::string> Url(const Asked& asked) const;
  absl::Status Problem(const Asked& asked, const HttpResponse& reply) const;
  // Returns the error of a HEAD, whose reply has no body. May send a GET of one byte, whose reply
  // says the reason.
  absl::Status ProblemOfHead(const Asked& asked, const HttpResponse& reply);
  void NoteAnswer(const std::string& path);  // records that the path's bucket answers

  struct Settings {
    absl::Status wrong;
    std::string region;
    std::string endpoint;   // without a trailing "/"; "": Amazon
    std::string ca_bundle;  // "": libcurl's default
    // False: AWS_REQUEST_CHECKSUM_CALCULATION, or its key in AWS_CONFIG_FILE, is when_required.
    bool checksums = true;
  };
  static Settings SettingsOf(const VariableFn& variable);

  const Settings settings_;
  HttpClient http_;
  Mutex mu_;
  std::set<std::string> buckets_ ABSL_GUARDED_BY(mu_);  // buckets that have answered
  CredentialSource credentials_;
};

}  // namespace paracord
