// Tests TF_CONFIG in the forms of TensorFlow and Kubeflow, and the messages about other forms.
#include "config/cluster.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

Cluster Parsed(const std::string& json) {
  INFO(json);
  absl::StatusOr<std::optional<Cluster>> cluster = ParseTfConfig(json);
  INFO(cluster.status().ToString());
  REQUIRE(cluster.ok());
  REQUIRE(cluster->has_value());
  return **cluster;
}

using Workers = std::map<uint32_t, std::string>;

TEST_CASE("no TF_CONFIG means a local run") {
  for (const char* text : {"", "  \n", "{}"}) {
    absl::StatusOr<std::optional<Cluster>> cluster = ParseTfConfig(text);
    REQUIRE(cluster.ok());
    CHECK(!cluster->has_value());
  }
}

TEST_CASE("TensorFlow's own form is read") {
  const Cluster cluster = Parsed(R"({
      "cluster": {"chief": ["host0:2222"], "worker": ["host1:2222", "host2:2222"],
                  "ps": ["host3:2222", "host4:2222"], "evaluator": ["host5:2222"]},
      "task": {"type": "worker", "index": 1},
      "rpc_layer": "grpc", "environment": "cloud", "session_master": "", "job": {"x": 1}})");
  CHECK(cluster.coordinator == "host0:2222");
  CHECK(cluster.ps == std::vector<std::string>{"host3:2222", "host4:2222"});
  CHECK(cluster.workers == Workers{{0, "host1:2222"}, {1, "host2:2222"}});
  CHECK(cluster.evaluators == Workers{{0, "host5:2222"}});
  REQUIRE(cluster.task);
  CHECK(cluster.task->ToString() == "worker:1");
}

TEST_CASE("Kubeflow's TF_CONFIG of a normal job is read") {
  const Cluster cluster =
      Parsed(R"({"cluster":{"evaluator":["J-evaluator-0.ns.svc:2222"],"ps":["J-ps-0.ns.svc:2222"],)"
             R"("worker":["J-worker-0.ns.svc:2222"]},"task":{"type":"ps","index":0},)"
             R"("environment":"cloud"})");
  CHECK(cluster.coordinator.empty());
  CHECK(cluster.ps == std::vector<std::string>{"J-ps-0.ns.svc:2222"});
  CHECK(cluster.evaluators.size() == 1);
  CHECK(cluster.task->ToString() == "ps:0");
}

TEST_CASE("a dynamic worker is told all ps and itself") {
  const Cluster cluster =
      Parsed(R"({"cluster":{"worker":{"2":"J-worker-2:2222"},"ps":["J-ps-0:2222","J-ps-1:2222"]},)"
             R"("task":{"type":"worker","index":2}})");
  CHECK(cluster.workers == Workers{{2, "J-worker-2:2222"}});
  CHECK(cluster.ps.size() == 2);
}

TEST_CASE("a ps of a dynamic cluster stands at its own index with holes before it") {
  for (const char* worker : {R"("worker":{},)", R"("worker":null,)", ""}) {
    const Cluster cluster =
        Parsed(absl::StrCat(R"({"cluster":{)", worker, R"("ps":["J-ps-2:2222"]},)",
                            R"("task":{"type":"ps","index":2}})"));
    CHECK(cluster.ps == std::vector<std::string>{"", "", "J-ps-2:2222"});
  }
}

TEST_CASE("the chief and the evaluator of a dynamic cluster are told nothing") {
  for (const char* type : {"chief", "master", "evaluator"}) {
    const Cluster cluster = Parsed(absl::StrCat(R"({"cluster":{"worker":{},"ps":[]},)",
                                                R"("task":{"type":")", type, R"(","index":0}})"));
    CHECK(cluster.ps.empty());
    CHECK(cluster.coordinator.empty());
    CHECK(cluster.task.has_value());
  }
}

TEST_CASE("a dynamic cluster without ps has a null job") {
  const Cluster cluster =
      Parsed(R"({"cluster":{"worker":{"0":"w:1"},"ps":null},"task":{"type":"worker","index":0}})");
  CHECK(cluster.ps.empty());
}

TEST_CASE("the old name of the dynamic form is read") {
  const Cluster cluster = Parsed(R"({"sparseCluster":{"worker":{"1":"w:1"},"ps":["p:1"]},)"
                                 R"("task":{"type":"worker","index":1}})");
  CHECK(cluster.workers == Workers{{1, "w:1"}});
}

TEST_CASE("an index may be a string, and a map of ps may have holes") {
  const Cluster cluster = Parsed(R"({"cluster":{"ps":{"0":"a:1","2":"b:1"},"worker":{"7":"c:1"}},)"
                                 R"("task":{"type":"ps","index":"2"}})");
  CHECK(cluster.ps == std::vector<std::string>{"a:1", "", "b:1"});
  CHECK(cluster.task->index == 2);
}

