// A session on two ps with variables for a worker's copy, and the requests that the copy sends, for
// tests.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exchange/codec.h"
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
  // Adds a partition of the next number.
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
  std::map<uint32_t, std::string> bytes;  // by partition
};

inline SentRequest Sent(const ParameterCopy& copy, uint32_t ps, const ExchangeOrder& order) {
  const absl::Cord whole = Joined(copy.Request(ps, "worker:0", order));
  const DecodedRequest decoded = DecodeExchangeRequest(whole).value();
  SentRequest sent{.header = decoded.header, .bytes = {}};
  for (const PieceView& piece : decoded.pieces) {
    sent.bytes[piece.partition] += std::string(piece.data);
  }
  return sent;
}

}  // namespace paracord
