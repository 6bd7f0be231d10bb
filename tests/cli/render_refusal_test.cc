// Tests what `paracord render kubernetes` refuses, and that it names the flag or the key.
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "tests/cli/rendered.h"

namespace paracord {
namespace {

TEST_CASE("flags of render that are no names, times or tolerations are refused by name") {
  RenderExample example;
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{"--toleration", "spot"},
                                                {"--toleration", "spot:Never"},
                                                {"--node-selector", "zone"},
                                                {"--ttl", "soon"},
                                                {"--namespace", "A b"},
                                                {"--cpu", "1 2"},
                                                {"--storage", "s3:/x"},
                                                {"--storage", "s3://"},
                                                {"--storage", "s3:///y"},
                                                {"--export", "s3:///m.safetensors"},
                                                {"--storage", "gs://bucket/x"},
                                                {"--data", "Foo_"},
                                                {"--data", "-foo"},
                                                {"--service-account", "a..b"},
                                                {"--queue", "Team"},
                                                {"--workers", "0"},
                                                {"--storage-size", "5Gi"},
                                                {"--storage-class", "fast"},
                                                {"--spot", "--queue", "team"},
                                                {"--ps-kind", "deployment"},
                                                {"--queue", "team", "--ps-kind", "statefulset"}}) {
    const Rendered refused = example.Render(wrong);
    INFO(refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, wrong[wrong.size() > 2 ? 0 : wrong.size() - 2]));
  }
}

TEST_CASE("amounts that Kubernetes or a daemon would refuse are refused by the flag's name") {
  RenderExample example;
  for (const std::string flag :
       {"--cpu", "--ps-cpu", "--memory", "--ps-memory", "--storage-size"}) {
    const std::string what = flag == "--storage-size" ? "storage" : "kubernetes";
    for (const std::string wrong :
         {"lots", "8GB", "-1", "0", "8 Gi", "1e", "Gi", ".", "1e3Gi", "1.2.3", "0x10", "1_000"}) {
      const Rendered refused = example.Render({flag + "=" + wrong}, "Counting Job", what);
      INFO(flag << " " << wrong << ": " << refused.err);
      CHECK(refused.code == 2);
      CHECK(refused.out.empty());
      CHECK(absl::StrContains(refused.err, absl::StrCat(flag, ": ", wrong)));
    }
  }
  CHECK(absl::StrContains(example.Render({"--memory", "8GB"}).err,
                          "8GB is no quantity of Kubernetes: a number, and behind it nothing or"));
  for (const std::string right :
       {"8Gi", "0.5Gi", "8e9", "8E9", "500M", "1E", "+134217728", "128Mi"}) {
    INFO(right);
    CHECK(example.Render({"--memory", right}).code == 0);
    CHECK(example.Render({"--ps-memory", right}).code == 0);
    CHECK(example.Render({"--storage-size", right}, "Counting Job", "storage").code == 0);
  }
  CHECK(example.Render({"--cpu", "500m", "--ps-cpu", "0.5"}).code == 0);
  CHECK(example.Render({"--cpu", "0.0001"}).code == 2);
  // A daemon has a least budget, and a node has two of them.
  CHECK(absl::StrContains(example.Render({"--ps-memory", "127Mi"}).err,
                          "--ps-memory: 127Mi are too few, at least 128.0 MiB are needed"));
  CHECK(absl::StrContains(example.Render({"--ps", "0", "--memory", "255Mi"}).err,
                          "--memory: 255Mi are too few, at least 256.0 MiB are needed"));
  CHECK(absl::StrContains(example.Render({"--memory", "8"}).err, "--memory: 8 bytes are too few"));
  CHECK(example.Render({"--ps", "0", "--memory", "256Mi"}).code == 0);
  CHECK(absl::StrContains(example.Render({"--storage-size=5Gi"}).err,
                          "--storage-size: is a flag of `paracord render storage`"));
}

