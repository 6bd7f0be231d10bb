// The JSON form of a ledger in a ps file (docs/checkpoints.md). LedgerToText, in
// storage/checkpoint.h, writes this form.
#pragma once

#include "common/json_text.h"
#include "proto/ledger.pb.h"

namespace paracord {

// Throws json::exception if a value has a wrong type, or a key is missing; a missing "steps" is 0.
Ledger LedgerFromJson(const nlohmann::json& value);

}  // namespace paracord