TEST_CASE("the coordinator may be called chief, master or coordinator, as list or map") {
  for (const char* name : {"chief", "master", "coordinator"}) {
    CHECK(Parsed(absl::StrCat(R"({"cluster":{")", name, R"(":["h:1"]},"task":{"type":")", name,
                              R"("}})"))
              .coordinator == "h:1");
    CHECK(Parsed(absl::StrCat(R"({"cluster":{")", name, R"(":{"0":"h:1"}}})")).coordinator ==
          "h:1");
  }
  CHECK(Parsed(R"({"cluster":{"chief":[],"master":["h:1"]}})").coordinator == "h:1");
}

TEST_CASE("a file that all tasks share has no task") {
  for (const char* task :
       {"", R"(,"task":{})", R"(,"task":null)", R"(,"task":{"type":null,"index":null})"}) {
    CHECK(!Parsed(absl::StrCat(R"({"cluster":{"ps":["a:1"]})", task, "}")).task);
  }
}

TEST_CASE("an evaluator need not be in the cluster") {
  const Cluster cluster =
      Parsed(R"({"cluster":{"ps":["a:1"]},"task":{"type":"evaluator","index":0}})");
  CHECK(cluster.task->ToString() == "evaluator:0");
}

TEST_CASE("addresses of every kind are taken") {
  for (const char* address :
       {"localhost:2222", "10.0.0.1:1", "a-b_c.example.com:65535", "[::1]:2222",
        "[fe80::1%eth0]:2222", "[2001:db8::8a2e:370:7334]:80", "unix:/tmp/a socket", "h:0"}) {
    CHECK(CheckAddress(address, "listen").ToString() == "OK");
  }
}

TEST_CASE("an address is loopback if it leads every host to itself") {
  for (const char* address :
       {"localhost:1", "LocalHost:1", "localhost.localdomain:1", "a.localhost:1", "127.0.0.1:1",
        "127.9.8.7:1", "[::1]:1", "ip6-localhost:1"}) {
    CAPTURE(address);
    CHECK(IsLoopback(address));
  }
  for (const char* address : {"10.0.0.1:1", "localhosts:1", "my-localhost:1", "[2001:db8::1]:1",
                              "128.0.0.1:1", "127.example.com:1", "unix:/localhost"}) {
    CAPTURE(address);
    CHECK_FALSE(IsLoopback(address));
  }
}

TEST_CASE("a task on another host is found, whatever its role") {
  const auto elsewhere = [](const std::string& jobs) {
    return TaskElsewhere(Parsed(R"({"cluster": {)" + jobs + "}}"));
  };
  CHECK(elsewhere(R"("chief": ["localhost:1"], "ps": ["[::1]:2"], "worker": ["127.0.0.1:3"]
                  )")
            .empty());
  CHECK(elsewhere(R"("ps": ["unix:/a", "localhost:1"])").empty());
  CHECK(elsewhere(R"("chief": ["a:1"], "ps": ["localhost:1"])") == "cluster.chief is a:1");
  CHECK(elsewhere(R"("ps": ["localhost:1", "b:2"])") == "cluster.ps[1] is b:2");
  CHECK(elsewhere(R"("ps": ["localhost:1"], "worker": {"3": "c:2"})") ==
        "cluster.worker[3] is c:2");
}

TEST_CASE("a malformed address is named with its key") {
  for (const std::string& address : std::vector<std::string>{"",
                                                             "host",
                                                             "host:",
                                                             ":2222",
                                                             "host:port",
                                                             "host:-1",
                                                             "host:+1",
                                                             "host:65536",
                                                             "host:99999999999",
                                                             "host: 1",
                                                             "host:1 ",
                                                             "ho st:1",
                                                             "::1:2222",
                                                             "[::1]",
                                                             "[::1:2222",
                                                             "::1]:2222",
                                                             "[]:2222",
                                                             "[::g]:2222",
                                                             "[::1%]:2222",
                                                             "[1.2.3.4]:1",
                                                             "grpc://host:1",
                                                             "a:1,b:1",
                                                             "unix:",
                                                             "unix:relative",
                                                             "unix:/" + std::string(107, 'x'),
                                                             std::string("unix:/a\0b", 9),
                                                             std::string(254, 'x') + ":1",
                                                             "h\xc3\xa9:1",
                                                             "host/x:1",
                                                             "host:1/"}) {
    INFO(address);
    const absl::Status status = CheckAddress(address, "listen");
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StartsWith(status.message(), "listen: "));
  }
}

