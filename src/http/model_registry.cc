#include "http/model_registry.h"

#include <algorithm>

#include "base/nearest_name.h"

namespace surety::http {

const RegisteredModel* ModelRegistry::FindLocked(std::string_view name) const {
  for (const auto& [alias, root] : aliases_) {
    if (alias == name) name = root;
  }
  const auto found = std::ranges::find(models_, name, &RegisteredModel::name);
  return found == models_.end() ? nullptr : &*found;
}

Status ModelRegistry::Add(std::string name, std::shared_ptr<api::Backend> backend) {
  if (name.empty()) return InvalidArgumentError("a model needs a name");
  if (backend == nullptr) return InvalidArgumentError("model '" + name + "' has no backend");
  const std::lock_guard lock(mutex_);
  if (FindLocked(name) != nullptr) return {StatusCode::kAlreadyExists, "there is a model '" + name + "' already"};
  const RegisteredModel* current = FindLocked(default_);
  if (current == nullptr || (!current->backend->description().generates && backend->description().generates)) {
    default_ = name;
  }
  models_.push_back({std::move(name), std::move(backend)});
  return OkStatus();
}

Result<std::shared_ptr<api::Backend>> ModelRegistry::Remove(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(models_, name, &RegisteredModel::name);
  if (found == models_.end()) return Error(NotFoundError("there is no model '" + std::string(name) + "'"));
  std::shared_ptr<api::Backend> backend = std::move(found->backend);
  models_.erase(found);
  std::erase_if(aliases_, [&](const auto& alias) { return alias.second == name; });
  if (default_ == name) {
    const auto next = std::ranges::find_if(models_, [](const auto& m) { return m.backend->description().generates; });
    default_ = next != models_.end() ? next->name : models_.empty() ? "" : models_.front().name;
  }
  return backend;
}

Status ModelRegistry::AddAlias(std::string alias, std::string_view name) {
  if (alias.empty()) return InvalidArgumentError("an alias needs a name");
  const std::lock_guard lock(mutex_);
  if (std::ranges::find(models_, name, &RegisteredModel::name) == models_.end()) {
    return NotFoundError("there is no model '" + std::string(name) + "' for the alias '" + alias + "'");
  }
  if (FindLocked(alias) != nullptr) {
    return {StatusCode::kAlreadyExists, "there is a model '" + alias + "' already"};
  }
  aliases_.emplace_back(std::move(alias), name);
  return OkStatus();
}

Status ModelRegistry::SetDefault(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const RegisteredModel* model = FindLocked(name);
  if (model == nullptr) return NotFoundError("there is no model '" + std::string(name) + "'");
  default_ = model->name;
  return OkStatus();
}

Result<RegisteredModel> ModelRegistry::Find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const RegisteredModel* model = FindLocked(name.empty() ? std::string_view(default_) : name);
  if (model != nullptr) return *model;
  std::vector<std::string> known;
  for (const RegisteredModel& m : models_) known.push_back(m.name);
  for (const auto& alias : aliases_) known.push_back(alias.first);
  if (known.empty()) return Error(NotFoundError("no model is loaded"));
  std::string message = "there is no model '" + std::string(name) + "'";
  const std::string nearest = NearestName(name, known);
  if (!nearest.empty()) message += "; did you mean '" + nearest + "'?";
  message += " Known:";
  for (size_t i = 0; i < known.size(); ++i) message += (i == 0 ? " " : ", ") + known[i];
  return Error(NotFoundError(std::move(message)));
}

std::string ModelRegistry::default_model() const {
  const std::lock_guard lock(mutex_);
  return default_;
}

std::vector<ModelRegistry::Listing> ModelRegistry::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<Listing> list;
  for (const RegisteredModel& model : models_) {
    list.push_back({model.name, model.name, model.backend});
    for (const auto& [alias, root] : aliases_) {
      if (root == model.name) list.push_back({alias, root, model.backend});
    }
  }
  return list;
}

}  // namespace surety::http
