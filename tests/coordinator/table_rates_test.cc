#include "coordinator/core/table_rates.h"

#include <catch2/catch.hpp>

namespace paracord {
namespace {

PsDescription Told(uint64_t pulled, uint64_t pushed) {
  PsDescription description;
  PartitionDescription& partition = *description.add_partitions();
  partition.set_id(7);
  partition.mutable_table()->set_pulled(pulled);
  partition.mutable_table()->set_pushed(pushed);
  return description;
}

TEST_CASE("rows a second are those of the newest few seconds, whatever restarts") {
  TableRates rates;
  CHECK(rates.Of(7).pulled == 0);
  rates.Take(Told(1000, 500), 10000);
  rates.Take(Told(1900, 600), 11000);
  CHECK(rates.Of(7).pulled == 0);
  rates.Take(Told(5000, 900), 14000);
  CHECK(rates.Of(7).pulled == 1000);
  CHECK(rates.Of(7).pushed == 100);
  rates.Take(Told(10, 5), 18000);  // counts of a restarted ps
  CHECK(rates.Of(7).pulled == 0);
  rates.Take(Told(410, 5), 22000);
  CHECK(rates.Of(7).pulled == 100);
  rates.Take(Told(410, 5), 26000);
  CHECK(rates.Of(7).pulled == 0);
  CHECK(rates.Of(8).pushed == 0);
}

}  // namespace
}  // namespace paracord
