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
#include "nlohmann/json.hpp"

namespace paracord {
namespace {

constexpr int64_t kBeforeEndS = 300;

int64_t NowS() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace

VariableFn Stripped(VariableFn variable) {
  return [variable = std::move(variable)](const std::string& name) {
    return std::string(absl::StripAsciiWhitespace(variable(name)));
  };
}

std::vector<std::string_view> XmlInside(std::string_view xml, std::string_view tag) {
  std::vector<std::string_view> inside;
  const std::string open = "<" + std::string(tag) + ">", close = "</" + std::string(tag) + ">";
  for (size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    const size_t end = xml.find(close, at);
    if (end == std::string_view::npos) break;
    inside.push_back(xml.substr(at, end - at));
    at = end;
  }
  return inside;
}

std::string XmlText(std::string_view xml, std::string_view tag) {
  const std::vector<std::string_view> inside = XmlInside(xml, tag);
  if (inside.empty()) return "";
  return absl::StrReplaceAll(std::string(inside.front()), {{"&lt;", "<"},
                                                           {"&gt;", ">"},
                                                           {"&quot;", "\""},
                                                           {"&#34;", "\""},
                                                           {"&#39;", "'"},
                                                           {"&apos;", "'"},
                                                           {"&amp;", "&"}});
}

std::map<std::string, std::string> SectionOf(std::string_view text, std::string_view section) {
  std::map<std::string, std::string> keys;
  bool ours = false, nests = false;
  for (const auto whole : absl::StrSplit(std::string(text), '\n')) {
    const std::string line(absl::StripAsciiWhitespace(whole));
    if (line.starts_with('[')) {
      const std::string inside = line.substr(1, line.find(']') - 1);
      ours = std::string(absl::StripAsciiWhitespace(inside)) == section;
      nests = false;
      continue;
    }
    const size_t equals = line.find('=');
    if (!ours || equals == std::string::npos || line.starts_with('#')) continue;
    const bool below = nests && absl::ascii_isspace(static_cast<unsigned char>(whole[0]));
    if (below) continue;
    const std::string name =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)));
    keys[name] = std::string(absl::StripAsciiWhitespace(line.substr(equals + 1)));
    nests = keys[name].empty();
  }
  return keys;
}

namespace {

std::string ProfileOf(const VariableFn& variable) {
  const std::string profile = variable("AWS_PROFILE");
  return profile.empty() ? "default" : profile;
}

// Returns the text of a file, or "" if there is no file.
absl::StatusOr<std::string> FileText(const std::string& path) {
  PosixFiles files;
  absl::StatusOr<std::string> text = files.ReadWhole(path);
  return absl::IsNotFound(text.status()) ? "" : text;
}

// Parses "2026-01-31T12:00:00Z" to Unix seconds. Returns a quarter of an hour from now if
// malformed.
int64_t UntilS(const std::string& text) {
  absl::Time until;
  std::string wrong;
  const bool timed = absl::ParseTime(absl::RFC3339_full, text, &until, &wrong);
  return timed ? absl::ToUnixSeconds(until) : NowS() + 900;
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ConfigOf(const VariableFn& variable) {
  std::string path = variable("AWS_CONFIG_FILE");
  if (path.empty()) path = variable("HOME") + "/.aws/config";
  ASSIGN_OR_RETURN(const std::string text, FileText(path));
  const std::string profile = ProfileOf(variable);
  return SectionOf(text, profile == "default" ? profile : "profile " + profile);
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
  const std::string full = variable_("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  const std::string relative = variable_("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  if (!relative.empty()) return OfContainer("http://169.254.170.2" + relative);  // the ECS agent
  if (!full.empty()) return OfContainer(full);
  return absl::InvalidArgumentError(
      "there are no credentials for s3://: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
      "AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN, or AWS_CONTAINER_CREDENTIALS_FULL_URI, or "
      "write ~/.aws/credentials (AWS_SHARED_CREDENTIALS_FILE, AWS_PROFILE)");
}

absl::StatusOr<std::optional<S3Credentials>> CredentialSource::OfFile() {
  std::string path = variable_("AWS_SHARED_CREDENTIALS_FILE");
  if (path.empty()) path = variable_("HOME") + "/.aws/credentials";
  ASSIGN_OR_RETURN(const std::string text, FileText(path));
  ASSIGN_OR_RETURN(auto of_config, ConfigOf(variable_));
  for (auto keys : {SectionOf(text, ProfileOf(variable_)), std::move(of_config)}) {
    S3Credentials found{keys["aws_access_key_id"], keys["aws_secret_access_key"],
                        keys["aws_session_token"]};
    if (!found.key_id.empty() && !found.secret.empty()) return found;
  }
  return std::nullopt;
}

absl::StatusOr<S3Credentials> CredentialSource::OfContainer(const std::string& url) {
  HttpRequest request{.url = url};
  std::string token = variable_("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  const std::string token_file = variable_("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
  if (!token_file.empty()) {
    PosixFiles files;
    ASSIGN_OR_RETURN(token, files.ReadWhole(token_file));
    token = std::string(absl::StripAsciiWhitespace(token));
  }
  if (!token.empty()) request.headers.push_back("Authorization: " + token);
  ASSIGN_OR_RETURN(const HttpResponse reply, http_.Send(request));
  const auto said = nlohmann::json::parse(reply.body, nullptr, /*allow_exceptions=*/false);
  const auto text = [&](const char* key) {
    return said.is_object() && said.contains(key) && said[key].is_string()
               ? said[key].get<std::string>()
               : std::string();
  };
  S3Credentials found{text("AccessKeyId"), text("SecretAccessKey"), text("Token")};
  if (reply.code != 200 || found.key_id.empty() || found.secret.empty()) {
    const std::string why = absl::StrCat(url, " (AWS_CONTAINER_CREDENTIALS_FULL_URI or ",
                                         "_RELATIVE_URI) gives no credentials: ", reply.code, " ",
                                         text("Message"), text("message"));
    if (reply.code >= 500 || reply.code == 429) return absl::UnavailableError(why);
    return absl::InvalidArgumentError(why);
  }
  found.until_s = UntilS(text("Expiration"));
  return found;
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
    if (reply.code >= 500 || reply.code == 429) return absl::UnavailableError(why);
    return absl::InvalidArgumentError(why);
  }
  found.until_s = UntilS(XmlText(reply.body, "Expiration"));
  return found;
}

}  // namespace paracord
