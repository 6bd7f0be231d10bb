// Tests the S3 client against stores and environments that deviate from Amazon's documentation.
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "objects/credentials.h"
#include "objects/http.h"
#include "objects/object_files.h"
#include "objects/s3_store.h"
#include "tests/fakes.h"
#include "tests/objects/answering_server.h"

namespace paracord {
namespace {

using Variables = std::map<std::string, std::string>;

VariableFn FromMap(Variables variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

Variables With(const AnsweringServer& server, const Variables& more = {}) {
  Variables variables = {{"AWS_ENDPOINT_URL", "http://" + server.address()},
                         {"AWS_ACCESS_KEY_ID", "key"},
                         {"AWS_SECRET_ACCESS_KEY", "secret"},
                         {"HOME", "/nowhere"}};
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

std::string ErrorOf(const std::string& code, const std::string& message) {
  return absl::StrCat("<Error><Code>", code, "</Code><Message>", message, "</Message></Error>");
}

TEST_CASE("names of a list are decoded if the store says that it has encoded them") {
  std::string encoding;
  AnsweringServer server([&](const std::string&) {
    return std::pair(
        200, absl::StrCat("<ListBucketResult>", encoding,
                          "<Contents><Key>d/p+1%25&amp;lt;&lt;.csv</Key><ETag>",
                          "&quot;v&quot;</ETag><Size>7</Size></Contents><CommonPrefixes><Prefix>",
                          "d/s+t/</Prefix></CommonPrefixes></ListBucketResult>"));
  });
  S3Store store(FromMap(With(server)));
  auto list = store.List("s3://b/d/", /*deep=*/false, "");
  REQUIRE(list.ok());
  CHECK(list->names == std::vector<std::string>{"p+1%25&lt;<.csv", "s+t/"});
  CHECK(list->facts.at("p+1%25&lt;<.csv").size == 7);
  CHECK(list->facts.at("p+1%25&lt;<.csv").version == "\"v\"");
  encoding = "<EncodingType>url</EncodingType>";
  list = store.List("s3://b/d/", /*deep=*/false, "");
  CHECK(list->names == std::vector<std::string>{"p 1%&lt;<.csv", "s t/"});
}

TEST_CASE("an answer that is no list of objects is neither an empty list nor a whole one") {
  const std::string cut =
      "<ListBucketResult><Contents><Key>d/a</Key></Contents>"
      "<IsTruncated>true</IsTruncated>";
  std::string body;
  AnsweringServer server([&](const std::string&) { return std::pair(200, body); });
  S3Store store(FromMap(With(server)));
  const auto said = [&](const std::string& answer) {
    body = answer;
    const auto list = store.List("s3://b/d/", /*deep=*/false, "here");
    CHECK(absl::IsFailedPrecondition(list.status()));
    return std::string(list.status().message());
  };
  const std::string wrong = "s3://b/d/: the answer is no list of objects: ";
  CHECK(absl::StartsWith(said("<html><body>Log in</body></html>"),
                         wrong + "it begins with \"<html><body>Log in</body></html>\""));
  CHECK(absl::StartsWith(said(ErrorOf("Busy", "later")), wrong + "it begins with \"<Error>"));
  CHECK(absl::StartsWith(said(""), wrong));
  CHECK(absl::StartsWith(said(cut + "</ListBucketResult>"),
                         wrong + "it is cut, and does not say how to go on"));
  CHECK(absl::StartsWith(said(cut + "<NextContinuationToken>here</NextContinuationToken>"
                                    "</ListBucketResult>"),
                         wrong + "it goes on where it began"));
}

TEST_CASE("unfinished uploads are listed page by page") {
  const auto page = [](const std::string& id, const std::string& next) {
    return absl::StrCat("<ListMultipartUploadsResult><Upload><Key>d/a</Key><UploadId>", id,
                        "</UploadId></Upload>", next, "</ListMultipartUploadsResult>");
  };
  const std::string next =
      "<IsTruncated>true</IsTruncated><NextKeyMarker>d/a</NextKeyMarker>"
      "<NextUploadIdMarker>one</NextUploadIdMarker>";
  bool ends = true;
  AnsweringServer server([&](const std::string& head) {
    const bool second = absl::StrContains(head, "?key-marker=d%2Fa&prefix=d%2F") &&
                        absl::StrContains(head, "&upload-id-marker=one&uploads=");
    return std::pair(200, second ? page("two", ends ? "" : next) : page("one", next));
  });
  S3Store store(FromMap(With(server)));
  const auto uploads = store.Uploads("s3://b/d/");
  REQUIRE(uploads.ok());
  REQUIRE(uploads->size() == 2);
  CHECK(uploads->front().id == "one");
  CHECK(uploads->back().id == "two");
  CHECK(uploads->back().path == "s3://b/d/a");
  ends = false;
  CHECK(store.Uploads("s3://b/d/").status().message() ==
        "s3://b/d/: the list of uploads is cut, and does not say how to go on");
}

TEST_CASE("a store that takes no notice of ranges fills no memory") {
  std::atomic<size_t> size = 1 << 20;
  AnsweringServer server(
      [&](const std::string&) { return std::pair(200, std::string(size, 'x')); });
  S3Store store(FromMap(With(server)));
  std::string part(100, ' ');
  // Neither request is retried, since the answer would be the same.
  const std::string wrong =
      "s3://b/k: the store gives more than the 100 bytes at 7 that it was asked";
  absl::Status got = store.Get("s3://b/k", "\"tag\"", 7, part);
  INFO(got);
  CHECK(absl::IsFailedPrecondition(got));
  CHECK(absl::StartsWith(got.message(), wrong));
  size = 8000;
  got = store.Get("s3://b/k", "\"tag\"", 7, part);
  CHECK(absl::IsFailedPrecondition(got));
  CHECK(absl::StartsWith(got.message(), wrong));
  CHECK(server.heads().size() == 2);
  // Other answers are limited, too.
  size = 40 << 20;
  CHECK(absl::StrContains(store.List("s3://b/", /*deep=*/true, "").status().message(),
                          "the answer 200 has more than 33554432 bytes"));
}

TEST_CASE("an environment as people type it works, or is named") {
  AnsweringServer server([](const std::string&) { return std::pair(200, std::string()); });
  const auto headers = [&](const Variables& more) {
    const absl::Status put =
        S3Store(FromMap(With(server, more))).Put("s3://b/k", "text", /*if_absent=*/false);
    INFO(put);
    REQUIRE(put.ok());
    return server.heads().back();
  };
  const std::string plain = headers({});
  CHECK(absl::StrContains(plain, "Credential=key/"));
  CHECK(absl::StrContains(plain, "x-amz-checksum-crc32c: "));
  const std::string broken = headers({{"AWS_ACCESS_KEY_ID", "key\n"},
                                      {"AWS_SECRET_ACCESS_KEY", " secret\r\n"},
                                      {"AWS_REGION", "eu-1\n"}});
  CHECK(absl::StrContains(broken, "Credential=key/"));
  CHECK(absl::StrContains(broken, "/eu-1/s3/"));
  CHECK_FALSE(absl::StrContains(headers({{"AWS_REQUEST_CHECKSUM_CALCULATION", "when_required"}}),
                                "x-amz-checksum"));
  CHECK(S3Store(FromMap(With(server, {{"AWS_ENDPOINT_URL", server.address()}})))
            .Put("s3://b/k", "", false)
            .message() == absl::StrCat("the endpoint of s3:// is \"", server.address(),
                                       "\": AWS_ENDPOINT_URL (or endpoint_url in ~/.aws/config) "
                                       "begins with http:// or https://"));
}

TEST_CASE("endpoint, region and keys may be in the profile of AWS' config file") {
  AnsweringServer server([](const std::string&) { return std::pair(200, std::string()); });
  const TestDirectory directory;
  const std::string config = directory.Write(
      "config",
      absl::StrCat("[default]\nregion = other\n[profile job]\nregion=eu-2\ns3 =\n",
                   "  endpoint_url = http://127.0.0.1:9\nendpoint_url = http://", server.address(),
                   "/\naws_access_key_id = mine\n", "aws_secret_access_key = x\n"));
  S3Store store(
      FromMap({{"AWS_CONFIG_FILE", config}, {"AWS_PROFILE", "job"}, {"HOME", "/nowhere"}}));
  const absl::Status put = store.Put("s3://b/k", "text", false);
  INFO(put);
  CHECK(put.ok());
  CHECK(absl::StrContains(server.heads().back(), "Credential=mine/"));
  CHECK(absl::StrContains(server.heads().back(), "/eu-2/s3/"));
}

TEST_CASE("the agent of a container gives credentials for a token") {
  const TestDirectory directory;
  AnsweringServer agent([](const std::string&) {
    return std::pair(200, std::string(R"({"AccessKeyId": "ours", "SecretAccessKey": "s",)"
                                      R"( "Token": "session", "Expiration":)"
                                      R"( "2999-01-01T00:00:00Z"})"));
  });
  AnsweringServer server([](const std::string&) { return std::pair(200, std::string()); });
  Variables variables = {
      {"AWS_ENDPOINT_URL", "http://" + server.address()},
      {"AWS_CONTAINER_CREDENTIALS_FULL_URI", absl::StrCat("http://", agent.address(), "/v1")},
      {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", directory.Write("token", "a-token\n")},
      {"HOME", "/nowhere"}};
  S3Store store(FromMap(variables));
  REQUIRE(store.Put("s3://b/k", "text", false).ok());
  REQUIRE(store.Put("s3://b/k", "text", false).ok());
  REQUIRE(agent.heads().size() == 1);  // credentials are cached
  CHECK(absl::StrContains(agent.heads()[0], "GET /v1 "));
  CHECK(absl::StrContains(agent.heads()[0], "Authorization: a-token\r\n"));
  CHECK(absl::StrContains(server.heads()[0], "x-amz-security-token: session\r\n"));
}

TEST_CASE("a token service that asks for patience is asked again, one that refuses is not") {
  const TestDirectory directory;
  int code = 429;
  AnsweringServer tokens(
      [&](const std::string&) { return std::pair(code, ErrorOf("Throttling", "Rate exceeded")); });
  HttpClient http;
  CredentialSource source(
      http,
      FromMap({{"AWS_ENDPOINT_URL_STS", "http://" + tokens.address()},
               {"AWS_WEB_IDENTITY_TOKEN_FILE", directory.Write("token", "a.b.c\n")},
               {"AWS_ROLE_ARN", "arn:aws:iam::1:role/job"}}),
      "us-east-1");
  const absl::Status busy = source.Get().status();
  CHECK(absl::IsUnavailable(busy));  // which callers retry
  CHECK(absl::StrContains(busy.message(), "429 Rate exceeded"));
  code = 403;
  CHECK(absl::IsInvalidArgument(source.Get().status()));
}

TEST_CASE("a HEAD that is refused is an error with the store's own reason") {
  int code = 403;
  std::string body;
  AnsweringServer server([&](const std::string&) { return std::pair(code, body); });
  const auto look = [&] { return S3Store(FromMap(With(server))).Look("s3://b/k").status(); };
  body = ErrorOf("RequestTimeTooSkewed", "The clock is wrong.");
  CHECK(absl::IsPermissionDenied(look()));
  CHECK(look().message() ==
        "s3://b/k: GET is answered by 403 RequestTimeTooSkewed (The clock is wrong.)");
  code = 404;
  body = ErrorOf("NoSuchKey", "none");
  CHECK(absl::IsNotFound(look()));
  body = ErrorOf("NoSuchBucket", "The specified bucket does not exist");
  CHECK(absl::IsInvalidArgument(look()));
  CHECK(absl::StrContains(look().message(), "there is no bucket of this name at http://127."));
  // Once the bucket has answered, a missing object takes one request.
  S3Store store(FromMap(With(server)));
  code = 200;
  REQUIRE(store.Look("s3://b/k").ok());
  code = 404;
  const size_t before = server.heads().size();
  CHECK(absl::IsNotFound(store.Look("s3://b/k").status()));
  CHECK(server.heads().size() == before + 1);
}

TEST_CASE("listed files are read without asking for each, several at once") {
  constexpr int kFiles = 40;
  std::mutex mu;
  std::condition_variable more;
  int at_once = 0, most = 0;
  bool late = false;
  AnsweringServer server([&](const std::string& head) {
    if (absl::StrContains(head, "list-type=2")) {
      std::string list = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
      for (int i = 0; i < kFiles; ++i) {
        absl::StrAppend(&list, "<Contents><Key>d/", 100 + i, "</Key><ETag>\"tag\"</ETag><Size>",
                        i == 7 ? 0 : 5, "</Size></Contents>");
      }
      return std::pair(200, list + "</ListBucketResult>");
    }
    // The first answers wait for five open requests, however slowly the threads start.
    std::unique_lock lock(mu);
    most = std::max(most, ++at_once);
    more.notify_all();
    const auto enough = [&] { return most > 4 || late; };
    if (!more.wait_for(lock, std::chrono::seconds(30), enough)) late = true;
    --at_once;
    return std::pair(206, std::string("hello"));
  });
  S3Store store(FromMap(With(server)));
  ObjectFiles files(store, [](int, const absl::Status&) { return false; });
  const auto names = files.List("s3://b/d");
  REQUIRE(names.ok());
  REQUIRE(names->size() == kFiles);
  std::vector<std::string> paths;
  for (const std::string& name : *names) paths.push_back("s3://b/d/" + name);
  files.Expect(paths);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < kFiles; ++i) {
      const auto text = files.ReadWhole(paths[static_cast<size_t>(i)]);
      REQUIRE(text.ok());
      CHECK(*text == (i == 7 ? "" : "hello"));
    }
    if (round > 0) continue;
    CHECK(server.heads().size() == kFiles);  // the list, and every file but the empty one
    const std::lock_guard lock(mu);
    CHECK_FALSE(late);
    CHECK(most > 4);
  }
  for (const std::string& head : server.heads()) CHECK(head.starts_with("GET "));
}

}  // namespace
}  // namespace paracord
