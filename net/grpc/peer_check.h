// Makes gRPC's credentials for a channel. They decide which certificate the link shows, and which
// role the peer must have. The constructor reads the keys. Private to this folder; thread-safe.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "security/credentials.h"

namespace paracord {

class PeerCheck {
 public:
  // `credentials` null: the channel is plain text. `expected` is the role that the peer at
  // `address` must have; nullopt: any role, but the token is shown to a ps or coordinator alone.
  PeerCheck(std::shared_ptr<Credentials> credentials, std::string address,
            std::optional<PeerRole> expected);

  std::shared_ptr<grpc::ChannelCredentials> ForGrpc() const;
  // Returns the token to show with each call; "" if the link shows a certificate or is plain text.
  std::string token() const;
  // Whether a channel made with this check will do for `other`, a check for the same address: the
  // keys and the expected role of both are the same.
  bool SameAs(const PeerCheck& other) const;
  // For the error of a call that reached no peer: says why the last peer was refused. If none was,
  // says that what listens there does not speak TLS with a certificate that --tls-ca signs, or
  // refuses our certificate. "" in plain text.
  std::string problem() const;

 private:
  class Verifier;
  struct Findings;

  std::shared_ptr<Credentials> credentials_;
  std::shared_ptr<const Credentials::Keys> keys_;  // null: plain text
  std::string address_;
  std::optional<PeerRole> expected_;
  std::shared_ptr<Findings> findings_;  // shared with gRPC's verifier, which may outlive the check
};

}  // namespace paracord
