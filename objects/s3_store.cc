#include "objects/s3_store.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "objects/aws_signer.h"
#include "storage/crc32c.h"

namespace paracord {
namespace {

constexpr int kSilenceS = 4, kSilenceMaxS = 32;  // longest wait for a byte of an answer

std::string First(const std::string& one, const std::string& other) {
  return one.empty() ? other : one;
}

// Returns the URL without a trailing "/" and without the default port of its scheme, which HTTP
// clients omit from the Host header and thus from the signature.
std::string PlainUrl(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.starts_with("http://") && url.ends_with(":80")) return url.substr(0, url.size() - 3);
  if (url.starts_with("https://") && url.ends_with(":443")) return url.substr(0, url.size() - 4);
  return url;
}

// Returns the CA bundle that the user configured for AWS' tools or OpenSSL, or the system's.
std::string BundleOf(const VariableFn& variable, const std::string& of_config) {
  for (const std::string& told :
       {variable("AWS_CA_BUNDLE"), of_config, variable("SSL_CERT_FILE")}) {
    if (!told.empty()) return told;
  }
  for (const char* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    if (access(path, R_OK) == 0) return path;
  }
  return "";
}

// Returns the CRC-32C in big-endian base64, which S3 compares with the received bytes.
std::string Checksum(std::string_view bytes) {
  const uint32_t crc = Crc32c(bytes, 0);
  const char raw[] = {static_cast<char>(crc >> 24), static_cast<char>(crc >> 16),
                      static_cast<char>(crc >> 8), static_cast<char>(crc)};
  return absl::Base64Escape(std::string(raw, sizeof raw));
}

std::string Decoded(const std::string& text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    } else {
      plain += text[i] == '+' ? ' ' : text[i];
    }
  }
  return plain;
}

std::string XmlEscape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') escaped += "&amp;";
    if (c == '<') escaped += "&lt;";
    if (c == '>') escaped += "&gt;";
    if (c != '&' && c != '<' && c != '>') escaped += c;
  }
  return escaped;
}

struct Place {
  std::string bucket, key;
};

absl::StatusOr<Place> PlaceOf(const std::string& path) {
  constexpr size_t kBegin = 5;  // length of "s3://"
  const size_t slash = std::min(path.find('/', kBegin), path.size());
  Place place{path.substr(kBegin, slash - kBegin),
              slash < path.size() ? path.substr(slash + 1) : ""};
  if (!place.bucket.empty()) return place;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": names no bucket, as s3://BUCKET/... does"));
}

}  // namespace

S3Store::Settings S3Store::SettingsOf(const VariableFn& variable) {
  Settings settings;
  std::map<std::string, std::string> config;
  if (auto found = ConfigOf(variable); found.ok()) {
    config = *std::move(found);
  } else {
    settings.wrong = found.status();
  }
  settings.region = First(First(variable("AWS_REGION"), variable("AWS_DEFAULT_REGION")),
                          First(config["region"], "us-east-1"));
  settings.endpoint =
      PlainUrl(First(First(variable("AWS_ENDPOINT_URL_S3"), variable("AWS_ENDPOINT_URL")),
                     config["endpoint_url"]));
  settings.ca_bundle = BundleOf(variable, config["ca_bundle"]);
  settings.checksums = First(variable("AWS_REQUEST_CHECKSUM_CALCULATION"),
                             config["request_checksum_calculation"]) != "when_required";
  const std::string& endpoint = settings.endpoint;
  if (!endpoint.empty() && !endpoint.starts_with("http://") && !endpoint.starts_with("https://")) {
    settings.wrong = absl::InvalidArgumentError(
        absl::StrCat("the endpoint of s3:// is \"", endpoint, "\": AWS_ENDPOINT_URL (or ",
                     "endpoint_url in ~/.aws/config) begins with http:// or https://"));
  }
  return settings;
}

