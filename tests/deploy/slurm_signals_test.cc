// SIGTERM ends the Slurm script during any of its commands: the daemons get the signal, no other
// process does, and the exit code is SIGTERM's. Daemons and srun are fakes.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "deploy/shell.h"
#include "tests/fakes.h"

namespace paracord {
namespace {

// Read by bash before the script. The shell sends itself SIGTERM before the STEP-th command of the
// script's start (WHO=script), or of the subshell that supervises the coordinator
// (WHO=coordinator).
constexpr char kHook[] = R"(
if [[ $0 == */paracord.sbatch ]]; then
  hook_step=0 hook_armed=false
  before_command() {
    if [[ $WHO == script ]]; then
      [[ $BASHPID == "$$" ]] || return 0
      if [[ $1 == "trap 'ask "* ]]; then hook_armed=true; fi
      $hook_armed || return 0
    else
      [[ $BASHPID != "$$" && " ${FUNCNAME[*]} " == *" keep_running "* ]] || return 0
    fi
    if ((++hook_step == STEP)); then
      trap - DEBUG
      kill -TERM "$BASHPID"
    fi
  }
  set -T
  trap 'before_command "$BASH_COMMAND"' DEBUG
fi
)";

// Runs the script once for each step in a new session, whose leader reports a signal that reaches
// it by mistake. Prints for each step: WHO STEP "code" CODE, the number of "takes a checkpoint"
// lines, and the number of unexpected lines.
constexpr char kDriver[] = R"(
root=$1 script=$2
export PATH=$root:$PATH PARACORD_BIN=$root BASH_ENV=$root/hook
export SLURM_JOB_NODELIST=127.0.0.1 SLURM_TASKS_PER_NODE=2
one() {
  export WHO=$1 STEP=$2 SLURM_JOB_ID=$2
  said=$(BASH_ENV='' setsid --wait bash -c '
    trap "echo the group was told" TERM
    export BASH_ENV=$4
    timeout --foreground 20 "$1" "$2" "$3" &
    while wait $!; code=$?; ((code == 143)) && kill -0 $! 2>/dev/null; do :; done
    exit $code' - "$script" "$root/job" "$root/dir.$1$2" "$root/hook" 2>&1)
  echo "$1 $2 code $?" $(grep -cF 'taking a checkpoint' <<<"$said") \
    $(grep -cE 'the group was told|unbound|No such process' <<<"$said")
}
for ((n = 1; n <= 20; ++n)); do
  one script $n &
  ((n > 10)) || one coordinator $n &
  ((n % 5)) || wait
done
wait
)";

TEST_CASE("SIGTERM at any step of a Slurm job's start ends that job, and nobody else is told") {
  const TestDirectory directory;
  const auto write = [&](const std::string& name, const std::string& text) {
    return RunShell("chmod +x " + directory.Write(name, text));
  };
  write("job", "{}");
  write("hook", kHook);
  write("driver", kDriver);
  const std::string daemon = absl::StrCat("sleep 30.", getpid());
  for (const std::string program : {"paracord-coordinator", "paracord-ps"}) {
    write(program, "#!/bin/sh\nexec " + daemon + "\n");
  }
  write("srun", "#!/bin/bash\nSLURM_PROCID=0 exec bash -c run_task\n");
  const std::string script = PARACORD_SOURCE_DIR "/deploy/slurm/paracord.sbatch";
  const ShellResult result =
      RunShell("bash " + (directory / "driver") + " " + directory.path() + " " + script);
  INFO(result.said);
  const auto said = [&](const std::string& line) {
    return result.said.find(line + "\n") != std::string::npos;
  };
  CHECK(said("script 1 code 143 0 0"));  // before the trap is set
  for (int step = 2; step <= 20; ++step) {
    CAPTURE(step);
    CHECK(said(absl::StrCat("script ", step, " code 143 1 0")));
  }
  for (int step = 1; step <= 10; ++step) {
    CAPTURE(step);
    CHECK(said(absl::StrCat("coordinator ", step, " code 143 0 0")));
  }
  CHECK(RunShell("pgrep -f '^" + daemon + "'").said.empty());  // no daemon is left
}

}  // namespace
}  // namespace paracord
