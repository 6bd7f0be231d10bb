#include "coordinator/core/copies.h"

#include "coordinator/core/holdings.h"
#include "coordinator/core/job_view.h"

namespace paracord {

std::vector<uint32_t> SecondsOn(const std::optional<Layout>& layout, uint32_t ps) {
  std::vector<uint32_t> ids;
  for (uint32_t p = 0; layout.has_value() && p < layout->holders.size(); ++p) {
    if (layout->SecondOf(p) == ps) ids.push_back(p);
  }
  return ids;
}

nlohmann::json CopiesJson(const JobView& job) {
  if (!job.options.HasCopies() || !job.record.fixed()) return nullptr;
  const std::vector<uint64_t> bytes = BytesNow(job);
  uint64_t with_both = 0, alone = 0;
  for (const uint64_t of_partition : bytes) alone += of_partition;
  nlohmann::json by_ps = nlohmann::json::array();
  for (uint32_t i = 0; i < job.ps.size(); ++i) {
    const Ps& ps = job.ps.all()[i];
    const std::vector<uint32_t> ids = SecondsOn(job.record.layout(), i);
    const std::string& prepared = ps.description.prepared();
    const bool hot = job.options.HasHotCopies();
    const bool has = hot ? ps.state == PsState::kReady
                         : ps.state != PsState::kAway && job.ps.HasPrepared(i, prepared, ids) &&
                               !prepared.empty();
    nlohmann::json entry = {{"partitions", ids.size()}, {"with_both", has ? ids.size() : 0}};
    if (has) {
      if (!hot) entry["checkpoint"] = prepared;
      with_both += ids.size();
      for (const uint32_t id : ids) alone -= bytes[id];
    }
    if (!ps.no_room.empty()) entry["problem"] = ps.no_room;
    by_ps.push_back(std::move(entry));
  }
  return {{"partitions", bytes.size()},
          {"with_both", with_both},
          {"bytes_with_one", alone},
          {"promotions", job.copies.promotions()},
          {"by_ps", std::move(by_ps)}};
}

}  // namespace paracord
