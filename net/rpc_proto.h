// Calls with generated protobuf messages of modest size.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/rpc.h"

namespace paracord {

template <class Message>
absl::StatusOr<Message> ParseMessage(const absl::Cord& bytes) {
  Message message;
  if (!message.ParseFromString(std::string(bytes))) {
    return absl::InvalidArgumentError(
        absl::StrCat("malformed ", message.GetTypeName(), " of ", bytes.size(), " bytes"));
  }
  return message;
}

template <class Message>
Parts ToParts(const Message& message) {
  return Parts{absl::Cord(message.SerializeAsString())};
}

// Makes a call; `done` takes an absl::StatusOr<Reply>. A malformed reply gives INVALID_ARGUMENT.
template <class Reply, class Request, class Done>
void CallProto(Link& link, std::string_view method, const Request& request, int64_t deadline_ms,
               Done done) {
  link.Call(method, ToParts(request), deadline_ms,
            [done = std::move(done)](absl::StatusOr<absl::Cord> reply) mutable {
              if (!reply.ok()) return done(absl::StatusOr<Reply>(reply.status()));
              done(ParseMessage<Reply>(*reply));
            });
}

// Makes a call and blocks until its reply has come. Must not be used on an event loop.
template <class Reply, class Request>
absl::StatusOr<Reply> AwaitProto(Link& link, std::string_view method, const Request& request,
                                 int64_t deadline_ms) {
  const auto promise = std::make_shared<std::promise<absl::StatusOr<Reply>>>();
  std::future<absl::StatusOr<Reply>> future = promise->get_future();
  CallProto<Reply>(link, method, request, deadline_ms, [promise](absl::StatusOr<Reply> reply) {
    promise->set_value(std::move(reply));
  });
  return future.get();
}

// Parses the request. On failure replies INVALID_ARGUMENT and returns null.
template <class Request>
std::unique_ptr<Request> ParseRequest(const absl::Cord& bytes, ServerCall& call) {
  absl::StatusOr<Request> request = ParseMessage<Request>(bytes);
  if (!request.ok()) {
    call.Reply(request.status());
    return nullptr;
  }
  return std::make_unique<Request>(*std::move(request));
}

}  // namespace paracord
