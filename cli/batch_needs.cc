#include "cli/batch_needs.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/human_bytes.h"
#include "common/memory_budget.h"
#include "common/mix.h"
#include "common/status_macros.h"
#include "config/nodes.h"
#include "config/partitions.h"
#include "coordinator/core/layout.h"
#include "coordinator/core/partitioner.h"
#include "coordinator/core/placement.h"
#include "exchange/codec.h"
#include "exchange/encoding.h"
#include "exchange/rows.h"
#include "program/row_numbers.h"
#include "proto/protocol.h"
#include "store/loader.h"
#include "worker/partition_layout.h"
#include "worker/transfer_options.h"

namespace paracord {
namespace {

// Returns `bytes` bytes of zeros that share one small buffer.
absl::Cord BlankBytes(uint64_t bytes) {
  static const std::string blank(kPieceBytes, '\0');
  absl::Cord all;
  while (bytes > 0) {
    const uint64_t some = std::min<uint64_t>(bytes, blank.size());
    all.Append(absl::MakeCordFromExternal(absl::string_view(blank).substr(0, some), [] {}));
    bytes -= some;
  }
  return all;
}

// A worker's request to one ps, under construction.
class Request {
 public:
  Request(const Job& job, const TableRows& rows) : transfer_(TransferOf(job)), rows_(rows) {
    // As long as the identifiers in a running job.
    const std::string id(16, 'x');
    header_.mutable_fence()->set_run_id(id);
    header_.mutable_fence()->set_boot_id(id);
    header_.mutable_fence()->set_protocol(kProtocol);
    header_.set_worker("worker:0");
    header_.set_proof(std::string(32, 'x'));
    header_.mutable_batch()->set_batch(1);
  }

  // `second`: the ps is the second holder of the partition, which is pushed there and not pulled.
  void Add(const PartitionReplica& partition, bool second, PsNeed& need) {
    const uint64_t elements = partition.RangeIn(&rows_).elements;
    const std::span<const uint64_t> ids = partition.IdsIn(&rows_);
    PartitionPull& pull = *header_.add_pull();
    pull.set_partition(partition.id);
    pull.set_encoding(transfer_.PullEncoding(partition));
    if (second) pull.set_state_only(true);
    if (partition.table && !second) {
      need.row_bytes += elements * ElementBytes(pull.encoding());
      NameRows(ids, partition.id, Piece::PULL_IDS, *pull.mutable_rows(), pieces_);
    }
    if (!partition.trained) return;
    PartitionPush& push = *header_.add_push();
    push.set_partition(partition.id);
    push.set_encoding(transfer_.PushEncoding(partition));
    push.set_bytes(transfer_.PushBytes(push.encoding(), elements));
    if (partition.table) {
      NameRows(ids, partition.id, Piece::PUSH_IDS, *push.mutable_rows(), pieces_);
    }
    if (push.bytes() != 0) pieces_.push_back({partition.id, 0, BlankBytes(push.bytes())});
  }

  // Decodes and measures the request like the ps.
  void Measure(PsNeed& need) {
    absl::Cord bytes;
    for (absl::Cord& part : EncodeExchange(header_, std::move(pieces_))) bytes.Append(part);
    need.request_bytes = bytes.size();
    need.header_bytes = header_.ByteSizeLong();
    const absl::StatusOr<DecodedRequest> decoded = DecodeExchangeRequest(bytes);
    need.limit = decoded.status();
    if (!decoded.ok()) return;
    need.pieces = decoded->pieces.size();
    need.ids = CountIds(*decoded);
  }

