// Tests the S3 client with a server that checks signatures.
#include "objects/s3_store.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "common/sha256.h"
#include "objects/object_files.h"
#include "tests/fakes.h"
#include "tests/objects/s3_server.h"

namespace paracord {
namespace {

VariableFn Of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::string() : found->second;
  };
}

std::string Text(ObjectFiles& files, const std::string& path) {
  const absl::StatusOr<std::string> text = files.ReadWhole(path);
  INFO(text.status());
  REQUIRE(text.ok());
  return *text;
}

// All tests share one server, which takes a second to start and ends with the test program.
const S3Server& Server() {
  static S3Server& server = *new S3Server;
  return server;
}

// The example in Amazon's documentation of signatures.
TEST_CASE("a request is signed as in the example of the standard") {
  const SignedHeaders headers = SignRequest(
      {"us-east-1", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""}, "GET",
      "examplebucket.s3.amazonaws.com", "/test.txt", Sha256Hex(""), {{"range", "bytes=0-9"}},
      1369353600);
  CHECK(headers.back().second ==
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
        "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
}

// Every request is signed: names with characters to encode, queries, conditions.
TEST_CASE("objects are put, read, listed and removed with signatures that the server accepts") {
  const S3Server& server = Server();
  if (!server.there()) return;
  S3Store store(Of(server.Variables()));
  ObjectFiles files(
      store, [](int tries, const absl::Status&) { return tries < 3; }, /*part_bytes=*/5 << 20);
  const std::string dir = server.path("a dir/of+a=job&more~");

  REQUIRE(files.MakeDirectories(dir) == absl::OkStatus());
  CHECK(files.List(dir)->empty());
  CHECK(absl::IsNotFound(files.List(server.path("nothing")).status()));
  REQUIRE(files.WriteAtomic(dir + "/one ü.txt", "first").ok());
  REQUIRE(files.WriteAtomic(dir + "/one ü.txt", "second").ok());
  CHECK(Text(files, dir + "/one ü.txt") == "second");
  CHECK(files.CreateExclusive(dir + "/claim", "mine").ok());
  CHECK(absl::IsAlreadyExists(files.CreateExclusive(dir + "/claim", "yours")));
  CHECK(Text(files, dir + "/claim") == "mine");
  REQUIRE(files.WriteAtomic(dir + "/below/deep/x", "").ok());
  CHECK(*files.List(dir) == std::vector<std::string>{"below", "claim", "one ü.txt"});

  std::string large(12 << 20, 'x');
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>('a' + i % 23);
  {
    const auto file = *files.Create(dir + "/large");
    REQUIRE(file->Append(large).ok());
    CHECK(absl::IsNotFound(files.Open(dir + "/large").status()));  // invisible until complete
    REQUIRE(file->Sync() == absl::OkStatus());
    CHECK_FALSE(file->Append("more").ok());
  }
  const auto opened = *files.Open(dir + "/large");
  REQUIRE(opened->size() == large.size());
  for (const auto& [offset, bytes] : {std::pair<size_t, size_t>{0, 10},
                                      {10, 100},
                                      {11 << 20, 1000},
                                      {3, 9 << 20},
                                      {large.size() - 1, 1}}) {
    std::string part(bytes, '\0');
    REQUIRE(opened->ReadAt(offset, part).ok());
    CHECK(part == large.substr(offset, bytes));
  }
  char beyond[2];
  CHECK(absl::IsOutOfRange(opened->ReadAt(large.size() - 1, beyond)));

  // A replaced object cannot be read further.
  REQUIRE(files.WriteAtomic(dir + "/large", large + "!").ok());
  std::string part(9 << 20, '\0');
  CHECK(absl::IsDataLoss(opened->ReadAt(0, part)));

  { const auto given_up = (*files.Create(dir + "/torn"))->Append(large); }
  auto torn = *files.Create(dir + "/torn");
  REQUIRE(torn->Append(large).ok());
  CHECK(store.Uploads(dir + "/")->size() == 1);  // a process killed here would leave it
  REQUIRE(files.RemoveTree(dir).ok());
  CHECK(store.Uploads(dir + "/")->empty());
  CHECK(absl::IsNotFound(files.List(dir).status()));
  CHECK(files.RemoveTree(dir).ok());
}

TEST_CASE("more objects than one answer lists are all found", "[.slow]") {
  const S3Server& server = Server();
  if (!server.there()) return;
  S3Store store(Of(server.Variables()));
  ObjectFiles files(store, [](int, const absl::Status&) { return false; });
  const std::string dir = server.path("many");
  constexpr int kMany = 1100;
  for (int i = 0; i < kMany; ++i) {
    REQUIRE(files.WriteAtomic(absl::StrCat(dir, "/", i), "").ok());
  }
  CHECK(files.List(dir)->size() == kMany);
}

TEST_CASE("a refused access to the store is an error with the path and a remedy") {
  const S3Server& server = Server();
  if (!server.there()) return;
  auto variables = server.Variables();
  const auto asked = [&](const std::string& path) {
    S3Store store(Of(variables));
    return store.Put(path, "text", /*if_absent=*/false);
  };
  CHECK(asked(server.path("a")).ok());
  CHECK(absl::IsInvalidArgument(asked("s3://no-such-bucket/a")));
  CHECK(absl::IsInvalidArgument(asked("s3:///a")));
  variables["AWS_SECRET_ACCESS_KEY"] = "wrong";
  const absl::Status refused = asked(server.path("a"));
  CHECK(absl::IsPermissionDenied(refused));
  CHECK(std::string(refused.message())
            .starts_with("s3://bucket/a: PUT is answered by 403 SignatureDoesNotMatch ("));
  CHECK(std::string(S3Store(Of(variables)).Look(server.path("a")).status().message())
            .starts_with("s3://bucket/a: GET is answered by 403 SignatureDoesNotMatch ("));
  variables.erase("AWS_SECRET_ACCESS_KEY");
  variables["HOME"] = "/nowhere";
  CHECK(absl::IsInvalidArgument(asked(server.path("a"))));
  variables = server.Variables();
  variables["AWS_ENDPOINT_URL"] = "http://127.0.0.1:9";
  CHECK(absl::IsUnavailable(asked(server.path("a"))));
}

TEST_CASE("credentials come from a file and a web identity where the environment has none") {
  const S3Server& server = Server();
  if (!server.there()) return;
  const TestDirectory directory;
  auto variables = server.Variables();
  const std::string file = directory.Write(
      "credentials",
      absl::StrCat("[default]\naws_access_key_id = x\n[ job ]\n# of the job\n",
                   "aws_access_key_id=", variables["AWS_ACCESS_KEY_ID"],
                   "\n  aws_secret_access_key = ", variables["AWS_SECRET_ACCESS_KEY"], "\n"));
  std::map<std::string, std::string> by_file = {{"AWS_ENDPOINT_URL", server.endpoint()},
                                                {"AWS_SHARED_CREDENTIALS_FILE", file},
                                                {"AWS_PROFILE", "job"}};
  S3Store store(Of(by_file));
  CHECK(store.Put(server.path("text"), "text", false).ok());

  // A refusal without a text makes the store reload its credentials.
  const std::string rotated = directory / "rotated";
  by_file["AWS_SHARED_CREDENTIALS_FILE"] = rotated;
  const auto write = [&](const std::string& secret) {
    directory.Write("rotated",
                    absl::StrCat("[job]\naws_access_key_id=", variables["AWS_ACCESS_KEY_ID"],
                                 "\naws_secret_access_key=", secret, "\n"));
  };
  write("old");
  S3Store rotating(Of(by_file));
  CHECK(absl::IsPermissionDenied(rotating.Look(server.path("text")).status()));
  write(variables["AWS_SECRET_ACCESS_KEY"]);
  CHECK(rotating.Look(server.path("text")).status() == absl::OkStatus());
  by_file["AWS_SHARED_CREDENTIALS_FILE"] = file;
  by_file["AWS_PROFILE"] = "default";  // a profile without a secret
  S3Store without(Of(by_file));
  CHECK(absl::IsInvalidArgument(without.Put(server.path("a"), "text", false)));

  setenv("INITIAL_NO_AUTH_ACTION_COUNT", "1000", 1);  // the test's own requests are unsigned
  const S3Server tokens;
  unsetenv("INITIAL_NO_AUTH_ACTION_COUNT");
  HttpClient http;
  CredentialSource source(http,
                          Of({{"AWS_ENDPOINT_URL", tokens.endpoint()},
                              {"AWS_WEB_IDENTITY_TOKEN_FILE", directory.Write("token", "a.b.c\n")},
                              {"AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/job"}}),
                          "us-east-1");
  const absl::StatusOr<S3Credentials> found = source.Get();
  INFO(found.status());
  REQUIRE(found.ok());
  CHECK(found->key_id.starts_with("ASIA"));
  CHECK_FALSE(found->secret.empty());
  CHECK_FALSE(found->token.empty());
  CHECK(found->until_s > 1'700'000'000);
  CHECK(source.Get()->key_id == found->key_id);  // cached
}

TEST_CASE("a store that takes a request and says nothing is given up soon, and then less soon") {
  const int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  REQUIRE(bind(deaf, reinterpret_cast<sockaddr*>(&address), size) == 0);
  REQUIRE(listen(deaf, 8) == 0);
  REQUIRE(getsockname(deaf, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  HttpClient http(/*silence_s=*/1, /*silence_max_s=*/2);
  const HttpRequest request{.url = absl::StrCat("http://127.0.0.1:", ntohs(address.sin_port))};
  const auto seconds = [&] {
    const auto begin = std::chrono::steady_clock::now();
    CHECK(absl::IsUnavailable(http.Send(request).status()));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::thread([&] {  // a new thread, because a thread remembers timeouts
    const double first = seconds(), second = seconds(), third = seconds();
    CHECK(first > 0.5);
    CHECK(first < 10);
    CHECK(second > first);
    CHECK(third < 10);
  })
      .join();
  close(deaf);
}

}  // namespace
}  // namespace paracord
