// A coordinator that gives each call an equal answer, behind a real listener. Owned by a test.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "common/rpc.h"
#include "proto/paracord.pb.h"
#include "proto/protocol.h"

namespace paracord {

class Answering : public Service {
 public:
  explicit Answering(const std::string& json) { reply_.set_json(json); }
  void Handle(std::string_view method, absl::Cord, std::shared_ptr<ServerCall> call) override {
    if (method != method::kStatus) return call->Reply(absl::UnimplementedError("no"));
    call->Reply(Parts{absl::Cord(reply_.SerializeAsString())});
  }

 private:
  StatusReply reply_;
};

}  // namespace paracord
