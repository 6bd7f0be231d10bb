#include "objects/aws_signer.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"

namespace paracord {
namespace {

// Returns "" if OpenSSL cannot compute the HMAC. The store then refuses the request.
std::string Hmac(const std::string& key, const std::string& text) {
  std::string code(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  (void)HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
             reinterpret_cast<const unsigned char*>(text.data()), text.size(),
             reinterpret_cast<unsigned char*>(code.data()), &size);
  code.resize(size);
  return code;
}

std::string TimeText(int64_t unix_s, const char* format) {
  const auto time = static_cast<std::time_t>(unix_s);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, format, &utc));
}

}  // namespace

SignedHeaders SignRequest(const SignerKeys& keys, std::string_view method, std::string_view host,
                          std::string_view target, std::string_view body_hash,
                          SignedHeaders headers, int64_t unix_s) {
  const std::string time = TimeText(unix_s, "%Y%m%dT%H%M%SZ");
  const std::string day = TimeText(unix_s, "%Y%m%d");
  headers.emplace_back("x-amz-content-sha256", body_hash);
  headers.emplace_back("x-amz-date", time);
  if (!keys.token.empty()) headers.emplace_back("x-amz-security-token", keys.token);
  SignedHeaders all = headers;
  all.emplace_back("host", host);
  std::sort(all.begin(), all.end());
  std::string lines, names;
  for (const auto& [name, value] : all) {
    absl::StrAppend(&lines, name, ":", value, "\n");
    absl::StrAppend(&names, names.empty() ? "" : ";", name);
  }
  const std::string whole(target);
  const size_t question = std::min(whole.find('?'), whole.size());
  const std::string query = question < whole.size() ? whole.substr(question + 1) : "";
  const std::string canonical =
      absl::StrCat(std::string(method), "\n", whole.substr(0, question), "\n", query, "\n", lines,
                   "\n", names, "\n", std::string(body_hash));
  const std::string scope = absl::StrCat(day, "/", keys.region, "/s3/aws4_request");
  const std::string text =
      absl::StrCat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", Sha256Hex(canonical));
  std::string key = "AWS4" + keys.secret;
  for (const std::string& step :
       {day, keys.region, std::string("s3"), std::string("aws4_request")}) {
    key = Hmac(key, step);
  }
  headers.emplace_back("authorization",
                       absl::StrCat("AWS4-HMAC-SHA256 Credential=", keys.key_id, "/", scope,
                                    ",SignedHeaders=", names,
                                    ",Signature=", absl::BytesToHexString(Hmac(key, text))));
  return headers;
}

}  // namespace paracord