 private:
  const TransferOptions transfer_;
  const TableRows& rows_;
  ExchangeRequest header_;
  std::vector<PieceView> pieces_;
};

// The largest value among the ps.
template <class Of>
uint64_t Most(const BatchNeeds& needs, Of of) {
  uint64_t most = 0;
  for (const PsNeed& need : needs.ps) most = std::max<uint64_t>(most, std::invoke(of, need));
  return most;
}

// Returns the memory of the ps in a process with this --memory-limit.
MemoryBudget BudgetOf(const Holders& holders, uint64_t memory_limit) {
  const bool divided = holders.nodes && memory_limit < MemoryBudget::kUnlimited;
  if (!divided) return MemoryBudget(memory_limit);
  return MemoryBudget(NodeMemoryPart(memory_limit), {}, kNodeMemoryParts);
}

// The largest request and rows that a ps accepts with this limit, divided like in a running ps.
struct Shares {
  uint64_t request = 0, rows = 0;
};
absl::StatusOr<Shares> SharesOf(const PsNeed& need, const Holders& holders, uint64_t memory_limit) {
  MemoryBudget memory = BudgetOf(holders, memory_limit);
  RETURN_IF_ERROR(memory.HoldVariables(need.variables, need.pushed, need.rounds, need.round_rows));
  return Shares{memory.requests()->spare(),
                memory.replies()->bytes_max() + memory.replies()->spare()};
}

}  // namespace

TableRows MostRows(std::span<const VariableSpec> variables, std::span<const uint64_t> rows) {
  TableRows most;
  most.ids.resize(variables.size());
  most.shards.resize(variables.size());
  for (size_t v = 0; v < variables.size(); ++v) {
    std::vector<uint64_t> ids(rows[v]);
    const bool growing = IsGrowing(variables[v]);
    for (uint64_t i = 0; i < ids.size(); ++i) {
      ids[i] = growing ? Mix64(i)
                       : static_cast<uint64_t>(static_cast<unsigned __int128>(i) *
                                               variables[v].shape(0) / ids.size());
    }
    if (!growing) most.ids[v] = std::move(ids);
    if (!growing) continue;
    std::vector<uint32_t> places;
    NumberIdsByShard(ids, variables[v].shape(0), most.ids[v], places, most.shards[v]);
  }
  return most;
}

absl::StatusOr<std::vector<PartitionSpec>> PlacedPartitions(const Job& job,
                                                            std::span<const VariableSpec> variables,
                                                            const Holders& holders) {
  ASSIGN_OR_RETURN(std::vector<PartitionSpec> partitions,
                   PartitionVariables(variables, job.partitioner));
  const std::vector<uint64_t> bytes = PartitionBytes(variables, partitions);
  RETURN_IF_ERROR(PlacePartitions(job.partitioner.placement, holders.count, bytes, partitions));
  if (job.partitioner.copies == 0 || holders.nodes) return partitions;
  std::vector<uint32_t> firsts;
  for (const PartitionSpec& partition : partitions) firsts.push_back(partition.ps());
  const std::vector<uint32_t> seconds =
      PlaceSeconds(bytes, firsts, /*seconds=*/{}, std::vector<CopyPlace>(holders.count));
  for (size_t i = 0; i < partitions.size(); ++i) {
    if (seconds[i] != kNobody) partitions[i].add_copies(seconds[i]);
  }
  return partitions;
}

absl::StatusOr<BatchNeeds> MeasureBatch(const Job& job, std::span<const VariableSpec> variables,
                                        const Optimizer& optimizer, const Holders& holders,
                                        const TableRows* rows) {
  const uint32_t ps = holders.count;
  ASSIGN_OR_RETURN(const std::vector<PartitionSpec> partitions,
                   PlacedPartitions(job, variables, holders));
  BatchNeeds needs;
  needs.holders = holders;
  needs.ps.resize(ps);
  LoadRequest nothing;
  nothing.mutable_variables()->Add(variables.begin(), variables.end());
  std::vector<LoadRequest> loads(ps, nothing), prepared(ps, nothing);
  for (const PartitionSpec& partition : partitions) {
    *loads[partition.ps()].add_partitions() = partition;
    for (const uint32_t second : partition.copies()) {
      *(job.guarantees.sync() ? loads : prepared)[second].add_partitions() = partition;
    }
  }
  for (uint32_t p = 0; p < ps; ++p) {
    const RoundsNeed rounds{job.guarantees.sync() ? job.guarantees.round_batches.value_or(1) : 0,
                            /*keeps_before=*/ps > 1};
    const MemoryNeed held = NeedOf(loads[p], optimizer, rounds);
    needs.ps[p].variables = held.variables;
    needs.ps[p].pushed = held.pushed;
    needs.ps[p].rounds = held.rounds;
    needs.ps[p].round_rows = held.round_rows;
    const MemoryNeed copied = NeedOf(prepared[p], optimizer, RoundsNeed());
    needs.ps[p].copy_variables = copied.variables;
    needs.ps[p].copy_pushed = copied.pushed;
    if (rows == nullptr) continue;
    Request request(job, *rows);
    for (const PartitionSpec& partition : loads[p].partitions()) {
      request.Add(DescribePartition(partition, variables[partition.variable()]),
                  /*second=*/partition.ps() != p, needs.ps[p]);
    }
    request.Measure(needs.ps[p]);
  }
  for (size_t v = 0; v < variables.size() && rows != nullptr; ++v) {
    if (!variables[v].has_table()) continue;
    const uint64_t row_bytes = RowElements(variables[v]) * ElementBytes(EncodingOfWire(job.wire));
    TableNeed& table = needs.tables.emplace_back();
    table.name = variables[v].name();
    table.ids = rows->ids[v].size();
    table.bytes = table.ids * row_bytes;
    std::vector<uint64_t> of_ps(ps);
    for (const PartitionSpec& partition : partitions) {
      if (partition.variable() != v) continue;
      of_ps[partition.ps()] += DescribePartition(partition, variables[v]).IdsIn(rows).size();
    }
    table.ps_ids = std::ranges::max(of_ps);
    table.ps_bytes = table.ps_ids * row_bytes;
  }
  return needs;
}

absl::Status CheckNeeds(const BatchNeeds& needs, uint64_t memory_limit) {
  for (size_t ps = 0; ps < needs.ps.size(); ++ps) {
    const PsNeed& need = needs.ps[ps];
    const auto refuse = [&](const auto&... what) {
      return absl::InvalidArgumentError(absl::StrCat(needs.holders.name(), ":", ps, ": ", what...));
    };
    const auto help = [&] {
      if (needs.holders.one) {
        return std::string(
            ": a smaller \"batch\", more memory, or `strategy` \"multi_worker_mirrored\" with more "
            "workers");
      }
      return absl::StrCat(": a smaller \"batch\", more ", needs.holders.nodes ? "workers" : "ps",
                          ", or more memory");
    };
    const std::string limit = BudgetOf(needs.holders, memory_limit).LimitText();
    if (!need.limit.ok()) return refuse(need.limit.message());
    const absl::StatusOr<Shares> shares = SharesOf(need, needs.holders, memory_limit);
    if (!shares.ok()) return refuse(shares.status().message());
    if (need.ids != 0 && need.answering_bytes() > shares->request) {
      return refuse("batch: ", need.ids, " ids and what is pushed of their rows take ",
                    HumanBytes(need.answering_bytes()), ", and one request may take ",
                    HumanBytes(shares->request), ", half of what ", limit, " leaves", help());
    }
    if (need.row_bytes > shares->rows) {
      return refuse("batch: the rows of a batch take ", HumanBytes(need.row_bytes),
                    ", and replies may hold ", HumanBytes(shares->rows), " of ", limit, help());
    }
  }
  return absl::OkStatus();
}

uint64_t EnoughMemory(const BatchNeeds& needs) {
  uint64_t least = MemoryBudget::kLimitMin;
  for (const PsNeed& need : needs.ps) {
    const uint64_t beside =
        std::max(2 * std::max(need.answering_bytes(), need.pushed + need.copy_pushed),
                 need.row_bytes / 3 * 16 + 64);
    // Tables in rounds have a quarter of what variables leave.
    const uint64_t left = need.round_rows ? beside / 3 * 4 : beside;
    least = std::max(least, need.variables + need.copy_variables + need.rounds +
                                MemoryBudget::kProgramBytes + left);
  }
  if (needs.holders.nodes) least *= kNodeMemoryParts;
  return least + (least >> 6);
}

std::vector<std::string> NeedLines(const BatchNeeds& needs, std::optional<uint64_t> memory_limit) {
  std::vector<std::string> lines;
  if (needs.tables.empty()) return lines;
  for (const TableNeed& table : needs.tables) {
    lines.push_back(absl::StrCat(table.name, needs.at_most ? ": at most " : ": ", table.ids,
                                 " ids a batch, whose rows have ", HumanBytes(table.bytes),
                                 "; of one ps at most ", table.ps_ids, " ids and ",
                                 HumanBytes(table.ps_bytes)));
  }
  uint64_t request_max = 0, rows_max = 0;
  for (const PsNeed& need : needs.ps) {
    const absl::StatusOr<Shares> shares =
        SharesOf(need, needs.holders, memory_limit.value_or(MemoryBudget::kUnlimited));
    if (!shares.ok()) continue;
    request_max = request_max == 0 ? shares->request : std::min(request_max, shares->request);
    rows_max = rows_max == 0 ? shares->rows : std::min(rows_max, shares->rows);
  }
  const auto of = [&](uint64_t bytes_max) {
    return memory_limit.has_value() ? absl::StrCat(" of ", HumanBytes(bytes_max)) : "";
  };
  lines.push_back(absl::StrCat(
      "a batch asks of a ps at most: a header of ", HumanBytes(Most(needs, &PsNeed::header_bytes)),
      " of ", HumanBytes(kHeaderBytesMax), ", ", Most(needs, &PsNeed::pieces), " pieces of ",
      kPiecesMax, ", requests of ", HumanBytes(Most(needs, &PsNeed::answering_bytes)),
      of(request_max), " with ", Most(needs, &PsNeed::ids),
      " ids (8 bytes each beside what arrives)", ", answers with rows of ",
      HumanBytes(Most(needs, &PsNeed::row_bytes)), of(rows_max)));
  if (!memory_limit.has_value()) {
    lines.push_back(absl::StrCat("a --memory-limit of ", HumanBytes(EnoughMemory(needs)),
                                 " for each ", needs.holders.name(),
                                 " is enough, without the rows that growing tables get"));
  }
  return lines;
}

}  // namespace paracord
