#include "wire_rows.h"

#include <algorithm>
#include <future>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/counter_random.h"
#include "common/shared_memory.h"
#include "exchange/codec.h"
#include "exchange/reply_sink.h"
#include "exchange/rows.h"
#include "measure.h"
#include "store/table_partition.h"

namespace paracord::bench {
namespace {

constexpr uint64_t kRows = 2'000'000, kDim = 16;
constexpr uint64_t kIds = 256 * 26;  // ids in a batch, before duplicates are removed
constexpr size_t kBatches = 64;
constexpr size_t kExchanges = 32;  // exchanges in a run

std::vector<RowIds> DrawBatches() {
  std::vector<RowIds> batches(kBatches);
  uint64_t counter = 0;
  for (RowIds& ids : batches) {
    while (ids.size() < kIds) ids.push_back(RandomBits(1, counter++) % kRows);
    std::ranges::sort(ids);
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  }
  return batches;
}

// A worker that trains batch by batch.
class RowsClient {
 public:
  RowsClient(Link& link, const std::vector<RowIds>& batches, uint32_t& next_batch)
      : link_(link),
        batches_(batches),
        next_batch_(next_batch),
        gradient_(std::make_shared<Floats>(kIds * kDim, 0.001f)),
        values_(kIds * kDim) {}

  // Pushes a batch's gradient and pulls the next batch's rows. Returns the number of pushed rows.
  uint64_t Exchange() {
    const RowIds& pushed = batches_[next_batch_ % batches_.size()];
    const RowIds& pulled = batches_[(next_batch_ + 1) % batches_.size()];
    const uint64_t bytes = pushed.size() * kDim * sizeof(float);
    ExchangeRequest header;
    std::vector<PieceView> pieces;
    NameRows(pulled, 0, Piece::PULL_IDS, *header.add_pull()->mutable_rows(), pieces);
    header.mutable_batch()->set_batch(next_batch_++);
    PartitionPush& push = *header.add_push();
    push.set_bytes(bytes);
    NameRows(pushed, 0, Piece::PUSH_IDS, *push.mutable_rows(), pieces);
    const absl::string_view data(reinterpret_cast<const char*>(gradient_->data()), bytes);
    pieces.push_back(
        {0, 0, absl::MakeCordFromExternal(data, [held = gradient_](absl::string_view) {})});
    const auto sink = MakeExchangeSink(
        UINT64_MAX, [&](uint32_t, uint64_t offset, uint64_t) { return PlaceOf(offset); });
    std::promise<absl::StatusOr<absl::Cord>> promise;
    link_.CallInto(kRowsMethod, EncodeExchange(header, std::move(pieces)), 60000, sink,
                   [&](absl::StatusOr<absl::Cord> reply) { promise.set_value(std::move(reply)); });
    const absl::StatusOr<absl::Cord> reply = promise.get_future().get();
    if (!reply.ok()) Fail(std::string(reply.status().message()));
    const DecodedReply decoded = DecodeExchangeReply(*reply).value();
    if (decoded.header.partitions(0).outcome() != PUSH_APPLIED) Fail("not applied");
    for (const PieceView& piece : decoded.pieces) {
      std::ranges::copy(std::string(piece.data), PlaceOf(piece.offset));
    }
    return pushed.size();
  }

 private:
  using Floats = std::vector<float, SharedAllocator<float>>;

  char* PlaceOf(uint64_t offset) { return reinterpret_cast<char*>(values_.data()) + offset; }

  Link& link_;
  const std::vector<RowIds>& batches_;
  uint32_t& next_batch_;
  const std::shared_ptr<Floats> gradient_;
  std::vector<float> values_;
};

}  // namespace

std::unique_ptr<PartitionSet> MakeTable() {
  auto content = std::make_unique<PartitionSet>();
  content->plan.set_records(uint64_t{1} << 30);
  content->plan.set_batch(1);
  content->plan.set_split_batches(1 << 30);
  content->optimizer = ParseOptimizer({"adagrad", nlohmann::json::object()}).value();
  TableContents table;
  table.fixed = std::make_unique<FixedTable>(content->optimizer, std::vector<uint64_t>{kRows, kDim},
                                             0, /*trained=*/true);
  const PlacedIn<float> values = table.fixed->PlaceOf(table.fixed->columns()[0]);
  values.Put(0, std::vector<float>(values.size, 0.5f));
  table.fixed->FillSlots();
  Partition::Facts facts{.id = 0,
                         .name = "table",
                         .shape = {kRows, kDim},
                         .trained = true,
                         .bytes = kRows * kDim * sizeof(float)};
  content->partitions.push_back(
      std::make_unique<TablePartition>(std::move(facts), 1, std::move(table)));
  content->trained = 1;
  return content;
}

void MeasureRows(const std::vector<RowsWay>& ways, int rounds) {
  const std::vector<RowIds> batches = DrawBatches();
  uint32_t next_batch = 0;
  uint64_t rows = 0;  // rows in a run; batches differ by a few duplicate ids
  std::vector<std::unique_ptr<RowsClient>> clients;
  std::vector<Way> turns;
  for (const RowsWay& way : ways) {
    clients.push_back(std::make_unique<RowsClient>(*way.link, batches, next_batch));
    turns.push_back({way.name, [&rows, client = clients.back().get()] {
                       rows = 0;
                       for (size_t i = 0; i < kExchanges; ++i) rows += client->Exchange();
                     }});
  }
  const std::vector<Timing> timings = TakeTurns(turns, rounds);
  for (size_t i = 0; i < ways.size(); ++i) {
    const double rate = static_cast<double>(rows) / timings[i].median / 1e6;
    PrintGoal(absl::StrCat("rows pulled and pushed with Adagrad, ", ways[i].name), rate,
              Bound::kAtLeast, ways[i].goal, "M/s");
    PrintResult({.name = ways[i].result, .value = rate, .unit = "M rows/s"});
  }
}

}  // namespace paracord::bench
