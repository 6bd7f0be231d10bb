// Passes each call to the service that its method names, which lets several roles of a process
// share listeners: "/paracord.Coordinator/Join" goes to the service "paracord.Coordinator". Owned
// by the owner of the services; Handle may be called from many threads at once.
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
  // Adds a service, which has to outlive this object or be removed first. Called before the first
  // Handle.
  void Add(std::string name, Service& service);

  // Answers UNIMPLEMENTED if the service is unknown, and UNAVAILABLE, which makes callers try
  // again, if the service was removed.
  void Handle(std::string_view method, absl::Cord request,
              std::shared_ptr<ServerCall> call) override;

  // Hands no more calls to the service, and waits until every Handle of the service has returned. A
  // service that calls Remove for itself from its own Handle deadlocks.
  void Remove(std::string_view name);

 private:
  struct Entry {
    Service* service = nullptr;  // null: removed
    int inside = 0;              // calls inside the service's Handle
  };
  Mutex mu_;
  std::condition_variable_any left_;
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mu_);
};

}  // namespace paracord