S3Store::S3Store(VariableFn variable)
    : settings_(SettingsOf(Stripped(variable))),
      http_(kSilenceS, kSilenceMaxS, settings_.ca_bundle),
      credentials_(http_, Stripped(variable), settings_.region) {}

// The bucket is part of the path if an endpoint is given, which may be an IP address.
absl::StatusOr<std::string> S3Store::Url(const Asked& asked) const {
  ASSIGN_OR_RETURN(const Place place, PlaceOf(asked.path));
  const std::string& endpoint = settings_.endpoint;
  const bool in_path = !endpoint.empty() || place.bucket.find('.') != std::string::npos;
  const std::string host = !endpoint.empty()
                               ? endpoint
                               : absl::StrCat("https://", in_path ? "" : place.bucket + ".", "s3.",
                                              settings_.region, ".amazonaws.com");
  std::string url = absl::StrCat(host, in_path ? "/" + place.bucket : "", "/",
                                 UrlEncode(place.key, /*slash=*/true));
  for (size_t i = 0; i < asked.query.size(); ++i) {
    const auto& [name, value] = asked.query[i];
    absl::StrAppend(&url, i == 0 ? "?" : "&", name, "=", UrlEncode(value, /*slash=*/false));
  }
  return url;
}

absl::Status S3Store::Problem(const Asked& asked, const HttpResponse& reply) const {
  const std::string code = XmlText(reply.body, "Code");
  const std::string what =
      absl::StrCat(asked.path, ": ", asked.method, " is answered by ", reply.code,
                   code.empty() ? "" : " " + code + " (" + XmlText(reply.body, "Message") + ")");
  const auto region = reply.headers.find("x-amz-bucket-region");
  if (region != reply.headers.end() && region->second != settings_.region) {
    return absl::InvalidArgumentError(absl::StrCat(what, ": the bucket is in the region ",
                                                   region->second, ": set AWS_REGION to it"));
  }
  if (code == "NoSuchBucket") {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": there is no bucket of this name at ",
                     First(settings_.endpoint, "s3." + settings_.region + ".amazonaws.com")));
  }
  switch (reply.code) {
    case 404:
      return absl::NotFoundError(what);
    case 412:
      return absl::AlreadyExistsError(what);
    case 401:
    case 403:
      return absl::PermissionDeniedError(what);
    case 408:
    case 409:  // two conditional requests at once
    case 429:
      return absl::UnavailableError(what);
    case 501:
      return absl::UnimplementedError(what);
    default:
      break;
  }
  const bool again = reply.code >= 500 || code == "RequestTimeout" || code == "SlowDown";
  return again ? absl::UnavailableError(what) : absl::UnknownError(what);
}

absl::StatusOr<HttpResponse> S3Store::AskOnce(const Asked& asked) {
  RETURN_IF_ERROR(settings_.wrong);
  ASSIGN_OR_RETURN(const S3Credentials credentials, credentials_.Get());
  HttpRequest request;
  request.method = asked.method;
  ASSIGN_OR_RETURN(request.url, Url(asked));
  SignedHeaders headers = asked.headers;
  if (asked.method == "PUT" && settings_.checksums) {
    headers.emplace_back("x-amz-checksum-crc32c", Checksum(asked.body));
  } else if (asked.method == "POST") {
    headers.emplace_back("content-type", "application/xml");
  }
  const size_t host = request.url.find("://") + 3;
  const size_t target = request.url.find('/', host);
  // S3 checks a body by its CRC-32C, so the slow SHA-256 for the signature is omitted. A store
  // without checksums checks the SHA-256.
  const bool checked = asked.method == "PUT" && settings_.checksums;
  const std::string hash = checked ? "UNSIGNED-PAYLOAD" : Sha256Hex(asked.body);
  headers =
      SignRequest({settings_.region, credentials.key_id, credentials.secret, credentials.token},
                  asked.method, request.url.substr(host, target - host), request.url.substr(target),
                  hash, std::move(headers), static_cast<int64_t>(std::time(nullptr)));
  for (const auto& [name, value] : headers) request.headers.push_back(name + ": " + value);
  request.body = asked.body;
  request.reply_bytes_max = std::max(request.reply_bytes_max, asked.bytes);
  absl::StatusOr<HttpResponse> reply = http_.Send(request);
  if (reply.ok()) return reply;
  absl::Status named(
      reply.status().code(),
      absl::StrCat(asked.path, ": ", asked.method, " to ",
                   First(settings_.endpoint, "s3.amazonaws.com"), ": ", reply.status().message()));
  reply.status().ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { named.SetPayload(url, payload); });
  return named;
}

