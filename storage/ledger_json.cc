#include "storage/ledger_json.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "storage/checkpoint.h"

namespace paracord {

using nlohmann::json;

Ledger LedgerFromJson(const json& value) {
  Ledger ledger;
  for (const json& pair : value.at("finished")) {
    SplitInterval* interval = ledger.add_finished();
    interval->set_first(pair.at(0).get<uint64_t>());
    interval->set_last(pair.at(1).get<uint64_t>());
  }
  for (const json& pair : value.at("open")) {
    OpenSplit* split = ledger.add_open();
    split->set_split(pair.at(0).get<uint64_t>());
    split->set_next(pair.at(1).get<uint32_t>());
  }
  ledger.set_applied(value.at("applied").get<uint64_t>());
  ledger.set_rejected(value.at("rejected").get<uint64_t>());
  ledger.set_steps(value.value("steps", uint64_t{0}));
  return ledger;
}

// Writes `steps` only for synchronous jobs, which count rounds.
std::string LedgerToText(const Ledger& ledger) {
  const auto finished = [](std::string* text, const SplitInterval& interval) {
    absl::StrAppend(text, "[", interval.first(), ",", interval.last(), "]");
  };
  const auto open = [](std::string* text, const OpenSplit& split) {
    absl::StrAppend(text, "[", split.split(), ",", split.next(), "]");
  };
  const std::string steps = ledger.steps() == 0 ? "" : absl::StrCat(",\"steps\":", ledger.steps());
  return absl::StrCat("{\"finished\":[", absl::StrJoin(ledger.finished(), ",", finished),
                      "],\"open\":[", absl::StrJoin(ledger.open(), ",", open),
                      "],\"applied\":", ledger.applied(), ",\"rejected\":", ledger.rejected(),
                      steps, "}");
}

}  // namespace paracord
