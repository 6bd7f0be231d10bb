// Tests `paracord render kubernetes`. The product's parser must understand the cluster in rendered
// manifests and in those for kustomize.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/manifests.h"
#include "common/files.h"
#include "config/cluster.h"
#include "config/nodes.h"
#include "config/strategy.h"
#include "nlohmann/json.hpp"
#include "tests/cli/rendered.h"

namespace paracord {
namespace {

// Returns a value of a ConfigMap, which is an indented block.
nlohmann::json BlockOf(const std::string& yaml, const std::string& key) {
  std::string text;
  bool inside = false;
  for (const absl::string_view line : absl::StrSplit(yaml, '\n')) {
    if (inside && !absl::StartsWith(line, "    ")) break;
    if (inside) absl::StrAppend(&text, line, "\n");
    if (line == absl::StrCat("  ", key, ": |")) inside = true;
  }
  return nlohmann::json::parse(text);
}

TEST_CASE(
    "rendered manifests have the numbers of replicas, the image, and the place of the "
    "checkpoints") {
  RenderExample example;
  const Rendered plain = example.Render(
      {"--ps", "3", "--workers", "16", "--image", "r.io/p:2", "--ps-kind", "statefulset"});
  INFO(plain.err);
  REQUIRE(plain.code == 0);
  CHECK(plain.has("\n  replicas: 3\n"));
  CHECK(plain.has("\n  parallelism: 16\n"));
  CHECK(plain.has("        image: r.io/p:2\n"));
  CHECK(plain.has("        - --dir=/job/counting-job\n"));
  CHECK(plain.has("        persistentVolumeClaim: {claimName: counting-job}\n"));
  CHECK(plain.has("  ttlSecondsAfterFinished: 604800\n"));
  CHECK_FALSE(example.Render({"--ttl", "never"}).has("ttlSecondsAfterFinished"));
  CHECK_FALSE(plain.has("nvidia.com/gpu"));
  CHECK_FALSE(plain.has("--allow-programs"));
  CHECK_FALSE(plain.has("# render"));
  CHECK_FALSE(plain.has("fashion-mnist"));

  const Rendered claim = example.Render({"--storage", "mine", "--data", "images", "--gpus", "2"});
  REQUIRE(claim.code == 0);
  CHECK(claim.has("        persistentVolumeClaim: {claimName: mine}\n"));
  CHECK(claim.has("            nvidia.com/gpu: 2\n"));
  CHECK(claim.has("        - {name: data, mountPath: /data, readOnly: true}\n"));
  CHECK(
      claim.has("      - name: data\n"
                "        persistentVolumeClaim: {claimName: images, readOnly: true}\n"));

  const Rendered programs = example.Render({"--allow-programs"});
  REQUIRE(programs.code == 0);
  CHECK(programs.has("        - --threads=$(CPUS)\n        - --allow-programs\n        env:\n"));

  const Rendered tls = example.Render({"--tls", "--data", "images"});
  REQUIRE(tls.code == 0);
  CHECK_FALSE(tls.has("--insecure"));
  for (const std::string role : {"coordinator", "ps", "worker"}) {
    CHECK(tls.has("secret: {secretName: counting-job-" + role + "-tls, defaultMode: 0440}"));
  }
  constexpr char kAlone[] = "  # the network policies alone keep strangers away\n";
  CHECK(plain.has(absl::StrCat("        - --insecure", kAlone, "        - --task=ps  ")));
  CHECK_FALSE(tls.has(kAlone));
  CHECK(
      tls.has("        - --tls-cert=/tls/tls.crt\n        - --tls-key=/tls/tls.key\n"
              "        - --tls-ca=/tls/ca.crt\n        - --task=ps  "));
  CHECK(
      tls.has("        - {name: data, mountPath: /data, readOnly: true}\n"
              "        - {name: tls, mountPath: /tls, readOnly: true}\n"));
  CHECK_FALSE(tls.has("[paracord, health, \""));
  CHECK_FALSE(tls.has("[paracord, health, --ready"));
  CHECK_FALSE(plain.has("--tls-"));

  const Rendered url = example.Render({"--storage", "s3://bucket/runs/1"});
  REQUIRE(url.code == 0);
  CHECK(url.has("        - --dir=s3://bucket/runs/1\n"));
  CHECK(url.has("      - name: job\n        emptyDir: {}\n"));
  CHECK_FALSE(url.has("claimName"));
}

TEST_CASE("flags of render say where pods run, by whom, and with how much") {
  RenderExample example;
  const Rendered all = example.Render({"--namespace",
                                       "ml",
                                       "--service-account",
                                       "trainer",
                                       "--image-pull-secret",
                                       "registry",
                                       "--priority-class",
                                       "low",
                                       "--toleration",
                                       "pool=gpu:NoSchedule",
                                       "--toleration",
                                       "spot:NoExecute",
                                       "--node-selector",
                                       "zone=a",
                                       "--cpu",
                                       "4",
                                       "--memory",
                                       "8Gi",
                                       "--ps-cpu",
                                       "2",
                                       "--ps-memory",
                                       "16Gi",
                                       "--ttl",
                                       "12h",
                                       "--http",
                                       "--gpus",
                                       "2"});
  INFO(all.err);
  REQUIRE(all.code == 0);
  CHECK(
      all.has("      serviceAccountName: trainer\n      priorityClassName: low\n"
              "      imagePullSecrets: [{name: registry}]\n      nodeSelector:\n"
              "        \"zone\": \"a\"\n      automountServiceAccountToken: false\n"));
  CHECK(
      all.has("- {key: \"pool\", operator: Equal, value: \"gpu\", effect: NoSchedule}\n"
              "      - {key: \"spot\", operator: Exists, effect: NoExecute}\n"));
  CHECK(all.has("- {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}\n"));
  CHECK(
      all.has("            cpu: \"4\"\n            memory: 8Gi\n          limits:\n"
              "            memory: 8Gi\n            nvidia.com/gpu: 2\n"));
  CHECK(all.has("          requests: {cpu: 2, memory: 16Gi}\n          limits: {memory: 16Gi}\n"));
  CHECK(all.has("  ttlSecondsAfterFinished: 43200\n"));
  CHECK(all.has("        - --http=0.0.0.0:7480\n"));
  CHECK(all.has("        - --device=cuda:all\n"));
  CHECK(all.has("-cuda\n        command: [paracord-worker]\n"));
  const std::vector<std::string> objects = absl::StrSplit(all.out, "\n---\n");
  for (const std::string& object : objects) {
    CHECK(absl::StrContains(object, "\nmetadata:\n  namespace: ml\n  name: counting-job"));
  }
  CHECK(example.Render({"--gpus", "1"}).has("        - --device=cuda:0\n"));
}

TEST_CASE("the claim is apart from the objects of a job, so that it outlives them") {
  RenderExample example;
  const Rendered objects = example.Render({"--data", "images", "--name", "mine"});
  CHECK_FALSE(objects.has("kind: PersistentVolumeClaim\n"));
  CHECK(objects.has("        persistentVolumeClaim: {claimName: mine}\n"));
  CHECK(absl::StrContains(objects.err, "wait for the claim mine,"));
  CHECK(absl::StrContains(objects.err, "paracord render storage --name mine "));
  CHECK(example.Render({"--data", "images", "--storage", "mine"}).err.empty());
  const Rendered claim =
      example.Render({"--storage-size", "50Gi", "--storage-class", "fast", "--namespace", "ml"},
                     "Counting Job", "storage");
  INFO(claim.err);
  REQUIRE(claim.code == 0);
  CHECK(claim.has("kind: PersistentVolumeClaim\nmetadata:\n  namespace: ml\n"));
  CHECK(claim.has("  name: counting-job\n"));
  CHECK(claim.has("  storageClassName: fast\n  resources: {requests: {storage: 50Gi}}\n"));
  CHECK_FALSE(claim.has("render: "));
  CHECK_FALSE(claim.has("\n---\n"));
  const Rendered plain = example.Render({}, "Counting Job", "storage");
  CHECK(plain.has("  resources: {requests: {storage: 10Gi}}\n"));
  CHECK_FALSE(plain.has("storageClassName"));
  CHECK(example.Render({}, "###", "storage").code == 2);
}

TEST_CASE("--spot has workers on nodes that may vanish, as many as there is work for") {
  RenderExample example;
  const Rendered spot = example.Render({"--spot", "--workers", "3"});
  INFO(spot.err);
  REQUIRE(spot.code == 0);
  CHECK(
      spot.has("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: counting-job-worker\n"));
  CHECK(spot.has("kind: HorizontalPodAutoscaler\n"));
  CHECK(spot.has("  minReplicas: 3\n  maxReplicas: 12\n"));
  CHECK_FALSE(spot.has("  replicas: "));  // which each `kubectl apply` would set again
  CHECK(absl::StrContains(spot.err, "the autoscaler needs metrics-server in the cluster"));
  CHECK(spot.has("      - {key: cloud.google.com/gke-spot, operator: Exists}\n"));
  CHECK(spot.has("{key: eks.amazonaws.com/capacityType, operator: NotIn, values: [SPOT]}"));
  CHECK_FALSE(spot.has("render: "));
  CHECK_FALSE(example.Render({}).has("eks.amazonaws.com"));
  CHECK(example.Render({"--spot", "--ps", "0"}).code == 2);

  const Rendered gpus = example.Render({"--spot", "--workers", "3", "--gpus", "1"});
  REQUIRE(gpus.code == 0);
  CHECK_FALSE(gpus.has("kind: HorizontalPodAutoscaler\n"));
  CHECK(gpus.has("kind: Deployment\n"));
  CHECK(gpus.has("  replicas: 3\n  selector:\n"));
  CHECK(absl::StrContains(gpus.err, "--spot with --gpus has no autoscaler"));
}

TEST_CASE("the ps are an Indexed Job that ends with the job, which a queue may hold") {
  RenderExample example;
  const Rendered set = example.Render({"--ps", "3", "--ps-kind", "statefulset"});
  CHECK(set.has("kind: StatefulSet\n"));
  CHECK(set.has("  maxUnavailable: 1\n"));
  CHECK(set.has("        - --stay"));
  CHECK_FALSE(set.has("suspend"));
  CHECK_FALSE(set.has("render: "));

  const Rendered job = example.Render({"--ps", "3", "--queue", "team"});
  INFO(job.err);
  REQUIRE(job.code == 0);
  CHECK_FALSE(job.has("StatefulSet"));
  CHECK_FALSE(job.has("--stay"));
  CHECK_FALSE(job.has("replicas"));
  CHECK_FALSE(job.has("podManagementPolicy"));
  CHECK_FALSE(job.has("render: "));
  CHECK(job.has("  minAvailable: 2\n"));
  CHECK(job.has("  completions: 3\n  parallelism: 3\n  completionMode: Indexed"));
  CHECK(job.has("      restartPolicy: Never\n      subdomain: counting-job-ps\n"));
  size_t queued = 0;
  const std::vector<std::string> objects = absl::StrSplit(job.out, "\n---\n");
  for (const std::string& object : objects) {
    const bool is_job = absl::StrContains(object, "\nkind: Job\n");
    queued += is_job ? 1 : 0;
    CHECK(absl::StrContains(object, "kueue.x-k8s.io/queue-name: team}") == is_job);
    CHECK(absl::StrContains(object, "\n  suspend: true") == is_job);
  }
  CHECK(queued == 3);
}

TEST_CASE("without ps the workers are a StatefulSet of nodes, of which the first is coordinator") {
  RenderExample example;
  const Rendered nodes = example.Render(
      {"--ps", "0", "--workers", "3", "--http", "--cpu", "4", "--ps-kind", "statefulset"});
  INFO(nodes.err);
  REQUIRE(nodes.code == 0);
  CHECK_FALSE(nodes.has("# render"));
  CHECK_FALSE(nodes.has("fashion-mnist"));
  CHECK_FALSE(nodes.has("kind: Job\n"));
  CHECK_FALSE(nodes.has("counting-job-ps"));
  CHECK(nodes.has("kind: StatefulSet\nmetadata:\n  name: counting-job-worker\n"));
  CHECK(nodes.has("\n  replicas: 3\n"));
  CHECK(nodes.has("        - --job=/etc/paracord/job.json  # for worker 0\n"));
  CHECK(nodes.has("        - --http=0.0.0.0:7480\n"));
  CHECK(nodes.has("            cpu: \"4\"\n"));
  CHECK(nodes.has("  name: counting-job-coordinator\n"));
  CHECK(nodes.has("    statefulset.kubernetes.io/pod-name: counting-job-worker-0\n"));
  const auto cluster = ParseTfConfig(BlockOf(nodes.out, "cluster.json").dump());
  REQUIRE(cluster.ok());
  CHECK(PsAddressesOf(**cluster)->size() == 3);
  for (uint32_t i = 0; i < 3; ++i) {  // a pod finds its task by its host name
    CHECK(NodeOnHost(**cluster, absl::StrCat("counting-job-worker-", i)) == i);
  }
  CHECK(CoordinatorOf(**cluster) == "counting-job-worker-0.counting-job-worker:7400");
  const nlohmann::json job = BlockOf(nodes.out, "job.json");
  // Which strategy it has is the cluster's choice, and no word of the job file: the coordinator
  // chooses again, and a directory that holds the job goes on as it is.
  for (const char* key : {"strategy", "consistency", "recovery"}) CHECK_FALSE(job.contains(key));

  const Rendered named = example.Render({"--set", "strategy=multi_worker_mirrored", "--tls"});
  INFO(named.err);
  REQUIRE(named.code == 0);  // --ps defaults as in `paracord train`
  CHECK(named.has("secret: {secretName: counting-job-worker-tls, defaultMode: 0440}"));
  CHECK_FALSE(named.has("counting-job-coordinator-tls"));
  CHECK_FALSE(named.has("--insecure"));
  CHECK(BlockOf(named.out, "job.json")["strategy"] == "multi_worker_mirrored");
  const Rendered staged =
      example.Render({"--ps", "0", "--set", "stages=2", "--set", "accumulate=4"});
  CHECK(absl::StrContains(staged.out, "- --device=cpu:2\n"));
  const Rendered on_gpus =
      example.Render({"--ps", "0", "--gpus", "2", "--set", "stages=2", "--set", "accumulate=4"});
  CHECK(absl::StrContains(on_gpus.out, "- --device=cuda:all\n"));
  const Rendered async = example.Render({"--ps", "0", "--set", "consistency=async"});
  REQUIRE(async.code == 0);
  CHECK(BlockOf(async.out, "job.json")["consistency"] == "async");
}

TEST_CASE("a rendered job leaves to the next cluster what only its cluster decided") {
  RenderExample example;
  const TestDirectory pod;
  PosixFiles files;
  const auto in = [&](const std::vector<std::string>& flags, const ClusterShape& other) {
    const Rendered rendered = example.Render(flags);
    INFO(rendered.err);
    REQUIRE(rendered.code == 0);
    pod.Write("model.json", kRenderedModel);
    const std::string path = pod.Write("job.json", BlockOf(rendered.out, "job.json").dump());
    const auto read = [&](std::span<const std::string> settings) {
      return ReadJobFile(files, path, settings);
    };
    const absl::StatusOr<JobInCluster> job = ReadJobIn(other, {}, read);
    REQUIRE(job.ok());
    return std::pair(job->strategy.name, job->job.guarantees.consistency);
  };
  const ClusterShape nodes{.ps = 0, .workers = 3}, with_ps{.ps = 2, .workers = 3};
  using Way = std::pair<std::string, std::string>;
  CHECK(in({"--ps", "2"}, nodes) == Way("multi_worker_mirrored", "sync"));
  CHECK(in({"--ps", "0"}, with_ps) == Way("parameter_server", "async"));
  CHECK(in({"--ps", "2", "--set", "consistency=sync"}, with_ps) == Way("parameter_server", "sync"));
  const Rendered misfit = example.Render({"--ps", "2", "--set", "round_batches=4"});
  CHECK(misfit.code == 2);
  CHECK(absl::StrContains(misfit.err, "round_batches: is of jobs with rounds"));
}

TEST_CASE("an example's objects are named by its job, and not by its file") {
  const std::string job = std::string(PARACORD_SOURCE_DIR) + "/examples/recommender/job.json";
  std::ostringstream out, err;
  CHECK(RunRender(std::vector<std::string>{"kubernetes", job}, out, err) == 0);
  CHECK(absl::StrContains(out.str(), "name: recommender-coordinator\n"));
  CHECK_FALSE(absl::StrContains(err.str(), "all objects are named `job`"));
}

TEST_CASE("nodes as an Indexed Job end with the job, and keep to a queue") {
  RenderExample example;
  const Rendered job = example.Render({"--ps", "0", "--workers", "3", "--queue", "team"});
  INFO(job.err);
  REQUIRE(job.code == 0);
  CHECK_FALSE(job.has("StatefulSet\n"));
  CHECK_FALSE(job.has("--stay"));
  CHECK_FALSE(job.has("statefulset.kubernetes.io"));
  CHECK(job.has("    batch.kubernetes.io/job-completion-index: \"0\"\n"));
  CHECK(job.has("kind: Job\nmetadata:\n  name: counting-job-worker\n"));
  CHECK(job.has("  completions: 3\n  parallelism: 3\n  completionMode: Indexed"));
  CHECK(job.has("onExitCodes: {containerName: worker, operator: In, values: [1, 2, 4, 5, 6]}"));
  CHECK(job.has("      restartPolicy: Never\n      subdomain: counting-job-worker\n"));
  CHECK(job.has("  minAvailable: 2\n"));
  CHECK(job.has("kueue.x-k8s.io/queue-name: team}"));
}

TEST_CASE("--monitoring shows the metrics of all daemons to the Prometheus operator") {
  RenderExample example;
  const auto count = [](const Rendered& rendered, const std::string& text) {
    return std::vector<std::string>(absl::StrSplit(rendered.out, text)).size() - 1;
  };
  const Rendered plain = example.Render({"--monitoring"});
  CHECK(count(plain, "- --http=0.0.0.0:7480\n") == 3);
  CHECK(count(plain, "{name: http, containerPort: 7480}") == 3);
  CHECK(count(plain, "{name: http, port: 7480}") == 2);  // two Services
  CHECK(plain.has("kind: PodMonitor\nmetadata:\n  name: counting-job-worker\n"));
  CHECK(plain.has("  name: counting-job-monitoring\n"));
  CHECK_FALSE(plain.has("scheme: https"));
  const Rendered tls = example.Render({"--monitoring", "--tls", "--http"});
  CHECK(count(tls, "- --http=0.0.0.0:7480\n") == 3);
  CHECK(count(tls,
              "    scheme: https\n    tlsConfig: {serverName: counting-job, ca: {secret: "
              "{name: counting-job-coordinator-tls, key: ca.crt}}}\n") == 2);
  CHECK(count(example.Render({"--http"}), "7480") == 2);
  const Rendered nodes = example.Render({"--monitoring", "--ps", "0", "--tls"});
  CHECK_FALSE(nodes.has("kind: ServiceMonitor\n"));  // a ServiceMonitor would scrape the pods twice
  CHECK(nodes.has("kind: PodMonitor\nmetadata:\n  name: counting-job-worker\n"));
  CHECK(nodes.has("{name: counting-job-worker-tls, key: ca.crt}"));
}

TEST_CASE("--export adds a Job that writes the variables once the job is done") {
  RenderExample example;
  const Rendered to_store = example.Render({"--export", "s3://b/model.safetensors", "--storage",
                                            "s3://b/run", "--tls", "--data", "images"});
  INFO(to_store.err);
  REQUIRE(to_store.code == 0);
  CHECK(to_store.has("  name: counting-job-export\n"));
  CHECK(
      to_store.has("        command: [paracord, export, --when-done]\n        args:\n"
                   "        - --dir=s3://b/run\n        - --out=s3://b/model.safetensors\n"));
  CHECK_FALSE(to_store.has("counting-job-export-tls"));
  // A job that failed ends the export as well, which a restart would not.
  const std::string exports =
      to_store.out.substr(to_store.out.find("  name: counting-job-export\n"));
  CHECK(absl::StrContains(exports,
                          "    - action: FailJob\n      onExitCodes: {containerName: export, "
                          "operator: In, values: [1, 2]}\n"));
  CHECK(absl::StrContains(exports, "      restartPolicy: Never\n"));
  CHECK(to_store.has("tolerationSeconds: 30}\n      automountServiceAccountToken: false\n"));
  CHECK_FALSE(example.Render({}).has("counting-job-export"));
}

TEST_CASE("render warns of what the pods will lack") {
  RenderExample example;
  CHECK(absl::StrContains(example.Render({}).err, "warning: the job reads files below /data"));
  CHECK(example.Render({"--data", "images", "--storage", "mine"}).err.empty());
  CHECK(absl::StrContains(RenderExample(R"({"program": "process", "command": ["true"]})")
                              .Render({"--data", "images"})
                              .err,
                          "workers refuse without --allow-programs"));
  // What is mounted at /data does not reach other paths.
  const std::string outside = "data.train.labels: /mnt/y.npy is outside of /data";
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--data", "images"}}) {
    std::vector<std::string> args = {"--set", "data.train.labels=/mnt/y.npy"};
    args.insert(args.end(), more.begin(), more.end());
    CHECK(absl::StrContains(example.Render(args).err, outside));
  }
  const Rendered weights =
      example.Render({"--data", "images", "--set", "initial_weights=w/first.safetensors"});
  INFO(weights.err);
  CHECK(weights.code == 0);
  CHECK(absl::StrContains(weights.err,
                          "initial_weights are read from /data/w/first.safetensors: the claim "
                          "images has to hold w/first.safetensors"));
}

// Returns the word behind `flag` and a blank; "" without the flag.
std::string ValueIn(const std::string& text, const std::string& flag) {
  const size_t at = text.find(flag + " ");
  if (at == std::string::npos) return "";
  const std::string value = text.substr(at + flag.size() + 1);
  return value.substr(0, value.find_first_of(" ,\n"));
}

TEST_CASE("render warns of pods and claims that are too small, and names a size that is enough") {
  RenderExample example(R"({"class_name": "Sequential", "config": {"name": "s", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 2], "name": "in"}},
    {"class_name": "Dense", "config": {"name": "dense", "units": 60000000}}]}})");
  for (const std::vector<std::string>& of :
       {std::vector<std::string>{"--ps-memory", "kubernetes"}, {"--storage-size", "storage"}}) {
    const auto render = [&](const std::string& size) {
      return example.Render({of[0], size}, "Counting Job", of[1]);
    };
    const Rendered small = render("256Mi");
    INFO(small.err);
    REQUIRE(small.code == 0);
    const std::string enough = ValueIn(small.err, of[0]);
    REQUIRE_FALSE(enough.empty());
    CHECK(ValueIn(render(enough).err, of[0]).empty());
  }
  const Rendered nodes = example.Render({"--ps", "0", "--memory", "512Mi"});
  const std::string enough = ValueIn(nodes.err, "--memory");
  INFO(nodes.err);
  REQUIRE_FALSE(enough.empty());
  CHECK(ValueIn(example.Render({"--ps", "0", "--memory", enough}).err, "--memory").empty());
}

