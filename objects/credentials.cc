#include "objects/credentials.h"

#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/files.h"
#include "common/status_macros.h"

namespace paracord {
namespace {

constexpr int64_t kBeforeEndS = 300;

int64_t NowS() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace

std::vector<std::string> XmlTexts(std::string_view xml, std::string_view tag) {
  std::vector<std::string> texts;
  const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
  for (size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    const size_t end = xml.find(close, at);
    if (end == std::string_view::npos) break;
    texts.push_back(absl::StrReplaceAll(std::string(xml.substr(at, end - at)), {{"&lt;", "<"},
                                                                                {"&gt;", ">"},
                                                                                {"&quot;", "\""},
                                                                                {"&#34;", "\""},
                                                                                {"&#39;", "'"},
                                                                                {"&apos;", "'"},
                                                                                {"&amp;", "&"}}));
    at = end;
  }
  return texts;
}

std::string XmlText(std::string_view xml, std::string_view tag) {
  const std::vector<std::string> texts = XmlTexts(xml, tag);
  return texts.empty() ? "" : texts.front();
}

std::optional<S3Credentials> CredentialsOfProfile(std::string_view text, std::string_view profile) {
  S3Credentials found;
  bool ours = false;
  for (const auto whole : absl::StrSplit(std::string(text), '\n')) {
    const std::string line(absl::StripAsciiWhitespace(whole));
    if (line.starts_with('[')) {
      const std::string inside = line.substr(1, line.find(']') - 1);
      ours = std::string(absl::StripAsciiWhitespace(inside)) == profile;
      continue;
    }
    const size_t equals = line.find('=');
    if (!ours || equals == std::string::npos || line.starts_with('#')) continue;
    const std::string name =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)));
    const std::string value(absl::StripAsciiWhitespace(line.substr(equals + 1)));
    if (name == "aws_access_key_id") found.key_id = value;
    if (name == "aws_secret_access_key") found.secret = value;
    if (name == "aws_session_token") found.token = value;
  }
  if (found.key_id.empty() || found.secret.empty()) return std::nullopt;
  return found;
}

absl::StatusOr<S3Credentials> CredentialSource::Get() {
  MutexLock lock(mu_);
  if (kept_.has_value() && (kept_->until_s == 0 || NowS() < kept_->until_s - kBeforeEndS)) {
    return *kept_;
  }
  ASSIGN_OR_RETURN(S3Credentials found, Find());
  kept_ = found;
  return found;
}

void CredentialSource::Forget() {
  MutexLock lock(mu_);
  kept_.reset();
}

absl::StatusOr<S3Credentials> CredentialSource::Find() {
  S3Credentials own{variable_("AWS_ACCESS_KEY_ID"), variable_("AWS_SECRET_ACCESS_KEY"),
                  variable_("AWS_SESSION_TOKEN")};
  if (!own.key_id.empty() && !own.secret.empty()) return own;
  const std::string token_file = variable_("AWS_WEB_IDENTITY_TOKEN_FILE");
  if (!token_file.empty()) return OfWebIdentity(token_file);
  ASSIGN_OR_RETURN(const std::optional<S3Credentials> of_file, OfFile());
  if (of_file.has_value()) return *of_file;
  return absl::InvalidArgumentError(
      "there are no credentials for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
      "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or write ~/.aws/credentials "
      "(AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE)");
}

absl::StatusOr<std::optional<S3Credentials>> CredentialSource::OfFile() {
  std::string path = variable_("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = variable_("HOME") + "/.aws/credentials";
  PosixFiles files;
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  const std::string profile = variable_("AWS_PROFILE");
  return CredentialsOfProfile(*text, profile.empty() ? "default" : profile);
}

absl::StatusOr<S3Credentials> CredentialSource::OfWebIdentity(const std::string& token_file) {
  PosixFiles files;
  ASSIGN_OR_RETURN(const std::string token, files.ReadWhole(token_file));
  std::string endpoint = variable_("AWS_ENDPOINT_URL_STS");
  if (endpoint.empty()) endpoint = variable_("AWS_ENDPOINT_URL");
  if (endpoint.empty()) endpoint = absl::StrCat("https://sts.", region_, ".amazonaws.com");
  std::string session = variable_("AWS_ROLE_SESSION_NAME");
  if (session.empty()) session = "paracord";
  const std::string form = absl::StrCat(
      "Action=AssumeRoleWithWebIdentity&RoleArn=", UrlEncode(variable_("AWS_ROLE_ARN"), false),
      "&RoleSessionName=", UrlEncode(session, false), "&Version=2011-06-15&WebIdentityToken=",
      UrlEncode(std::string(absl::StripAsciiWhitespace(token)), false));
  const HttpRequest request{.method = "POST",
                            .url = endpoint + "/",
                            .headers = {"content-type: application/x-www-form-urlencoded"},
                            .body = form};
  ASSIGN_OR_RETURN(const HttpResponse reply, http_.Send(request));
  S3Credentials found{XmlText(reply.body, "AccessKeyId"), XmlText(reply.body, "SecretAccessKey"),
                    XmlText(reply.body, "SessionToken")};
  if (reply.code != 200 || found.key_id.empty() || found.secret.empty()) {
    const std::string why =
        absl::StrCat(endpoint, " gives no credentials for AWS_ROLE_ARN with the token in ",
                     token_file, ": ", reply.code, " ", XmlText(reply.body, "Message"));
    if (reply.code >= 500) return absl::UnavailableError(why);
    return absl::InvalidArgumentError(why);
  }
  absl::Time until;
  std::string wrong;
  const bool timed =
      absl::ParseTime(absl::RFC3339_full, XmlText(reply.body, "Expiration"), &until, &wrong);
  found.until_s = timed ? absl::ToUnixSeconds(until) : NowS() + 900;
  return found;
}

}  // namespace paracord
