// Tests where a daemon finds its cluster, and how it reports problems.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>

#include "daemon/daemon_process.h"
#include "spdlog/sinks/ringbuffer_sink.h"
#include "spdlog/spdlog.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

TEST_CASE("what is wrong with a cluster begins with the file, or TF_CONFIG, that says it") {
  const TestDirectory directory;
  PosixFiles files;
  DaemonFlags flags;
  const bool in_file = GENERATE(true, false);
  const std::string from = in_file ? directory / "cluster.json" : std::string("TF_CONFIG");
  struct Case {
    std::string json, lines;  // beginnings of each, after `from`
  };
  for (const Case& c : {Case{"{", "parse error"}, Case{"[]", "must be an object"},
                        Case{R"({"cluster": {"ps": [3]}})", "cluster.ps[0]"}}) {
    CAPTURE(c.json);
    if (in_file) {
      flags.cluster_file = from;
      REQUIRE(files.WriteAtomic(from, c.json).ok());
    } else {
      setenv("TF_CONFIG", c.json.c_str(), 1);
    }
    const absl::Status found = FindCluster(flags).status();
    unsetenv("TF_CONFIG");
    INFO(std::string(found.message()));
    CHECK(absl::IsInvalidArgument(found));
    CHECK(std::string(found.message()).starts_with(from + ": " + c.lines));
  }
}

TEST_CASE("a task whose own address is loopback is warned that other hosts cannot reach it") {
  const auto before = spdlog::default_logger();
  const auto sink = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(16);
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink));
  Cluster cluster;
  cluster.coordinator = "localhost:7400";
  cluster.ps = {"localhost:7401"};
  const auto warned = [&] {
    const size_t said = sink->last_formatted().size();
    WarnOfOwnLoopback(Logger("ps:0"), "ps:0", "cluster.ps[0]", cluster.ps[0], cluster);
    return sink->last_formatted().size() > said;
  };
  CHECK_FALSE(warned());
  cluster.coordinator = "192.0.2.10:7400";
  CHECK(warned());
  CHECK(sink->last_formatted().back().find("--listen 0.0.0.0:7401") != std::string::npos);
  cluster.ps = {"192.0.2.11:7401"};
  CHECK_FALSE(warned());
  spdlog::set_default_logger(before);
}

TEST_CASE("an address to listen at that is none is refused by name") {
  for (const char* listen : {"127.0.0.1:80000", "127.0.0.1:", "unix:", "7400"}) {
    CAPTURE(listen);
    DaemonFlags flags;
    flags.task = "ps:0";
    flags.listen = listen;
    const absl::Status found = FindCluster(flags).status();
    CHECK(absl::IsInvalidArgument(found));
    CHECK(std::string(found.message()).starts_with("--listen: "));
    flags.listen = "127.0.0.1:0";
    CHECK(FindCluster(flags).ok());
  }
}

TEST_CASE("what HTTP shows stays on this machine without a certificate or --insecure") {
  SecurityOptions plain, insecure, tls, token;
  insecure.insecure = true;
  tls.cert = "task.crt";
  token.ca = "ca.crt";
  token.token_file = "token";
  for (const std::string own :
       {"", "127.0.0.1:0", "localhost:80", "[::1]:80", "unix:/tmp/socket"}) {
    INFO(own);
    for (const SecurityOptions& security : {plain, insecure, tls, token}) {
      CHECK(CheckHttp(own, security).ok());
      CHECK_FALSE(ServesHttps(own, security));
    }
  }
  for (const std::string others : {"0.0.0.0:80", "10.0.0.1:80", "[::]:80", "host.example:80"}) {
    INFO(others);
    CHECK(CheckHttp(others, insecure).ok());
    CHECK_FALSE(ServesHttps(others, insecure));
    CHECK(CheckHttp(others, tls).ok());
    CHECK(ServesHttps(others, tls));
    for (const SecurityOptions& security : {plain, token}) {
      const std::string said(CheckHttp(others, security).message());
      CHECK(said.starts_with("--http " + others + ": "));
      CHECK(said.find("--tls-cert") != std::string::npos);
      CHECK(said.find("127.0.0.1:80") != std::string::npos);
      CHECK(said.find("--insecure") != std::string::npos);
    }
  }
  CHECK(std::string(CheckHttp("nothing", insecure).message()).find("--http") != std::string::npos);
}

TEST_CASE("each of several problems of a cluster begins with where it is") {
  const TestDirectory directory;
  PosixFiles files;
  DaemonFlags flags;
  flags.cluster_file = directory / "cluster.json";
  REQUIRE(files.WriteAtomic(flags.cluster_file, R"({"cluster": {"ps": [3, 4]}})").ok());
  const std::string message(FindCluster(flags).status().message());
  INFO(message);
  CHECK(message.find("\n" + flags.cluster_file + ": cluster.ps[1]") != std::string::npos);
}

}  // namespace
}  // namespace paracord