TEST_CASE("rendered manifests have the job's own cluster, settings and model") {
  RenderExample example;
  const Rendered rendered =
      example.Render({"--ps", "3", "--set", "epochs=7", "--set", "data.train.labels=/mnt/y.npy"});
  REQUIRE(rendered.code == 0);
  const auto cluster = ParseTfConfig(BlockOf(rendered.out, "cluster.json").dump());
  REQUIRE(cluster.ok());
  CHECK((*cluster)->coordinator == "counting-job-coordinator:7400");
  REQUIRE((*cluster)->ps.size() == 3);
  CHECK((*cluster)->ps[2] == "counting-job-ps-2.counting-job-ps:7401");
  const nlohmann::json job = BlockOf(rendered.out, "job.json");
  CHECK(job["epochs"] == 7);
  CHECK(job["model"] == "model.json");
  CHECK(job["data"]["train"]["features"] == "/data/data/x.npy");
  CHECK(job["data"]["train"]["labels"] == "/mnt/y.npy");
  CHECK(BlockOf(rendered.out, "model.json") == nlohmann::json::parse(kRenderedModel));
}

TEST_CASE("a job too large for the annotation of kubectl apply is rendered with the way out") {
  CHECK(RenderExample().Render({"--data", "images", "--storage", "mine"}).err.empty());
  nlohmann::json model = nlohmann::json::parse(kRenderedModel);
  for (int i = 0; i < 4000; ++i) {
    model["config"]["layers"].push_back(
        {{"class_name", "Dense"}, {"config", {{"name", absl::StrCat("d", i)}, {"units", 3}}}});
  }
  const Rendered large = RenderExample(model.dump()).Render({});
  CHECK(large.code == 0);
  CHECK(large.err.find("`kubectl apply --server-side -f FILE`") != std::string::npos);
}

