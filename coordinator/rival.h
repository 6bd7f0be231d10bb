// Before a coordinator starts: checks whether another coordinator is alive and leads the same job.
// Two coordinators that a supervisor restarts whenever they lose the lead would take the lead from
// each other for ever. A starting coordinator that finds a live rival therefore waits for the rival
// to leave (the rival may be draining), and gives up if the rival stays. Correctness does not
// depend on this check: where two coordinators cannot reach each other, the claim of a generation
// decides who leads. RivalCheck is used on the loop and reads files on the executor; the other
// functions here block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/environment.h"
#include "common/gate.h"
#include "common/log.h"
#include "nlohmann/json.hpp"

namespace paracord {

// Returns the address that a coordinator last wrote to `dir`, whether that one is alive or dead; ""
// if none can be read.
std::string AddressIn(Files& files, const std::string& dir);

// Whether `answer` is the status of a coordinator: an object with phase, run_id and generation of
// the right types.
bool IsStatus(const nlohmann::json& answer);

// Whether `answer` is the status of a coordinator that leads the job in `dir`. Its generation may
// be one older than the newest claim, because the coordinator may be claiming its next. An error:
// the claims in `dir` cannot be read.
absl::StatusOr<bool> LeadsJob(Files& files, const std::string& dir, const nlohmann::json& answer);

class RivalCheck {
 public:
  // `dir` is the job's directory. `own_address` is the address of this process. If `dir` has that
  // address, a dead coordinator had it, and nobody is asked.
  RivalCheck(Environment environment, std::string dir, std::string own_address,
             int64_t patience_ms);

  // `done` is called once: OK if no rival answers that it leads the job, ALREADY_EXISTS if a rival
  // still leads after patience_ms.
  void Start(std::function<void(const absl::Status&)> done);

 private:
  void Ask();
  void Judge(const std::string& answer);
  void Judged(bool leads);

  const Environment environment_;
  const std::string dir_;
  const std::string own_address_;
  const int64_t patience_ms_;
  const Logger log_;
  std::function<void(const absl::Status&)> done_;
  std::string rival_;
  std::unique_ptr<Link> link_;
  int64_t started_ms_ = 0;
  bool said_ = false;
  const Gate gate_;
};

}  // namespace paracord
