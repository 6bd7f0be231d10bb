// Sends each call to the service that its method names, so that several roles of one process share
// its listeners: "/paracord.Coordinator/Join" goes to the service "paracord.Coordinator". Owned by
// whoever owns the services; Handle may be called from many threads at once.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "common/mutex.h"
#include "common/rpc.h"

namespace paracord {

class ServiceByMethod : public Service {
 public:
  // A service that is added has to outlive this object, or to be removed before it ends. Called
  // before the first Handle.
  void Add(std::string name, Service& service);

  // Answers UNIMPLEMENTED where no service has the method's name, and UNAVAILABLE, which callers
  // try again, where the service was removed.
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

  // Hands no more calls to the service, and waits until the calls that it is being handed are
  // there. Never called by that service's own Handle, which would wait for itself.
  void Remove(std::string_view name);

 private:
  struct Entry {
    Service* service = nullptr;  // null: removed
    int inside = 0;              // calls that are being handed over
  };
  Mutex mu_;
  std::condition_variable_any left_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
