#include "storage/ledger_json.h"

#include <catch2/catch.hpp>

#include "storage/checkpoint.h"

namespace paracord {
namespace {

TEST_CASE("the text of a ledger has steps only where rounds were counted") {
  Ledger ledger;
  SplitInterval* const interval = ledger.add_finished();
  interval->set_last(6);
  OpenSplit* const open = ledger.add_open();
  open->set_split(7);
  open->set_next(3);
  ledger.set_applied(262);
  ledger.set_rejected(1);
  const std::string text = R"({"finished":[[0,6]],"open":[[7,3]],"applied":262,"rejected":1})";
  CHECK(LedgerToText(ledger) == text);
  CHECK(LedgerFromJson(JsonOf(text)).SerializeAsString() == ledger.SerializeAsString());

  ledger.set_steps(66);
  const std::string with_steps =
      R"({"finished":[[0,6]],"open":[[7,3]],"applied":262,"rejected":1,"steps":66})";
  CHECK(LedgerToText(ledger) == with_steps);
  CHECK(LedgerFromJson(JsonOf(with_steps)).SerializeAsString() == ledger.SerializeAsString());
  CHECK_THROWS_AS(LedgerFromJson(JsonOf(R"({"finished":[],"open":[]})")),
                  nlohmann::json::exception);
}

}  // namespace
}  // namespace paracord