absl::StatusOr<HttpResponse> S3Store::Ask(const Asked& asked) {
  ASSIGN_OR_RETURN(HttpResponse reply, AskOnce(asked));
  const std::string code = reply.code / 100 == 2 ? "" : XmlText(reply.body, "Code");
  // The answer to HEAD has no body with the reason.
  const bool unsaid =
      asked.method == "HEAD" && (reply.code == 400 || reply.code == 401 || reply.code == 403);
  if (unsaid || code == "ExpiredToken" || code == "InvalidToken") {
    credentials_.Forget();
    ASSIGN_OR_RETURN(reply, AskOnce(asked));
  }
  if (reply.code / 100 == 2) {
    NoteAnswer(asked.path);
    return reply;
  }
  return asked.method == "HEAD" ? ProblemOfHead(asked, reply) : Problem(asked, reply);
}

void S3Store::NoteAnswer(const std::string& path) {
  const absl::StatusOr<Place> place = PlaceOf(path);
  MutexLock lock(mu_);
  if (place.ok()) buckets_.insert(place->bucket);
}

absl::Status S3Store::ProblemOfHead(const Asked& asked, const HttpResponse& reply) {
  const absl::StatusOr<Place> place = PlaceOf(asked.path);
  {
    // Lookups of absent objects are frequent, so the reason is asked for only if the bucket is
    // unknown.
    MutexLock lock(mu_);
    if (reply.code == 404 && place.ok() && buckets_.contains(place->bucket)) {
      return Problem(asked, reply);
    }
  }
  if (reply.code / 100 == 4) {
    const Asked again{.method = "GET", .path = asked.path, .headers = {{"range", "bytes=0-0"}}};
    const absl::StatusOr<HttpResponse> said = AskOnce(again);
    if (said.ok() && said->code == reply.code) return Problem(again, *said);
  }
  return Problem(asked, reply);
}

absl::StatusOr<ObjectFacts> S3Store::Look(const std::string& path) {
  ASSIGN_OR_RETURN(const HttpResponse reply, Ask({"HEAD", path}));
  ObjectFacts facts;
  const auto size = reply.headers.find("content-length");
  const auto version = reply.headers.find("etag");
  if (size == reply.headers.end() || !absl::SimpleAtoi(size->second, &facts.size) ||
      version == reply.headers.end()) {
    return absl::UnknownError(path + ": the store does not say how long it is, or no ETag");
  }
  facts.version = version->second;
  return facts;
}

namespace {

absl::Status NoRange(const std::string& path, size_t bytes, uint64_t offset) {
  return absl::FailedPreconditionError(absl::StrCat(
      path, ": the store gives more than the ", bytes, " bytes at ", offset,
      " that it was asked for: it, or a proxy before it, takes no notice of the header "
      "\"range\""));
}

}  // namespace

