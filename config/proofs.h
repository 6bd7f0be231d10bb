// A rejection is the proof that the coordinator has decided that a batch is entered without its
// gradients. A worker gets it with its lease and shows it to the ps, so that no worker can have a
// sound batch left out by itself. It is HMAC-SHA256 of the batch, cut to 16 bytes, under a key that
// the coordinator draws and tells the ps alone when it adopts them. Pure.
#pragma once

#include <string>
#include <string_view>

#include "proto/paracord.pb.h"

namespace paracord {

std::string RejectionOf(std::string_view key, const BatchId& batch);

// Whether `rejection` is that of the batch; it takes as long for each wrong one.
bool IsRejection(std::string_view rejection, std::string_view key, const BatchId& batch);

}  // namespace paracord