TEST_CASE("names of objects have small letters, digits and dashes, and begin with a letter") {
  CHECK(ObjectName("Fashion MNIST (cnn)") == "fashion-mnist-cnn");
  CHECK(ObjectName("2nd") == "job-2nd");
  CHECK(ObjectName("__") == "");
  CHECK(ObjectName(std::string(100, 'a')).size() == 40);
}

TEST_CASE("a manifest with a mark that nobody fills in is refused") {
  CHECK_FALSE(FillIn("replicas: 2  # render: replicas\n", "job", {{"ps", "1"}}).ok());
}

TEST_CASE("the example for kustomize has a cluster of as many ps as it starts, and its own model") {
  PosixFiles files;
  const std::string base = std::string(PARACORD_SOURCE_DIR) + "/deploy/kubernetes/base/";
  const auto cluster = ParseTfConfig(*files.ReadWhole(base + "cluster.json"));
  REQUIRE(cluster.ok());
  CHECK((*cluster)->coordinator == "fashion-mnist-coordinator:7400");
  CHECK((*cluster)->ps == std::vector<std::string>{"fashion-mnist-ps-0.fashion-mnist-ps:7401",
                                                   "fashion-mnist-ps-1.fashion-mnist-ps:7401"});
  CHECK(absl::StrContains(k_ps_manifest, "\n  replicas: 2  # render: ps\n"));
  const std::string example = std::string(PARACORD_SOURCE_DIR) + "/examples/fashion-mnist/models/";
  CHECK(*files.ReadWhole(base + "model.json") == *files.ReadWhole(example + "cnn.json"));
  CHECK(ReadJobFile(files, base + "job.json").ok());
}

}  // namespace
}  // namespace paracord
