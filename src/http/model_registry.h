// The models that requests can name: names, aliases, and the one that answers where no name is given.
//
// Threads: any. Owns: shares the backends. Who removes one drains it before letting go of it: requests in flight do not
// keep it alive.
// Invariants: (1) a name or alias means one model. (2) An alias and the default lead to a model that is there.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/backend.h"
#include "base/status.h"

namespace surety::http {

struct RegisteredModel {
  std::string name;
  std::shared_ptr<api::Backend> backend;
};

class ModelRegistry {
 public:
  // The first model that generates text becomes the default (else the first). kAlreadyExists, kInvalidArgument.
  Status Add(std::string name, std::shared_ptr<api::Backend> backend);
  // Also its aliases; the default moves to a model that is left. kNotFound. The backend that was removed.
  Result<std::shared_ptr<api::Backend>> Remove(std::string_view name);
  // kNotFound if there is no model `name`, kAlreadyExists if `alias` names something else.
  Status AddAlias(std::string alias, std::string_view name);
  Status SetDefault(std::string_view name);

  // By name or alias; empty: the default. kNotFound naming the known ones.
  Result<RegisteredModel> Find(std::string_view name) const;
  std::string default_model() const;  // empty if there is none

  struct Listing {
    std::string id;     // name or alias
    std::string root;   // name
    std::shared_ptr<api::Backend> backend;
  };
  // Models in the order in which they were added, each followed by its aliases.
  std::vector<Listing> List() const;

 private:
  const RegisteredModel* FindLocked(std::string_view name) const;

  mutable std::mutex mutex_;
  std::vector<RegisteredModel> models_;
  std::vector<std::pair<std::string, std::string>> aliases_;  // alias, name
  std::string default_;
};

}  // namespace surety::http
