// Tests what Kubeflow's operator and JobSet make of our manifests, as operators.py plays them.
#include <catch2/catch.hpp>
#include <string>

#include "deploy/shell.h"

namespace paracord {
namespace {

// The default timeouts.drain_ms of a job, 25 s, and 15 s are 40 s; a node finishes its batch, too,
// as with `paracord render`. The operator's services name ready pods alone, so that a readiness or
// a startup probe would keep the tasks of a TFJob from finding each other, and even themselves.
TEST_CASE("pods of operators have time to leave, probes, and nodes apart from each other") {
  if (RunShell("python3 -c 'import yaml'").code != 0) {
    WARN("skipped: this Python has no yaml (package python3-yaml)");
    return;
  }
  const auto pods = [](const std::string& manifest) {
    const ShellResult result =
        RunShell("python3 " PARACORD_SOURCE_DIR "/tests/deploy/pods.py " +
                 std::string(PARACORD_SOURCE_DIR "/deploy/kubernetes/") + manifest);
    INFO(result.said);
    CHECK(result.code == 0);
    return result.said;
  };
  const std::string alive = "liveness ", all = "startup,readiness,liveness ";
  const std::string mnist = "dist-mnist-for-e2e-test-";
  CHECK(pods("tfjob/tfjob.yaml") ==
        mnist + "ps-0 40 " + alive + "replica-index=0,replica-type=worker\n" +  //
            mnist + "ps-1 40 " + alive + "replica-index=0,replica-type=worker\n" + mnist +
            "worker-0 40 " + alive + "-\n" +          //
            mnist + "worker-1 40 " + alive + "-\n" +  //
            mnist + "worker-2 40 " + alive + "-\n" +  //
            mnist + "worker-3 40 " + alive + "-\n");
  CHECK(pods("tfjob/mirrored.yaml") == "multi-worker-worker-0 55 " + alive + "all\n" +
                                           "multi-worker-worker-1 55 " + alive + "all\n");
  CHECK(pods("jobset/jobset.yaml") ==
        "mnist-coordinator-0 40 " + all + "replicatedjob-name=ps\n" +  //
            "mnist-ps-0 40 " + all + "replicatedjob-name=coordinator\n" + "mnist-worker-0 30 " +
            all + "-\n");
}

}  // namespace
}  // namespace paracord
