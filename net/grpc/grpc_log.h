// Sends gRPC's log to this process's logger, with our format and level. Called once, before other
// threads start.
#pragma once

namespace paracord {

// From then on, gRPC's errors are logged as warnings of the task "grpc", and what it says at level
// info or debug at that level. A TLS handshake that fails is logged at level debug only: gRPC
// cannot name the peer, and whoever dialled or listened reports it with the peer's address.
void LogGrpcAsOurs();

}  // namespace paracord
