// Runs the S3 server in tests/objects/s3_server.py as a child process of the test.
#pragma once

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "objects/http.h"

namespace paracord {

class S3Server {
 public:
  // A share `share` of requests meets each kind of fault.
  explicit S3Server(double share = 0, int seed = 1) {
    int to[2], from[2];
    if (pipe(to) != 0 || pipe(from) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      dup2(to[0], 0);
      dup2(from[1], 1);
      for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
      if (freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
      execlp("python3", "python3", PARACORD_SOURCE_DIR "/tests/objects/s3_server.py",
             absl::StrCat(share).c_str(), absl::StrCat(seed).c_str(), nullptr);
      _exit(1);
    }
    close(to[0]);
    close(from[1]);
    input_ = to[1];
    FILE* const lines = fdopen(from[0], "r");
    char line[4096] = {};
    if (fgets(line, sizeof line, lines) != nullptr) {
      facts_ = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    }
    fclose(lines);
    if (!there()) WARN("not checked: python3 has no moto (with its server) and boto3 here");
  }
  ~S3Server() {
    if (input_ >= 0) close(input_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  S3Server(const S3Server&) = delete;
  S3Server& operator=(const S3Server&) = delete;

  bool there() const { return facts_.is_object(); }
  std::string endpoint() const { return facts_["endpoint"]; }
  // Returns the environment variables for clients of the server.
  std::map<std::string, std::string> Variables() const {
    return {{"AWS_ENDPOINT_URL", endpoint()},
            {"AWS_ACCESS_KEY_ID", facts_["key_id"]},
            {"AWS_SECRET_ACCESS_KEY", facts_["secret"]}};
  }
  // Returns how many requests met each fault ("": none).
  nlohmann::json Faults() const {
    HttpClient http;
    const auto reply = http.Send({.url = endpoint() + "/faults"});
    return nlohmann::json::parse(reply.ok() ? reply->body : "", nullptr,
                                 /*allow_exceptions=*/false);
  }
  std::string path(const std::string& key) const { return "s3://bucket/" + key; }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
  nlohmann::json facts_;
};

}  // namespace paracord
