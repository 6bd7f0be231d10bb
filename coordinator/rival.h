// Before a coordinator starts: checks whether another coordinator is alive and leads the same job.
// Two coordinators that a supervisor restarts after each loss of the lead would overthrow each
// other for ever. A starting coordinator that finds a live rival therefore waits for the rival to
// leave (the rival may be draining), and gives up if the rival stays. Correctness does not depend
// on this check: where two coordinators cannot reach each other, the claim of a generation decides
// who leads. Used on the loop; DIR is read on the executor.
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

// The address that the newest coordinator of the job wrote to `dir`, alive or dead; "" if there is
// none.
std::string AddressIn(Files& files, const std::string& dir);

// Whether `answer` is the status of a coordinator: an object with phase, run_id and generation of
// the right types.
bool IsStatus(const nlohmann::json& answer);

// Whether the process that gave `answer` is a live coordinator that leads the job in `dir`. An
// error: the claims in `dir` cannot be read.
absl::StatusOr<bool> LeadsJob(Files& files, const std::string& dir, const nlohmann::json& answer);

class RivalCheck {
 public:
  // `dir` is the job's directory. `own_address` is the address of this process, which is not asked:
  // a dead coordinator may have listened there before.
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