TEST_CASE("a list with one address twice is refused, and both are named") {
  CHECK(CheckAddresses({"a:1", "a:2", "b:1"}, "--ps").ok());
  CHECK(CheckAddresses({"a:1", "b:1", "a:1"}, "--ps").message() ==
        "--ps[2]: \"a:1\" is the address of `--ps[0]` too");
  CHECK(absl::StartsWith(CheckAddresses({"a:1", "b"}, "--ps").message(), "--ps[1]: "));
}

struct BadConfig {
  const char* json;
  const char* expected;  // part of the message
};

const BadConfig kBadConfigs[] = {
    {"{", "parse error at line 1"},
    {"nonsense", "parse error"},
    {"{\"cluster\":{\"ps\":[\"\xff:1\"]}}", "parse error"},
    {"[]", "must be an object with the keys cluster and task, is []"},
    {"null", "must be an object"},
    {"3", "must be an object"},
    {R"("text")", "must be an object"},
    {R"({"cluster":{},"cluster":{}})", "cluster: the key occurs twice"},
    {R"({"cluster":{"ps":[],"ps":[]}})", "cluster.ps: the key occurs twice"},
    {R"({"task":{"type":"ps","index":0}})", "cluster: is missing"},
    {R"({"clusters":{"ps":["a:1"]}})", "did you mean `cluster`"},
    {R"({"cluster":null})", "cluster: must be an object of jobs (worker, ps, chief), is null"},
    {R"({"cluster":[]})", "cluster: must be an object"},
    {R"({"cluster":"a:1"})", "cluster: must be an object"},
    {R"({"cluster":{"workers":["a:1"]}})", "cluster.workers: unknown key; did you mean `worker`"},
    {R"({"cluster":{"PS":["a:1"]}})", "cluster.PS: unknown key; did you mean `ps`"},
    {R"({"cluster":{"local":["a:1"]}})", "cluster.local: unknown key"},
    {R"({"cluster":{"ps":"a:1"}})", "cluster.ps: must be a list or an object"},
    {R"({"cluster":{"ps":1}})", "cluster.ps: must be a list or an object"},
    {R"({"cluster":{"ps":true}})", "cluster.ps: must be a list or an object"},
    {R"({"cluster":{"ps":[1]}})", "cluster.ps[0]: must be an address"},
    {R"({"cluster":{"ps":[null]}})", "cluster.ps[0]: must be an address"},
    {R"({"cluster":{"ps":[["a:1"]]}})", "cluster.ps[0]: must be an address"},
    {R"({"cluster":{"worker":["a:1",{}]}})", "cluster.worker[1]: must be an address"},
    {R"({"cluster":{"worker":{"0":1}}})", "cluster.worker.0: must be an address"},
    {R"({"cluster":{"worker":{"0":null}}})", "cluster.worker.0: must be an address"},
    {R"({"cluster":{"worker":{"one":"a:1"}}})", "cluster.worker.one: must be an index"},
    {R"({"cluster":{"worker":{"":"a:1"}}})", "cluster.worker.: must be an index"},
    {R"({"cluster":{"worker":{"-1":"a:1"}}})", "cluster.worker.-1: must be an index"},
    {R"({"cluster":{"worker":{"1.0":"a:1"}}})", "cluster.worker.1.0: must be an index"},
    {R"({"cluster":{"worker":{" 1":"a:1"}}})", "cluster.worker. 1: must be an index"},
    {R"({"cluster":{"worker":{"65536":"a:1"}}})", "cluster.worker.65536: must be an index"},
    {R"({"cluster":{"ps":{"99999999999999999999":"a:1"}}})", "must be an index"},
    {R"({"cluster":{"worker":{"1":"a:1","01":"b:1"}}})", "has the same index"},
    {R"({"cluster":{"ps":["a"]}})", "cluster.ps[0]: \"a\" has no port"},
    {R"({"cluster":{"ps":["a:b"]}})", "cluster.ps[0]: \"a:b\" has a port that is not a number"},
    {R"({"cluster":{"ps":["a:70000"]}})", "cluster.ps[0]: \"a:70000\" has a port"},
    {R"({"cluster":{"ps":["a:0"]}})", "cluster.ps[0]: \"a:0\" has port 0"},
    {R"({"cluster":{"ps":[""]}})", "cluster.ps[0]: \"\" is empty"},
    {R"({"cluster":{"ps":[":1"]}})", "cluster.ps[0]: \":1\" has no host"},
    {R"({"cluster":{"ps":["grpc://a:1"]}})", "without a scheme"},
    {R"({"cluster":{"ps":["a:1,b:1"]}})", "must be one address"},
    {R"({"cluster":{"ps":["::1:22"]}})", "write IPv6 as [address]:port"},
    {R"({"cluster":{"ps":["unix:x"]}})", "cluster.ps[0]: \"unix:x\" needs an absolute path"},
    {R"({"cluster":{"ps":["a:1","a:1"]}})",
     "cluster.ps[1]: \"a:1\" is the address of `cluster.ps[0]` too"},
    {R"({"cluster":{"ps":["a:1"],"worker":{"3":"a:1"}}})",
     "cluster.ps[0]: \"a:1\" is the address of `cluster.worker.3` too"},
    {R"({"cluster":{"chief":["a:1"],"master":["b:1"]}})",
     "cluster.master: `cluster.chief` names the coordinator too"},
    {R"({"cluster":{"chief":["a:1","b:1"]}})", "cluster.chief[1]: there is one coordinator"},
    {R"({"cluster":{"chief":{"1":"a:1"}}})", "cluster.chief.1: there is one coordinator"},
    {R"({"cluster":{"ps":["a:1"]},"task":"ps"})", "task: must be an object"},
    {R"({"cluster":{"ps":["a:1"]},"task":[]})", "task: must be an object"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"index":0}})", "task.type: is missing"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps"}})", "task.index: is missing"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":0,"index":0}})", "task.type: is 0"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":["ps"],"index":0}})", "task.type: is [\"ps\"]"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"","index":0}})", "task.type: is \"\""},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"worke","index":0}})", "did you mean `worker`"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":-1}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":0.0}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":"x"}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":""}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":[0]}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":true}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"ps","index":1e30}})", "task.index: must be"},
    {R"({"cluster":{"ps":["a:1","b:1"]},"task":{"type":"ps","index":2}})",
     "task: is ps:2, but `cluster.ps` has no index 2"},
    {R"({"cluster":{"ps":["a:1"],"worker":["b:1"]},"task":{"type":"ps","index":1}})",
     "task: is ps:1, but `cluster.ps` has no index 1"},
    {R"({"cluster":{"ps":["a:1"]},"task":{"type":"worker","index":0}})",
     "task: is worker:0, but `cluster.worker` has no index 0"},
    {R"({"cluster":{"chief":["a:1"]},"task":{"type":"chief","index":1}})",
     "task.index: is 1, but there is one coordinator"},
    {R"({"cluster":{"ps":["a:1"]},"rpc_layer":"grpc+verbs"})", "rpc_layer: is \"grpc+verbs\""},
    {R"({"cluster":{"ps":["a:1"]},"rpc_layer":1})", "rpc_layer: is 1"},
    {R"({"cluster":{"ps":[]},"sparseCluster":{"ps":[]}})", "sparseCluster: `cluster` is there"},
};

