#include "cli/models_catalogue.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include "base/check.h"

namespace surety::cli {
namespace {

constexpr std::string_view kCatalogueJson =
#include "cli/models_catalogue.inc"
    ;

std::string Text(const boost::json::object& object, std::string_view key) {
  const auto* value = object.if_contains(key);
  return value == nullptr ? std::string() : std::string(value->as_string());
}

int64_t Integer(const boost::json::object& object, std::string_view key) { return object.at(key).as_int64(); }

std::vector<CatalogueModel> ParseCatalogue() {
  std::vector<CatalogueModel> models;
  const boost::json::value root = boost::json::parse({kCatalogueJson.data(), kCatalogueJson.size()});
  for (const auto& item : root.at("models").as_array()) {
    const auto& object = item.as_object();
    CatalogueModel model;
    model.name = Text(object, "name");
    model.file = Text(object, "file");
    model.size_bytes = Integer(object, "size_bytes");
    model.sha256 = Text(object, "sha256");
    model.licence = Text(object, "licence");
    model.licence_note = Text(object, "licence_note");
    model.summary = Text(object, "summary");
    model.is_default = object.contains("default");
    model.package = Text(object, "package");
    model.version = Text(object, "version");
    model.member = Text(object, "member");
    model.parts = static_cast<int>(Integer(object, "parts"));
    if (const auto* files = object.if_contains("files")) {
      for (const auto& entry : files->as_array()) {
        const auto& file = entry.as_object();
        model.files.push_back({Text(file, "path"), Integer(file, "size_bytes"), Text(file, "sha256")});
      }
    }
    models.push_back(std::move(model));
  }
  return models;
}

std::string Numbered(std::string text, int part) {
  const std::pair<std::string_view, std::string> places[] = {
      {"{n}", fmt::format("{}", part)}, {"{nn}", fmt::format("{:02}", part)}, {"{zz}", fmt::format("{:02}", part - 1)}};
  for (const auto& [place, number] : places) {
    if (const size_t at = text.find(place); at != std::string::npos) text.replace(at, place.size(), number);
  }
  return text;
}

}  // namespace

std::string CatalogueModel::PackageOf(int part) const { return Numbered(package, part); }
std::string CatalogueModel::MemberOf(int part) const { return Numbered(member, part); }

std::span<const CatalogueModel> Catalogue() {
  static const auto* models = new std::vector<CatalogueModel>(ParseCatalogue());
  return *models;
}

const CatalogueModel* FindInCatalogue(std::string_view name) {
  for (const CatalogueModel& model : Catalogue()) {
    if (model.name == name) return &model;
  }
  return nullptr;
}

const CatalogueModel& DefaultModel() {
  for (const CatalogueModel& model : Catalogue()) {
    if (model.is_default) return model;
  }
  SURETY_CHECK_MSG(false, "the catalogue names no default model");
}

}  // namespace surety::cli
