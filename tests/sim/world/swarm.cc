#include "sim/world/swarm.h"

#include <cmath>

#include "absl/strings/str_cat.h"

namespace paracord {
namespace {

// Returns 0 half of the time, and otherwise a share between low and high, on a logarithmic scale.
double Share(SimRandom& random, double low, double high) {
  if (random.Chance(0.5)) return 0;
  return low * std::pow(high / low, random.Unit());
}

int64_t Every(SimRandom& random, int64_t low_ms, int64_t high_ms) {
  return static_cast<int64_t>(
      Share(random, static_cast<double>(low_ms), static_cast<double>(high_ms)));
}

}  // namespace

Swarm Swarm::Draw(SimRandom& random) {
  Swarm swarm;
  swarm.delay_us_max = random.Between(200, 5000);
  swarm.work_us_max = random.Between(200, 20000);
  if (random.Chance(0.05)) return swarm;  // a calm world
  swarm.lose = Share(random, 0.002, 0.05);
  swarm.duplicate = Share(random, 0.005, 0.1);
  swarm.late = Share(random, 0.005, 0.08);
  swarm.very_late = Share(random, 0.001, 0.02);
  swarm.break_link = Share(random, 0.002, 0.03);
  swarm.fragment = Share(random, 0.05, 0.5);
  swarm.quiet = Share(random, 0.05, 1);
  swarm.cuts.every_ms = Every(random, 500, 10000);
  swarm.cuts.ms_max = random.Between(100, 20000);
  swarm.cuts.one_way = Share(random, 0.1, 1);
  swarm.kill_every_ms = Every(random, 200, 10000);
  swarm.machine_crash = Share(random, 0.05, 1);
  swarm.kill_in_operation = Share(random, 0.1, 1);
  swarm.power_cut = Share(random, 0.01, 0.2);
  swarm.pause_every_ms = Every(random, 300, 10000);
  swarm.pause_ms_max = random.Between(200, 20000);
  swarm.restart_ms_max = random.Between(20, 3000);
  swarm.clock_jump_every_ms = Every(random, 1000, 10000);
  swarm.slow_work = Share(random, 0.01, 0.2);
  swarm.sync_error = Share(random, 0.002, 0.1);
  swarm.write_error = Share(random, 0.001, 0.05);
  swarm.read_error = Share(random, 0.001, 0.05);
  swarm.disk_full_every_ms = Every(random, 1000, 20000);
  swarm.read_only_every_ms = Every(random, 1000, 20000);
  swarm.late_put = Share(random, 0.001, 0.05);
  return swarm;
}

Swarm Swarm::Healed() const {
  Swarm healed;
  healed.delay_us_min = delay_us_min;
  healed.delay_us_max = delay_us_max;
  healed.work_us_min = work_us_min;
  healed.work_us_max = work_us_max;
  healed.restart_ms_min = restart_ms_min;
  healed.restart_ms_max = restart_ms_max;
  healed.fragment = fragment;
  return healed;
}

std::string Swarm::ToString() const {
  std::string text =
      absl::StrCat("delay_us=", delay_us_min, "..", delay_us_max, " work_us=", work_us_min, "..",
                   work_us_max, " restart_ms=", restart_ms_min, "..", restart_ms_max);
  const auto add = [&text](const char* name, auto value) {
    if (value > 0) absl::StrAppend(&text, " ", name, "=", value);
  };
  add("lose", lose);
  add("duplicate", duplicate);
  add("late", late);
  add("very_late", very_late);
  add("break_link", break_link);
  add("fragment", fragment);
  add("quiet", quiet);
  add("cut_every_ms", cuts.every_ms);
  if (cuts.every_ms > 0) add("cut_ms_max", cuts.ms_max);
  if (cuts.every_ms > 0) add("cut_one_way", cuts.one_way);
  add("kill_every_ms", kill_every_ms);
  if (kill_every_ms > 0) {
    add("machine_crash", machine_crash);
    add("kill_in_operation", kill_in_operation);
    add("power_cut", power_cut);
  }
  add("pause_every_ms", pause_every_ms);
  if (pause_every_ms > 0) add("pause_ms_max", pause_ms_max);
  add("clock_jump_every_ms", clock_jump_every_ms);
  add("slow_work", slow_work);
  add("sync_error", sync_error);
  add("write_error", write_error);
  add("read_error", read_error);
  add("late_put", late_put);
  add("disk_full_every_ms", disk_full_every_ms);
  add("read_only_every_ms", read_only_every_ms);
  return text;
}

}  // namespace paracord
