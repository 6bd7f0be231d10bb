// Makes gRPC's credentials for a channel: the certificate shown by the link, and the role expected
// of the peer. Keys are read at construction. Private to this folder; thread-safe.
#pragma once

#include <grpcpp/security/credentials.h>

#include <memory>
#include <optional>
#include <string>

#include "security/credentials.h"

namespace paracord {

class PeerCheck {
 public:
  // `credentials` may be null: plain text. `expected` is the role of the peer at `address`, if any
  // role will not do.
  PeerCheck(std::shared_ptr<Credentials> credentials, std::string address,
            std::optional<PeerRole> expected);

  std::shared_ptr<grpc::ChannelCredentials> ForGrpc() const;
  // Returns the token to show with each call; "" if a certificate is shown, or nothing.
  std::string token() const;
  // Whether a channel with this check serves where `other` is wanted.
  bool SameAs(const PeerCheck& other) const;
  // Returns why the last peer was refused, or another finding about the certificate; "" in plain
  // text, which finds nothing.
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
