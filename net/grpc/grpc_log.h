// Sends gRPC's log to this process's logger, with our format and level. Called once, before other
// threads start.
#pragma once

namespace paracord {

// From this call on, gRPC's errors are logged as warnings of the task "grpc", and its messages of
// level info or debug at that level. A failed TLS handshake is logged at level debug only, because
// gRPC cannot name the peer.
void LogGrpcAsOurs();

}  // namespace paracord
