// An object store that speaks S3: Amazon's, or any other at AWS_ENDPOINT_URL. Requests are signed,
// and carry the CRC-32C of the bytes to store. Thread-safe.
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
  // `variable` reads the environment, which has the endpoint, the region and the credentials, or
  // says where AWS' shared files with them are. What is wrong there is the answer to every request.
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
    SignedHeaders headers = {};  // names in small letters
    std::string_view body = {};
    size_t bytes = 0;  // that the answer is to have, where they may be many
  };
  // Returns a reply with a code of success, or an error made from the reply's code and text.
  absl::StatusOr<HttpResponse> Ask(const Asked& asked);
  absl::StatusOr<HttpResponse> AskOnce(const Asked& asked);
  absl::StatusOr<std::string> Url(const Asked& asked) const;
  absl::Status Problem(const Asked& asked, const HttpResponse& reply) const;
  // The error of a HEAD, whose answer has no body: a GET of one byte is told the reason.
  absl::Status ProblemOfHead(const Asked& asked, const HttpResponse& reply);
  void NoteAnswer(const std::string& path);  // of its bucket

  struct Settings {
    absl::Status wrong;
    std::string region;
    std::string endpoint;   // without "/" at its end; "": Amazon's own
    std::string ca_bundle;  // "": libcurl's own
    bool checksums = true;  // false: AWS_REQUEST_CHECKSUM_CALCULATION is when_required
  };
  static Settings SettingsOf(const VariableFn& variable);

  const Settings settings_;
  HttpClient http_;
  Mutex mu_;
  std::set<std::string> buckets_ ABSL_GUARDED_BY(mu_);  // those that have answered
  CredentialSource credentials_;
};

}  // namespace paracord
