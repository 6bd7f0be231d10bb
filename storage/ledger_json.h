// The JSON form of a ledger in a ps file (docs/checkpoints.md). LedgerToText, in
// storage/checkpoint.h, writes it. A pure function; any thread.
#pragma once

#include "common/json_text.h"
#include "proto/ledger.pb.h"

namespace paracord {

// Throws json::exception if a key is missing or has a wrong type.
Ledger LedgerFromJson(const nlohmann::json& value);

}  // namespace paracord