absl::Status S3Store::Get(const std::string& path, const std::string& version, uint64_t offset,
                          std::span<char> out) {
  if (out.empty()) return absl::OkStatus();
  const absl::StatusOr<HttpResponse> reply =
      Ask({.method = "GET",
           .path = path,
           .headers = {{"range", absl::StrCat("bytes=", offset, "-", offset + out.size() - 1)},
                       {"if-match", version}},
           .bytes = out.size()});
  if (absl::IsAlreadyExists(reply.status())) {
    return absl::DataLossError(path + ": has been replaced since it was opened");
  }
  if (IsTooLarge(reply.status())) return NoRange(path, out.size(), offset);
  RETURN_IF_ERROR(reply.status());
  if (reply->body.size() > out.size()) return NoRange(path, out.size(), offset);
  if (reply->body.size() != out.size()) {
    return absl::UnavailableError(absl::StrCat(path, ": ", reply->body.size(),
                                               " bytes came of the ", out.size(), " at ", offset));
  }
  std::copy_n(reply->body.data(), out.size(), out.data());
  return absl::OkStatus();
}

absl::Status S3Store::Put(const std::string& path, std::string_view bytes, bool if_absent) {
  Asked asked{.method = "PUT", .path = path, .body = bytes};
  if (if_absent) asked.headers.emplace_back("if-none-match", "*");
  return Ask(asked).status();
}

