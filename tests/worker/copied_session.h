// A session on two ps, with variables for a worker's copy and access to the copy's requests, for
// tests.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "exchange/codec.h"
#include "exchange/rows.h"
#include "tests/parts.h"
#include "worker/parameter_copy.h"

namespace paracord {

struct CopiedSession {
  Session session;
  std::vector<VariableSpec> variables;

  CopiedSession() {
    session.set_run_id("run");
    for (const char* boot : {"a", "b"}) session.add_ps()->set_boot_id(boot);
  }
  // Adds a partition with the next number.
  void Add(uint32_t variable, uint64_t begin, uint64_t end, uint32_t ps) {
    PartitionSpec& partition = *session.add_partitions();
    partition.set_id(static_cast<uint32_t>(session.partitions_size()) - 1);
    partition.set_variable(variable);
    partition.set_row_begin(begin);
    partition.set_row_end(end);
    partition.set_ps(ps);
  }
};

struct SentRequest {
  ExchangeRequest header;
  std::map<uint32_t, std::string> bytes;  // keyed by partition
  std::map<std::pair<uint32_t, Piece::Part>, std::string> ids;

  RowIds Rows(const PartitionPush& push) const {
    return Rows(push.partition(), Piece::PUSH_IDS, push.rows());
  }
  RowIds Rows(const PartitionPull& pull) const {
    return Rows(pull.partition(), Piece::PULL_IDS, pull.rows());
  }

 private:
  RowIds Rows(uint32_t partition, Piece::Part part, const RowSet& rows) const {
    const auto found = ids.find({partition, part});
    const std::string bytes_of = found == ids.end() ? "" : found->second;
    CHECK(rows.bytes() == bytes_of.size());
    return DecodeRows(rows.count(), absl::Cord(bytes_of)).value();
  }
};

inline SentRequest Sent(ParameterCopy& copy, uint32_t ps, const ExchangeOrder& order) {
  const absl::Cord whole = Joined(copy.Request(ps, "worker:0", order).parts);
  const DecodedRequest decoded = DecodeExchangeRequest(whole).value();
  SentRequest sent;
  sent.header = decoded.header;
  for (const PieceView& piece : decoded.pieces) {
    const std::string data(piece.data);
    if (piece.part == Piece::VALUES) {
      sent.bytes[piece.partition] += data;
    } else {
      sent.ids[{piece.partition, piece.part}] += data;
    }
  }
  return sent;
}

// Returns where the bytes of a reply to such a request are received.
inline char* PlaceOf(ParameterCopy& copy, uint32_t ps, const ExchangeOrder& order,
                     uint32_t partition, uint64_t offset, uint64_t bytes) {
  return copy.Request(ps, "worker:0", order).place(partition, offset, bytes);
}

}  // namespace paracord