TEST_CASE("every malformed TF_CONFIG gives an error that names the key") {
  for (const BadConfig& bad : kBadConfigs) {
    INFO(bad.json);
    const absl::Status status = ParseTfConfig(bad.json).status();
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(status.message(), bad.expected));
  }
}

TEST_CASE("all problems of a TF_CONFIG are reported at once") {
  const absl::Status status =
      ParseTfConfig(R"({"cluster":{"ps":["a"],"worker":[1]},"task":{"type":"x"}})").status();
  for (const char* key : {"cluster.ps[0]:", "cluster.worker[0]:", "task.type:"}) {
    CHECK(absl::StrContains(status.message(), key));
  }
}

TEST_CASE("a TF_CONFIG that is too large, too deep or of too many tasks is refused") {
  CHECK(!ParseTfConfig(std::string((1 << 20) + 1, ' ') + "{}").ok());
  const std::string deep = R"({"x":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
  CHECK(absl::StrContains(ParseTfConfig(deep).status().message(), "deeper"));
  std::string tasks = "\"a:1\"";
  for (int i = 1; i <= 4096; ++i) absl::StrAppend(&tasks, ",\"h", i, ":1\"");
  CHECK(absl::StrContains(
      ParseTfConfig(R"({"cluster":{"worker":[)" + tasks + "]}}").status().message(), "4096"));
}

TEST_CASE("a task is written as role and index") {
  CHECK(ParseTask("worker:1")->ToString() == "worker:1");
  CHECK(ParseTask("ps:0")->ToString() == "ps:0");
  CHECK(ParseTask("chief")->ToString() == "coordinator:0");
  CHECK(ParseTask("coordinator:0")->ToString() == "coordinator:0");
  CHECK(ParseTask("evaluator")->ToString() == "evaluator:0");
  for (const char* bad : {"", "ps", "worker", ":1", "ps:", "ps:x", "ps:-1", "ps:1:2", "chief:1",
                          "wrker:1", "ps:99999999999", "PS:0", "ps: 0"}) {
    INFO(bad);
    CHECK(absl::StartsWith(ParseTask(bad).status().message(), "task: "));
  }
}

}  // namespace
}  // namespace paracord
