// The JSON of a ledger in a ps file (docs/checkpoints.md). LedgerToText, which writes it, is
// declared in storage/checkpoint.h. Pure; any thread.
#pragma once

#include "common/json_text.h"
#include "proto/ledger.pb.h"

namespace paracord {

// Throws json::exception for a key that is missing or of another type.
Ledger LedgerFromJson(const nlohmann::json& value);

}  // namespace paracord