TEST_CASE("--export to a path that is lost with the pod is refused") {
  RenderExample example;
  for (const std::string lost :
       {"model.safetensors", "/tmp/m.safetensors", "/job", "/job/", "/jobs/m", "/job/../tmp/m",
        "job/m", "gs://bucket/m.safetensors", "/data/m.safetensors"}) {
    const Rendered refused = example.Render({"--export", lost});
    INFO(lost << ": " << refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, absl::StrCat("--export: ", lost)));
  }
  CHECK(absl::StrContains(example.Render({"--export", "/job/out.st"}).err,
                          "/job/out.st: the file is of the format safetensors: call it "
                          "/job/out.safetensors"));
  CHECK(example.Render({"--export", "/job/m.safetensors"}).code == 0);
  CHECK(example.Render({"--export", "/job/a/../m", "--storage", "mine"}).code == 0);
  const Rendered no_claim =
      example.Render({"--storage", "s3://b/run", "--export", "/job/m.safetensors"});
  CHECK(no_claim.code == 2);
  CHECK(absl::StrContains(no_claim.err, "--export: /job/m.safetensors would be gone with the pod"));
}

TEST_CASE(
    "names that would lose letters are refused, and a name that many jobs have is warned of") {
  RenderExample example;
  for (const std::string wrong : {"ÄÖ x", "x.y", "-x", "X", "2nd", ""}) {
    const Rendered refused = example.Render({"--name=" + wrong});
    INFO(wrong << ": " << refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, "--name: "));
  }
  for (const std::string& name : {std::string("ÄÖ x"), std::string(41, 'a'), std::string("###")}) {
    const Rendered refused = example.Render({}, name);
    INFO(name << ": " << refused.err);
    CHECK(refused.code == 2);
    CHECK(absl::StrContains(refused.err, "give --name"));
    CHECK(example.Render({"--name", "mine"}, name).code == 0);
  }
  const Rendered job = example.Render({"--data", "images", "--storage", "mine"}, "job");
  CHECK(job.code == 0);
  CHECK(absl::StrContains(job.err, "warning: all objects are named `job`"));
  CHECK(absl::StrContains(job.err, "--name NAME"));
  CHECK(example.Render({"--data", "images", "--storage", "mine", "--name", "job"}, "job")
            .err.empty());
}

TEST_CASE("render warns of a table without a bound as of whoever holds its rows") {
  RenderExample example(R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "in"}},
    {"class_name": "Embedding", "config": {"name": "e", "input_dim": 9, "output_dim": 2}}]}})");
  const std::vector<std::string> table = {"--set", "tables.e.kind=growing", "--data", "images"};
  CHECK(absl::StrContains(example.Render(table).err, "tables.e.rows_max is missing: a ps whose"));
  std::vector<std::string> nodes = table;
  nodes.insert(nodes.end(), {"--ps", "0"});
  CHECK(absl::StrContains(example.Render(nodes).err,
                          "tables.e.rows_max is missing: a worker whose table outgrows"));
}

TEST_CASE("render refuses another cluster manager and wrong flags, naming them") {
  RenderExample example;
  std::ostringstream out, err;
  CHECK(RunRender(std::vector<std::string>{"slurm", "job.json"}, out, err) == 2);
  CHECK(err.str() == "paracord render: renders kubernetes or storage, not slurm\n");
  CHECK(example.Render({"--name", "No_Name"}).code == 2);
  CHECK(example.Render({"--image", "two words"}).code == 2);
  CHECK(example.Render({}, "###").err.find("give --name") != std::string::npos);
  CHECK(example.Render({"--set", "epoch=1"}).code == 2);
  const Rendered mirrored =
      example.Render({"--ps", "2", "--set", "strategy=multi_worker_mirrored"});
  CHECK(mirrored.code == 2);
  CHECK(absl::StrContains(mirrored.err,
                          "--ps 2: the job's strategy is multi_worker_mirrored, with which workers "
                          "hold the variables: leave --ps out"));
  const Rendered spot = example.Render({"--ps", "0", "--spot"});
  CHECK(absl::StrContains(spot.err, "leave out --spot or --ps 0"));
  CHECK_FALSE(absl::StrContains(spot.err, "--queue"));
  CHECK(absl::StrContains(
      example.Render({"--gpus", "3", "--set", "stages=2", "--set", "accumulate=4"}).err,
      "--gpus 3: the job's `stages` cut the model into 2, each on a GPU of its own: give --gpus 2, "
      "or leave --gpus out for devices of the processor"));
  CHECK(absl::StrContains(example.Render({"--ps", "0", "--ps-cpu", "2"}).err,
                          "--ps-cpu: there are no ps (--ps 0)"));
  CHECK(absl::StrContains(example.Render({"--workers", "3", "--set", "strategy=one_device"}).err,
                          "strategy: is one_device, which is of one worker"));
}

}  // namespace
}  // namespace paracord
