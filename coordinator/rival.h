// Asked before a coordinator starts: does another one lead this job and live? Two coordinators
// restarted after every fencing would fence each other for ever. So a starting coordinator that
// finds a live rival waits for the rival to leave (it may be draining), and exits if the rival
// stays. This is good manners alone: what keeps two that cannot reach each other apart is the claim
// of a generation. Used on the loop; DIR is read on the executor.
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

// Where a coordinator of the job in `dir` listens or did, as it wrote it; "" if none has.
std::string AddressIn(Files& files, const std::string& dir);

// Whether `answer` is a coordinator's status: an object with phase, run_id and generation, in their
// types.
bool IsStatus(const nlohmann::json& answer);

// Whether the one who answers so leads the job in `dir` and lives; false if it is no coordinator.
// Errors: what claims there are cannot be read.
absl::StatusOr<bool> LeadsJob(Files& files, const std::string& dir, const nlohmann::json& answer);

class RivalCheck {
 public:
  // `dir` of the job; `own_address`: where a coordinator that died may have listened before us.
  RivalCheck(Environment environment, std::string dir, std::string own_address,
             int64_t patience_ms);

  // `done` is called once: OK if nobody leads, ALREADY_EXISTS if somebody does after the patience.
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