absl::Status S3Store::Remove(const std::string& path) {
  const absl::Status removed = Ask({"DELETE", path}).status();
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

absl::StatusOr<ObjectList> S3Store::List(const std::string& prefix, bool deep,
                                         const std::string& from) {
  ASSIGN_OR_RETURN(const Place place, PlaceOf(prefix));
  Asked asked{.method = "GET", .path = "s3://" + place.bucket};
  if (!from.empty()) asked.query.emplace_back("continuation-token", from);
  if (!deep) asked.query.emplace_back("delimiter", "/");
  asked.query.emplace_back("encoding-type", "url");
  asked.query.emplace_back("list-type", "2");
  asked.query.emplace_back("prefix", place.key);
  ASSIGN_OR_RETURN(const HttpResponse reply, Ask(asked));
  const auto no_list = [&](absl::string_view why) {
    return absl::FailedPreconditionError(absl::StrCat(prefix,
                                                      ": the answer is no list of objects: ", why,
                                                      "; is the endpoint that of an S3 store?"));
  };
  if (!absl::StrContains(reply.body, "<ListBucketResult")) {
    return no_list(absl::StrCat("it begins with \"", reply.body.substr(0, 40), "\""));
  }
  ObjectList list;
  // A store that does not support the encoding returns plain names and no EncodingType.
  const bool encoded = XmlText(reply.body, "EncodingType") == "url";
  const auto add = [&](std::string_view xml, const char* tag) {
    const std::string text = XmlText(xml, tag), key = encoded ? Decoded(text) : text;
    if (!key.starts_with(place.key)) return std::string();
    return list.names.emplace_back(key.substr(place.key.size()));
  };
  for (const std::string_view object : XmlInside(reply.body, "Contents")) {
    const std::string name = add(object, "Key");
    ObjectFacts facts{.version = XmlText(object, "ETag")};
    const bool sized = absl::SimpleAtoi(XmlText(object, "Size"), &facts.size);
    if (!name.empty() && sized && !facts.version.empty()) list.facts[name] = std::move(facts);
  }
  for (const std::string_view common : XmlInside(reply.body, "CommonPrefixes")) {
    add(common, "Prefix");
  }
  if (XmlText(reply.body, "IsTruncated") == "true") {
    list.next = XmlText(reply.body, "NextContinuationToken");
    if (list.next.empty()) return no_list("it is cut, and does not say how to go on");
    if (list.next == from) return no_list("it goes on where it began");
  }
  return list;
}

absl::StatusOr<std::string> S3Store::StartUpload(const std::string& path) {
  Asked asked{.method = "POST", .path = path, .query = {{"uploads", ""}}};
  if (settings_.checksums) asked.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
  ASSIGN_OR_RETURN(const HttpResponse reply, Ask(asked));
  std::string id = XmlText(reply.body, "UploadId");
  if (id.empty()) return absl::UnknownError(path + ": the store gives its upload no name");
  return id;
}

absl::StatusOr<std::string> S3Store::PutPart(const OpenUpload& upload, uint32_t part,
                                             std::string_view bytes) {
  ASSIGN_OR_RETURN(const HttpResponse reply,
                   Ask({.method = "PUT",
                        .path = upload.path,
                        .query = {{"partNumber", absl::StrCat(part)}, {"uploadId", upload.id}},
                        .body = bytes}));
  const auto tag = reply.headers.find("etag");
  if (tag == reply.headers.end()) {
    return absl::UnknownError(absl::StrCat(upload.path, ": part ", part, " got no ETag"));
  }
  return absl::StrCat(tag->second, " ", Checksum(bytes));
}

absl::Status S3Store::FinishUpload(const OpenUpload& upload, const std::vector<std::string>& tags) {
  std::string body = "<CompleteMultipartUpload>";
  for (size_t i = 0; i < tags.size(); ++i) {
    const size_t space = tags[i].rfind(' ');
    const std::string checksum =
        absl::StrCat("<ChecksumCRC32C>", tags[i].substr(space + 1), "</ChecksumCRC32C>");
    absl::StrAppend(&body, "<Part>", settings_.checksums ? checksum : "", "<ETag>",
                    XmlEscape(tags[i].substr(0, space)), "</ETag><PartNumber>", i + 1,
                    "</PartNumber></Part>");
  }
  body += "</CompleteMultipartUpload>";
  const Asked asked{.method = "POST",
                    .path = upload.path,
                    .query = {{"uploadId", upload.id}},
                    .headers = {},
                    .body = body};
  ASSIGN_OR_RETURN(HttpResponse reply, Ask(asked));
  // S3 may send a success code early, to keep the connection, and then an error in the body.
  const bool failed =
      !XmlText(reply.body, "Code").empty() && reply.body.find("<Error>") != std::string::npos;
  if (!failed) return absl::OkStatus();
  reply.code = 500;
  return Problem(asked, reply);
}

absl::Status S3Store::AbortUpload(const OpenUpload& upload) {
  const absl::Status aborted =
      Ask({.method = "DELETE", .path = upload.path, .query = {{"uploadId", upload.id}}}).status();
  return absl::IsNotFound(aborted) ? absl::OkStatus() : aborted;
}

absl::StatusOr<std::vector<OpenUpload>> S3Store::Uploads(const std::string& prefix) {
  ASSIGN_OR_RETURN(const Place place, PlaceOf(prefix));
  std::vector<OpenUpload> uploads;
  std::string key_marker, id_marker;  // where the next page begins
  while (true) {
    Asked asked{.method = "GET", .path = "s3://" + place.bucket};
    if (!key_marker.empty()) asked.query.emplace_back("key-marker", key_marker);
    asked.query.emplace_back("prefix", place.key);
    if (!id_marker.empty()) asked.query.emplace_back("upload-id-marker", id_marker);
    asked.query.emplace_back("uploads", "");
    ASSIGN_OR_RETURN(const HttpResponse reply, Ask(asked));
    for (const std::string_view upload : XmlInside(reply.body, "Upload")) {
      const std::string key = XmlText(upload, "Key");
      if (!key.starts_with(place.key)) continue;
      uploads.push_back(
          {absl::StrCat("s3://", place.bucket, "/", key), XmlText(upload, "UploadId")});
    }
    if (XmlText(reply.body, "IsTruncated") != "true") return uploads;
    const auto before = std::pair(key_marker, id_marker);
    key_marker = XmlText(reply.body, "NextKeyMarker");
    id_marker = XmlText(reply.body, "NextUploadIdMarker");
    if (key_marker.empty() || std::pair(key_marker, id_marker) == before) {
      return absl::FailedPreconditionError(
          absl::StrCat(prefix, ": the list of uploads is cut, and does not say how to go on"));
    }
  }
}

}  // namespace paracord
